// A thread that shall be cancelled allocates for 0.1 s before it asks. malloc is no place for a cancellation.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int asked;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *work(void *ready) {
    pthread_barrier_wait(ready);
    for (double end = now() + 0.1; now() < end;)
        for (int at = 0; at < 1000; at++) {
            void *volatile block = malloc(16 + at);
            free(block);
        }
    asked = 1;
    pthread_testcancel();
    return NULL;
}

int main(void) {
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, 2);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, work, &ready);
    pthread_cancel(thread);
    pthread_barrier_wait(&ready);
    pthread_join(thread, &result);
    int is_good = result == PTHREAD_CANCELED && asked;
    puts(is_good ? "cancelled where it asked" : "cancelled elsewhere");
    return !is_good;
}
