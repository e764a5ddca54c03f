// Arguments: MAPPINGS MIB. Touches MIB MiB in MAPPINGS mappings. A thread maps and unmaps all the time, as a growing malloc does. For
// each line on standard input the program prints the longest of these calls since the last line, in nanoseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic long longest;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *map(void *unused) {
    for (;;) {
        long began = now();
        void *memory = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(memory, 65536);
        long took = now() - began, most = atomic_load(&longest);
        while (took > most && !atomic_compare_exchange_weak(&longest, &most, took)) {
        }
        usleep(100);
    }
    return unused;
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    long mappings = atol(words[1]), bytes = (atol(words[2]) << 20) / mappings / 4096 * 4096;
    for (long at = 0; at < mappings; at++) {
        // The kernel would join two neighbours with equal rights into one mapping.
        int rights = PROT_READ | PROT_WRITE | (at % 2 ? PROT_EXEC : 0);
        char *memory = mmap(0, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        for (long page = 0; page < bytes; page += 4096) {
            memory[page] = 1;
        }
    }
    pthread_t thread;
    pthread_create(&thread, 0, map, 0);
    char line[64];
    do {
        printf("%ld\n", atomic_exchange(&longest, 0));
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    return 0;
}
