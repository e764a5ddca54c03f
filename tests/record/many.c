// Many threads at one time. Each makes 100 blocks, waits for all others, frees its own, and one of its neighbour.
#include <pthread.h>
#include <stdlib.h>

enum { BLOCKS = 100 };

static int threads;
static void **given;
static pthread_barrier_t all;

static void *work(void *number) {
    long self = (long)number;
    char *own[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) {
        own[at] = malloc(16 + at * 8);
        own[at][0] = 1;
    }
    given[self] = malloc(100);
    pthread_barrier_wait(&all);
    for (int at = 0; at < BLOCKS; at++) free(own[at]);
    free(given[(self + 1) % threads]);
    return NULL;
}

int main(int count, char **words) {
    threads = count > 1 ? atoi(words[1]) : 1000;
    given = malloc(threads * sizeof *given);
    pthread_t *started = malloc(threads * sizeof *started);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_barrier_init(&all, NULL, threads);
    for (long at = 0; at < threads; at++)
        if (pthread_create(&started[at], &attributes, work, (void *)at)) return 1;
    for (int at = 0; at < threads; at++) pthread_join(started[at], NULL);
    free(started);
    free(given);
    return 0;
}
