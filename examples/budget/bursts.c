// A service in two phases. 16 threads handle requests: each allocates its part of a burst in blocks of 64 bytes to 32 KiB, writes
// to them, frees them and waits. Then one thread makes a report: it allocates as much in blocks of 16 MiB, writes to them and frees
// them. No more than one burst is alive at any time. What the allocator keeps for the threads that wait comes on top.
//
//   bursts [MiB of a burst] [ROUNDS] [MiB that stays alive]
//
// Prints a sum that is the same under each allocator, rounds per second, and the most resident memory in MiB.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 16, LARGE = 16 << 20 };
static size_t burst_bytes;
static int rounds;
static pthread_barrier_t begin, end;

static unsigned next(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static void *filled(size_t size, int byte) {
    void *block = malloc(size);
    if (!block) abort();
    return memset(block, byte, size);
}

static void *requests(void *of) {
    unsigned seed = (unsigned)(size_t)of;
    size_t room = burst_bytes / THREADS / 64 + 1, sum = 0;
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&begin);
        char **blocks = malloc(room * sizeof *blocks);
        size_t count = 0;
        for (size_t bytes = 0; bytes < burst_bytes / THREADS;) {
            size_t size = 64u << (next(&seed) >> 16) % 10;
            blocks[count] = filled(size, (int)size);
            sum += size + (size_t)blocks[count++][size / 2];
            bytes += size;
        }
        for (size_t at = 0; at < count; at++) free(blocks[at]);
        free(blocks);
        pthread_barrier_wait(&end);
    }
    return (void *)sum;
}

int main(int count, char **words) {
    burst_bytes = (count > 1 ? strtoul(words[1], NULL, 10) : 128) << 20;
    rounds = count > 2 ? atoi(words[2]) : 16;
    size_t stays = (count > 3 ? strtoul(words[3], NULL, 10) : 16) << 20;
    void *alive = filled(stays, 1);
    pthread_t threads[THREADS];
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (size_t at = 0; at < THREADS; at++)
        if (pthread_create(&threads[at], NULL, requests, (void *)(at + 7))) return 1;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    size_t sum = 0;
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        char *report[1024];
        size_t large = burst_bytes / LARGE;
        for (size_t at = 0; at < large && at < 1024; at++) report[at] = filled(LARGE, round);
        for (size_t at = 0; at < large && at < 1024; at++) {
            sum += (size_t)report[at][LARGE / 2];
            free(report[at]);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (int at = 0; at < THREADS; at++) {
        void *part;
        pthread_join(threads[at], &part);
        sum += (size_t)part;
    }
    free(alive);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    long kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kib);
    printf("%zu %.2f %ld\n", sum, rounds / seconds, kib / 1024);
    return 0;
}
