// Four threads take blocks out of slots, put them into others, and free and allocate. 5,000 blocks are lost. Waits until its input ends.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 20000
static void *slots[4][SLOTS];

static void *work(void *argument) {
    long own = (long)argument, other = (own + 1) % 4;
    unsigned random = own * 77 + 1;
    for (;;) {
        unsigned one = (random = random * 1664525 + 1013904223) % SLOTS, two = (random = random * 1664525 + 1013904223) % SLOTS;
        void *taken = __atomic_exchange_n(&slots[own][one], 0, __ATOMIC_SEQ_CST);
        void *moved = __atomic_exchange_n(&slots[other][two], taken, __ATOMIC_SEQ_CST);
        if (random & 64) {
            free(moved);
            moved = malloc(16 + (random >> 8) % 300);
            memset(moved, 1, 16);
        }
        free(__atomic_exchange_n(&slots[own][one], moved, __ATOMIC_SEQ_CST));
    }
    return 0;
}

static void __attribute__((noinline)) lose(void) {
    for (int at = 0; at < 5000; at++) {
        char *block = malloc(48);
        memset(block, 'L', 48);
        __asm__ volatile("" ::"r"(block));
    }
}

static void __attribute__((noinline)) clear(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main(void) {
    for (int own = 0; own < 4; own++)
        for (int at = 0; at < SLOTS; at++) slots[own][at] = memset(malloc(16 + at % 300), 2, 16);
    lose();
    clear();
    puts("lost=5000");
    fflush(stdout);
    pthread_t thread;
    for (long own = 0; own < 4; own++) pthread_create(&thread, 0, work, (void *)own);
    return getchar() == 0;
}
