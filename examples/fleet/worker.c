// A service for the costs of an agent: some threads, a heap with holes, and a little work each second.
// cc -O1 -pthread -DKIND=7 worker.c; then: a.out MIB THREADS
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KIND
#define KIND 0
#endif

// A program of its own: each has other bytes.
const volatile char kind[4096 + KIND] = {1};

static size_t bytes_of_each;

static void *serve(void *number) {
    uint64_t random = 88172645463325252ULL + KIND * 977 + (uintptr_t)number;
    size_t count = bytes_of_each / 200, have = 0;
    void **blocks = calloc(count, sizeof *blocks);
    for (size_t at = 0; at < count && have < bytes_of_each; at++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t size = 16 + random % 400;
        blocks[at] = malloc(size);
        memset(blocks[at], 1, size);
        have += size;
    }
    // Every third stays free: fragments.
    for (size_t at = 0; at < count; at += 3) free(blocks[at]), blocks[at] = NULL;
    for (;;) {
        sleep(1);
        for (int times = 0; times < 20; times++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            size_t at = random % count;
            free(blocks[at]);
            blocks[at] = malloc(16 + random % 400);
        }
    }
}

int main(int count, char **words) {
    size_t mib = count > 1 ? strtoul(words[1], NULL, 10) : 4;
    uintptr_t threads = count > 2 ? strtoul(words[2], NULL, 10) : 2;
    bytes_of_each = (mib << 20) / threads;
    for (uintptr_t at = 1; at < threads; at++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)at)) return 1;
    }
    serve(NULL);
}
