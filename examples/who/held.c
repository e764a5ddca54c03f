// A service that holds 48 MiB from its start until SIGTERM, in blocks of threads that are slow or busy. Its own sum is exact.
//   cc -O1 -pthread held.c -o held && ./held 8 slow
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOTAL = 48 << 20, BLOCKS = 8 };

static volatile int stop, is_busy, threads;
static pthread_barrier_t made;

static void end(int number) {
    (void)number;
    stop = 1;
}

// The one site that holds.
__attribute__((noinline)) static void *hold(size_t size) {
    void *block = malloc(size);
    memset(block, 1, size);
    return block;
}

static void *work(void *unused) {
    (void)unused;
    void *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) {
        blocks[at] = hold(TOTAL / threads / BLOCKS);
        if (!is_busy)
            usleep(20000);
    }
    pthread_barrier_wait(&made);
    while (!stop) {
        // Busy: pairs without an end, and time without a pair.
        for (int at = 0; is_busy && at < 100; at++) {
            void *volatile block = malloc(16 + at);
            free(block);
        }
        usleep(is_busy ? 2000 : 20000);
    }
    for (int at = 0; at < BLOCKS; at++)
        free(blocks[at]);
    return NULL;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    threads = atoi(words[1]);
    is_busy = strcmp(words[2], "busy") == 0;
    signal(SIGTERM, end);
    pthread_t all[threads];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 17);
    pthread_barrier_init(&made, NULL, threads + 1);
    for (int at = 0; at < threads; at++)
        pthread_create(&all[at], &small, work, NULL);
    pthread_barrier_wait(&made);
    puts("ready");
    fflush(stdout);
    for (int at = 0; at < threads; at++)
        pthread_join(all[at], NULL);
    return 0;
}
