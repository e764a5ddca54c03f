// Threads that wait and may be cancelled at any instruction. They are cancelled at random moments, also while a preload gives back
// what they keep. Then the main thread allocates: no cancelled thread may have left a lock held.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 600, BLOCKS = 400 };
static volatile int waits;

static void *waiting(void *nothing) {
    void *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) {
        blocks[at] = malloc(3000 + at * 70);
        memset(blocks[at], 1, 3000);
    }
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    waits = 1;
    for (;;) poll(NULL, 0, 200);
    return nothing;
}

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void) {
    unsigned seed = 7;
    alarm(300); // in case a lock is held for ever
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *end = NULL;
        waits = 0;
        pthread_create(&thread, NULL, waiting, NULL);
        while (!waits) sched_yield();
        for (long until = now() + 950000 + rand_r(&seed) % 500000; now() < until;) {}
        pthread_cancel(thread);
        pthread_join(thread, &end);
        if (end != PTHREAD_CANCELED) return 1;
        void *blocks[100];
        for (int at = 0; at < 100; at++) blocks[at] = malloc(100 + at * 300);
        for (int at = 0; at < 100; at++) free(blocks[at]);
    }
    puts("ok");
    return 0;
}
