// Programs of eight threads whose live memory fits a limit that their freed memory does not. Usage: shapes SHAPE SECONDS
//   sessions  each thread answers requests of many small blocks and of one that grows by realloc to 2 to 30 MiB, one thread at a time
//   handoff   five threads fill a queue of up to 2,500 blocks, three empty it
//   phases    one thread after the other fills 50 MiB with blocks of another size and frees all; the others sleep
// Each holds 24 MiB all the time. At the end it prints the most bytes that were live at one time, by its own count, in which both blocks of a
// realloc are live while it copies; the most resident bytes; and the rounds that its threads made.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8
#define QUEUE 2500

static long live, most, rounds;
static double until;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void count(long bytes) {
    long sum = __atomic_add_fetch(&live, bytes, __ATOMIC_RELAXED), seen = __atomic_load_n(&most, __ATOMIC_RELAXED);
    while (sum > seen && !__atomic_compare_exchange_n(&most, &seen, sum, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static void *take(size_t size) {
    char *block = malloc(size);
    if (!block) abort();
    memset(block, 1, size);
    count(malloc_usable_size(block));
    return block;
}

static void drop(void *block) {
    if (!block) return;
    count(-(long)malloc_usable_size(block));
    free(block);
}

static char *grow(char *block, size_t from, size_t to) {
    long before = malloc_usable_size(block);
    // Both blocks may live while one is copied.
    count(to);
    block = realloc(block, to);
    if (!block) abort();
    count((long)malloc_usable_size(block) - (long)to - before);
    memset(block + from, 2, to - from);
    return block;
}

static uint64_t draw(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static uint64_t seed_of(void *number) { return (uintptr_t)number * 7919 + 88172645463325252ull; }

static void made_a_round(void) { __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED); }

static void *session(void *number) {
    static pthread_mutex_t answering = PTHREAD_MUTEX_INITIALIZER;
    uint64_t seed = seed_of(number);
    void *kept[100] = {0};
    while (now() < until) {
        void *parts[200];
        int wanted = 40 + draw(&seed) % 160;
        for (int i = 0; i < wanted; i++) parts[i] = take(100 + draw(&seed) % (draw(&seed) % 10 ? 3000 : 60000));
        pthread_mutex_lock(&answering);
        size_t size = 65536, end = (2 + draw(&seed) % 20) << 20;
        char *answer = take(size);
        while (size < end) {
            answer = grow(answer, size, size * 3 / 2);
            size = size * 3 / 2;
        }
        drop(answer);
        pthread_mutex_unlock(&answering);
        void **place = &kept[draw(&seed) % 100];
        drop(*place);
        *place = parts[0];
        for (int i = 1; i < wanted; i++) drop(parts[i]);
        made_a_round();
        usleep(2000 + draw(&seed) % 6000);
    }
    return NULL;
}

static void *queue[QUEUE];
static int queued;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

static void *producer(void *number) {
    uint64_t seed = seed_of(number);
    while (now() < until) {
        int burst = draw(&seed) % 16 ? 64 : 800;
        for (int i = 0; i < burst; i++) {
            void *block = take(500 + draw(&seed) % 40000);
            while (block) {
                pthread_mutex_lock(&queue_lock);
                if (queued < QUEUE) {
                    queue[queued++] = block;
                    block = NULL;
                }
                pthread_mutex_unlock(&queue_lock);
                if (block) usleep(500);
                if (now() > until) return NULL;
            }
        }
        made_a_round();
        usleep(1000 + draw(&seed) % 10000);
    }
    return NULL;
}

static void *consumer(void *number) {
    (void)number;
    while (now() < until) {
        void *taken[300];
        int some = 0;
        pthread_mutex_lock(&queue_lock);
        while (queued && some < 300) taken[some++] = queue[--queued];
        pthread_mutex_unlock(&queue_lock);
        for (int i = 0; i < some; i++) drop(taken[i]);
        usleep(4000);
    }
    return NULL;
}

static void *phase(void *number) {
    static long turn;
    uint64_t seed = seed_of(number);
    while (now() < until) {
        if (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) % THREADS != (long)(intptr_t)number) {
            usleep(2000);
            continue;
        }
        void **blocks = calloc(20000, sizeof *blocks);
        size_t usual = (size_t)1000 << (draw(&seed) % 8);
        int some = 0;
        for (size_t sum = 0; sum < 50 << 20 && some < 20000; some++) {
            size_t size = usual / 2 + draw(&seed) % usual;
            blocks[some] = take(size);
            sum += size;
        }
        for (int i = 0; i < some; i++) drop(blocks[i]);
        free(blocks);
        made_a_round();
        __atomic_add_fetch(&turn, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(int words, char **word) {
    if (words != 3) return 2;
    until = now() + atof(word[2]);
    char *base = take(24 << 20);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) {
        void *(*work)(void *) = phase;
        if (!strcmp(word[1], "sessions")) work = session;
        if (!strcmp(word[1], "handoff")) work = i < 5 ? producer : consumer;
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("live=%ld resident=%ld rounds=%ld\n", most, usage.ru_maxrss * 1024 + base[5] - 1, rounds);
    return 0;
}
