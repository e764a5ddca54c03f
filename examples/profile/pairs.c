// Pairs of malloc(64) and free: pairs THREADS PAIRS.
#include <pthread.h>
#include <stdlib.h>

static long pairs;

static void *work(void *unused) {
    for (long at = 0; at < pairs; at++) {
        char *volatile block = malloc(64);
        free(block);
    }
    return unused;
}

int main(int count, char **words) {
    long threads = count > 1 ? atol(words[1]) : 1;
    pairs = count > 2 ? atol(words[2]) : 1000000;
    pthread_t all[64];
    for (long at = 1; at < threads && at < 64; at++) pthread_create(&all[at], NULL, work, NULL);
    work(NULL);
    for (long at = 1; at < threads && at < 64; at++) pthread_join(all[at], NULL);
}
