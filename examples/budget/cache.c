// A cache that is built anew by one worker after the other: a worker makes the next generation, entries of 16 to 48 KiB, while the one
// before it still serves; then it becomes the cache, and the worker that made the old one drops it. Two generations are alive at most.
//
//   cache [MiB of a generation] [GENERATIONS] [WORKERS]
//
// Prints a sum that is the same under each allocator.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8192 };
static size_t bytes_of_all;
static int generations, workers, turn;
static unsigned long sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;

static size_t build(char **entries, unsigned seed) {
    size_t count = 0;
    for (size_t bytes = 0; bytes < bytes_of_all && count < MOST; count++) {
        seed = seed * 1664525u + 1013904223u;
        size_t size = (16u << 10) + (seed >> 16) % (32u << 10);
        entries[count] = malloc(size);
        if (!entries[count]) abort();
        memset(entries[count], (int)count, size);
        sum += size + (unsigned char)entries[count][size / 2];
        bytes += size;
    }
    return count;
}

// Worker w makes generations w, w + workers, ...: in turn t it makes one, and the one of turn t - 1 is dropped by its own worker.
static void *work(void *number) {
    int me = (int)(size_t)number;
    char **entries = calloc(MOST, sizeof *entries);
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (turn / 2 < generations && (turn % 2 ? (turn / 2 + workers - 1) % workers : turn / 2 % workers) != me)
            pthread_cond_wait(&next, &lock);
        if (turn / 2 >= generations) break;
        if (turn % 2 == 0) {
            count = build(entries, (unsigned)turn + 7);
        } else {
            while (count > 0) free(entries[--count]);
        }
        turn++;
        pthread_cond_broadcast(&next);
    }
    pthread_mutex_unlock(&lock);
    while (count > 0) free(entries[--count]);
    free(entries);
    return NULL;
}

int main(int count, char **words) {
    bytes_of_all = (size_t)(count > 1 ? atoi(words[1]) : 48) << 20;
    generations = count > 2 ? atoi(words[2]) : 24;
    workers = count > 3 ? atoi(words[3]) : 8;
    pthread_t *threads = calloc((size_t)workers, sizeof *threads);
    for (size_t at = 0; at < (size_t)workers; at++)
        if (pthread_create(&threads[at], NULL, work, (void *)at)) return 1;
    for (int at = 0; at < workers; at++) pthread_join(threads[at], NULL);
    free(threads);
    printf("%lu\n", sum);
    return 0;
}
