// Blocks of one size each, with the stack of each as the C library's `backtrace` sees it: a line for a block.
// Recursion, alloca, an aligned stack, jumps, a handler on a stack of its own, callbacks of the C library, and threads.
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long next_size = 1000;

// The first frame differs: one of the two calls in here.
__attribute__((noinline)) static void take(void) {
    long size = __atomic_add_fetch(&next_size, 8, __ATOMIC_SEQ_CST);
    void *frames[400];
    char line[8192];
    char *block = size % 3 == 0 ? calloc(1, size) : size % 3 == 1 ? realloc(malloc(8), size) : malloc(size);
    int count = backtrace(frames, 400), length = snprintf(line, sizeof line, "%ld", size);
    for (int at = 1; at < count; at++)
        length += snprintf(line + length, sizeof line - length, " %lx", (unsigned long)frames[at]);
    line[length++] = '\n';
    if (write(1, line, length) != length)
        abort();
    if (size % 16 == 0)
        free(block);
}

__attribute__((noinline)) static int recurse(int depth, unsigned turn) {
    volatile char *place = alloca(16 + 64 * (turn % 7));
    *place = 1;
    if (depth == 0) {
        take();
        return *place;
    }
    int found = recurse(depth - 1, turn * 7 + 3);
    if (turn % 3 == 0)
        take();
    return found + *place;
}

__attribute__((noinline)) static int aligned(int depth) {
    _Alignas(64) volatile char place[128];
    volatile char *more = alloca(32 * (depth % 5) + 8);
    place[0] = more[0] = 1;
    take();
    return depth > 0 ? aligned(depth - 1) + place[0] + more[0] : recurse(3, depth);
}

static jmp_buf back;

__attribute__((noinline)) static void jump(int depth) {
    take();
    if (depth == 0)
        longjmp(back, 1);
    jump(depth - 1);
    take();
}

static void handler(int signal) {
    (void)signal;
    recurse(4, 5);
}

static int order(const void *one, const void *other) {
    take();
    return *(const int *)one - *(const int *)other;
}

static void *thread(void *turn) {
    for (int round = 0; round < 30; round++)
        recurse(round % 12, round + (unsigned)(long)turn);
    return NULL;
}

int main(void) {
    void *first[2];
    backtrace(first, 2); // loads the unwinder's library
    for (int round = 0; round < 40; round++)
        recurse(round % 20, round);
    aligned(9);
    for (int depth = 0; depth < 10; depth++)
        if (setjmp(back) == 0)
            jump(depth);
        else
            take();
    stack_t own = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    recurse(2, 1);
    raise(SIGUSR1);
    int numbers[16];
    for (int at = 0; at < 16; at++)
        numbers[at] = at * 7 % 16;
    qsort(numbers, 16, sizeof *numbers, order);
    pthread_t threads[4];
    for (long at = 0; at < 4; at++)
        pthread_create(&threads[at], NULL, thread, (void *)at);
    for (int at = 0; at < 4; at++)
        pthread_join(threads[at], NULL);
    recurse(300, 1); // deeper than what is recorded
    kill(getpid(), SIGKILL);
}
