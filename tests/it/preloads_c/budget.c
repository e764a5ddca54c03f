// Allocates as the first argument says, to test the setting `memory_budget`. Large blocks are written to, because untouched memory is not
// reported.
//   far      640 blocks of 1 MiB, one after the other
//   below    three times a block of 64 MiB, which is kept
//   sparse   blocks of 64 MiB and of 15 MiB that are not touched, and one of 2^62 bytes that cannot be allocated; then 640 of 1 KiB
//   handler  twice a block of 64 MiB, in a signal handler that has not interrupted an allocation; then once outside of the handler
//   fork     nothing in the parent; its child does the same as `below`, but twice
//   kept     51 MiB that are touched, and one block of 8 MiB that is freed; fails if its pages are in memory then
//   threads  a block of 128 MiB and one of 512 KiB, then eight threads that each allocate 40 KiB four times
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile last;

static void allocate(size_t size) {
    last = malloc(size);
    if (!last) abort();
}

static void fill(size_t size) {
    allocate(size);
    memset(last, 1, size);
}

static void handler(int signal) {
    (void)signal;
    for (int i = 0; i < 2; i++) fill(64 << 20);
}

static void *work(void *nothing) {
    for (int i = 0; i < 4; i++) {
        allocate(40 << 10);
        free(last);
    }
    return nothing;
}

// The pages of a range that are in memory.
static int pages(char *from, size_t bytes) {
    int found = 0;
    unsigned char here;
    // A page that is not mapped any more is an error.
    for (char *at = from; at < from + bytes; at += 4096) found += mincore(at, 4096, &here) == 0 && (here & 1);
    return found;
}

static void *one_block(void *nothing) {
    // glibc takes blocks as large as one that was freed from the thread's arena from then on, and keeps twice as much.
    allocate(24 << 20);
    free(last);
    for (int i = 0; i < 51; i++) fill(1 << 20);
    fill(8 << 20);
    char *first = (char *)(((uintptr_t)last + 4095) & ~(uintptr_t)4095);
    size_t whole = (8 << 20) - 4096;
    int before = pages(first, whole);
    free(last);
    int after = pages(first, whole);
    printf("%d pages of the block are in memory, %d after it was freed\n", before, after);
    // The allocator may keep the end of an arena.
    return (void *)(intptr_t)(before < 2000 || after > 100);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    if (!strcmp(how, "far")) {
        for (int i = 0; i < 640; i++) {
            allocate(1 << 20);
            free(last);
        }
    } else if (!strcmp(how, "below")) {
        for (int i = 0; i < 3; i++) fill(64 << 20);
    } else if (!strcmp(how, "sparse")) {
        allocate(64 << 20);
        allocate(15 << 20);
        last = malloc((size_t)1 << 62);
        if (last) abort();
        for (int i = 0; i < 640; i++) allocate(1 << 10);
    } else if (!strcmp(how, "handler")) {
        signal(SIGUSR1, handler);
        raise(SIGUSR1);
        if (count > 2) fill(64 << 20);
    } else if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 2; i++) fill(64 << 20);
            return 0;
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
    } else if (!strcmp(how, "kept")) {
        pthread_t thread;
        void *is_kept;
        if (pthread_create(&thread, NULL, one_block, NULL) || pthread_join(thread, &is_kept)) return 1;
        if (is_kept) return 3;
    } else if (!strcmp(how, "threads")) {
        fill(128 << 20);
        fill(512 << 10);
        for (int i = 0; i < 8; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL)) return 1;
        }
    } else {
        return 2;
    }
    return 0;
}
