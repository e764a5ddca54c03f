// A million stacks, for memory.py: each number of 20 bits is a path of calls, and allocates a block that is kept.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

__attribute__((noinline)) static void down(unsigned path, int depth) {
    if (depth == 0) kept = malloc(100);
    // Two calls at two places, so that the stacks differ; the assembly keeps the compiler from making jumps of them.
    else if (path & 1) down(path >> 1, depth - 1);
    else down(path >> 1, depth - 1);
    __asm__ volatile("" : : : "memory");
}

static void *work(void *part) {
    for (unsigned path = (unsigned)(long)part; path < 1 << 20; path += 8) down(path, 20);
    return NULL;
}

int main(void) {
    pthread_t all[8];
    for (long at = 0; at < 8; at++) pthread_create(&all[at], NULL, work, (void *)at);
    for (int at = 0; at < 8; at++) pthread_join(all[at], NULL);
    puts("ready");
    fflush(stdout);
    pause();
}
