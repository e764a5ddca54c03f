/* A program that knows what each of its functions has allocated, for arm-sites.sh: lists, zeroed, grown and aligned blocks, blocks of other
 * threads that the main thread frees, of a signal's handler on a stack of its own, of a comparison that qsort calls, and garbage.
 * Arguments: how many of each; a file; `fork`, if a child shall allocate in `child` and end. It writes a line `NAME LIVE_BYTES LIVE_BLOCKS
 * ALLOCATED_BYTES ALLOCATIONS` for each function to the file, then `ready` to its output, and waits for a signal.
 * With `lines` it allocates, says `waits`, and after each line of input does the same again, with counts from zero. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTED, ZEROED, GROWN, ALIGNED, THREADED, HANDLED, COMPARED, GARBAGE, SITES };
static const char *const names[] = {"listed", "zeroed", "grown", "aligned", "threaded", "handled", "compared", "garbage"};
static struct { long live, blocks, allocated, times; } of[SITES];

static void *count(int site, void *block, long bytes, long freed, int is_new) {
    if (!block) abort();
    __atomic_add_fetch(&of[site].live, bytes - freed, __ATOMIC_RELAXED);
    __atomic_add_fetch(&of[site].blocks, is_new, __ATOMIC_RELAXED);
    __atomic_add_fetch(&of[site].allocated, bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&of[site].times, 1, __ATOMIC_RELAXED);
    return block;
}
static void gone(int site, long bytes) { of[site].live -= bytes, of[site].blocks--; }

struct link { struct link *next; char body[40]; };
static struct link *head;

__attribute__((noinline)) static void listed(int depth) {
    struct link *one = count(LISTED, malloc(sizeof *one), sizeof *one, 0, 1);
    one->next = head, head = one;
    if (depth > 0) listed(depth - 1);
    head->body[0] = (char)depth;
}
__attribute__((noinline)) static void *zeroed(long bytes) {
    char *block = count(ZEROED, calloc(3, bytes), 3 * bytes, 0, 1);
    return block[0] = 1, block;
}
__attribute__((noinline)) static char *grown(int times) {
    char *block = NULL;
    for (int at = 1; at <= times; at++) {
        block = count(GROWN, realloc(block, at * 1000), at * 1000, (at - 1) * 1000, at == 1);
        block[at * 1000 - 1] = 1;
    }
    return block;
}
__attribute__((noinline)) static void *aligned(int which) {
    void *block = NULL;
    if (which % 2) block = aligned_alloc(64, 640);
    else if (posix_memalign(&block, 4096, 640)) abort();
    return memset(count(ALIGNED, block, 640, 0, 1), 1, 640);
}
enum { THREADS = 4, EACH = 1000, MOST = 64 };
static char *kept[MOST][THREADS][EACH], *other[MOST * 1000];
static int scale = 1;

__attribute__((noinline)) static void *threaded(void *number) {
    for (int round = 0; round < scale; round++)
        for (long at = 0; at < EACH; at++) {
            long bytes = 100 + at % 50;
            memset(kept[round][(long)number][at] = count(THREADED, malloc(bytes), bytes, 0, 1), 1, bytes);
        }
    return NULL;
}
static int handled_now;
__attribute__((noinline)) static void handled(void) {
    other[handled_now] = memset(count(HANDLED, malloc(2000), 2000, 0, 1), 1, 2000);
    handled_now++;
}
static void handler(int signal) { (void)signal, handled(); }

static struct link *compares;
__attribute__((noinline)) static int compared(const void *one, const void *two) {
    struct link *block = count(COMPARED, malloc(sizeof *block), sizeof *block, 0, 1);
    block->next = compares, compares = block;
    return *(const int *)one - *(const int *)two;
}
__attribute__((noinline)) static void garbage(int times) {
    for (int at = 0; at < times; at++) {
        char *volatile block = count(GARBAGE, malloc(16 + at % 500), 16 + at % 500, 0, 1);
        free(block);
        gone(GARBAGE, 16 + at % 500);
    }
}
__attribute__((noinline)) static void child(void) {
    for (int at = 0; at < 500; at++) memset(malloc(1000), 1, 1000);
}

/* Allocates in each function. */
static void allocates(void) {
    for (int at = 0; at < 100 * scale; at++) listed(at % 200);
    for (int at = 0; at < 300 * scale; at++) zeroed(1000 + at % 97 * 20);
    for (int at = 0; at < 10 * scale; at++) grown(40);
    for (int at = 0; at < 500 * scale; at++) aligned(at);
    pthread_t threads[THREADS];
    for (long at = 0; at < THREADS; at++)
        if (pthread_create(&threads[at], NULL, threaded, (void *)at)) abort();
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    for (int round = 0; round < scale; round++)
        for (int at = 0; at < THREADS; at++)
            for (int block = at; block < EACH; block += 2) {
                free(kept[round][at][block]);
                gone(THREADED, 100 + block % 50);
            }
    handled_now = 0;
    for (int at = 0; at < 200 * scale; at++) raise(SIGUSR1);
    for (int round = 0; round < scale; round++) {
        int numbers[512];
        for (int at = 0; at < 512; at++) numbers[at] = at * 7919 % 512;
        qsort(numbers, 512, sizeof *numbers, compared);
    }
    garbage(20000 * scale);
}

/* Writes what each function has, and says so. */
static int tell(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) return perror(path), 0;
    for (int at = 0; at < SITES; at++)
        fprintf(file, "%s %ld %ld %ld %ld\n", names[at], of[at].live, of[at].blocks, of[at].allocated, of[at].times);
    fclose(file);
    puts("ready");
    fflush(stdout);
    return 1;
}

/* Counts from zero after each line of input. The list of before is freed first. */
static int after_each_line(const char *path) {
    puts("waits");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) == 1;) {
        if (byte != '\n') continue;
        memset(of, 0, sizeof of);
        while (head) {
            struct link *next = head->next;
            free(head);
            head = next;
        }
        allocates();
        if (!tell(path)) return 1;
    }
    return 0;
}

int main(int many, char **words) {
    static char stack[64 << 10];
    // The kernel shall not change what is resident by itself, as it does when it makes huge pages.
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) perror("prctl");
    scale = many > 2 ? atoi(words[1]) : 0;
    if (scale < 1 || scale > MOST) return fprintf(stderr, "usage: sites NUMBER FILE [fork|lines], with a number from 1 to %d\n", MOST), 2;
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&own, NULL) || sigaction(SIGUSR1, &action, NULL)) abort();
    allocates();
    if (many > 3 && strcmp(words[3], "lines") == 0) return after_each_line(words[2]);
    if (many > 3 && strcmp(words[3], "fork") == 0) {
        pid_t pid = fork();
        if (pid == 0) child(), _exit(0);
        if (waitpid(pid, NULL, 0) != pid) abort();
    }
    if (!tell(words[2])) return 1;
    for (;;) pause();
}
