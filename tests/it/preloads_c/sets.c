// select and pselect with sets that end where their memory ends. Programs allocate howmany(n, 64) words, and the kernel
// touches no more. The page after each set cannot be read or written. Prints only failures.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int ends[2], kept;

// A set for n descriptors at the end of a page, with an inaccessible page after it.
static unsigned long *set_of(int n) {
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) abort();
    size_t bytes = (size_t)(n + 63) / 64 * 8;
    return (unsigned long *)(pages + page - bytes);
}

static void put(unsigned long *set, int file) { set[file / 64] |= 1UL << file % 64; }
static int has(unsigned long *set, int file) { return set[file / 64] >> file % 64 & 1; }

static void *write_later(void *nothing) {
    struct timespec t = {0, 30000000};
    syscall(SYS_nanosleep, &t, NULL);
    if (write(ends[1], "x", 1) != 1) abort();
    return nothing;
}

// Waits for the pipe's end `file` without a time limit, until another thread has written.
static void check(int n, int file, int with_pselect) {
    unsigned long *read = set_of(n), *write = set_of(n), *error = set_of(n);
    put(read, file);
    put(error, file);
    pthread_t writer;
    pthread_create(&writer, NULL, write_later, NULL);
    int came = with_pselect ? pselect(n, (fd_set *)read, (fd_set *)write, (fd_set *)error, NULL, NULL)
                            : select(n, (fd_set *)read, (fd_set *)write, (fd_set *)error, NULL);
    if (came != 1 || !has(read, file) || has(error, file)) {
        printf("n %d, pselect %d: answer %d, errno %d\n", n, with_pselect, came, errno);
        kept = 1;
    }
    pthread_join(writer, NULL);
    char byte;
    if (read == NULL || syscall(SYS_read, file, &byte, 1) != 1) abort();
}

int main(void) {
    if (pipe(ends) != 0) abort();
    int numbers[] = {0, 63, 64, 127, 500};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int file = numbers[i] == 0 ? ends[0] : dup2(ends[0], numbers[i]);
        if (file < 0) abort();
        for (int with_pselect = 0; with_pselect < 2; with_pselect++) check(file + 1, file, with_pselect);
    }
    return kept;
}
