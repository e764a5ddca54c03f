/* A pool of threads in C that give their memory back before a long wait. Each waits for 100 ms first, so a busy thread does
   not pay for this. In: the number of threads, the milliseconds of load; ALLOCANARY_THREADS_GIVE_BACK=false turns the hook off. Out:
   requests per second, and resident MiB when idle. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocanary.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static unsigned waiting; /* requests that no thread has taken */
static unsigned long served;
static bool load_goes_on = true;

/* Allocates some 128 KiB in blocks of 16 bytes to 32 KiB, writes to them and frees them. */
static void request(unsigned *seed) {
    void *blocks[64];
    int count = 0;
    for (size_t left = 128 << 10; left > 0 && count < 64; count++) {
        size_t size = (size_t)16 << rand_r(seed) % 12;
        if (size > left) {
            size = left;
        }
        blocks[count] = allocanary_calloc(1, size);
        if (blocks[count] == NULL) {
            abort();
        }
        memset(blocks[count], count + 1, size);
        left -= size;
    }
    while (count > 0) {
        count--;
        if (*(char *)blocks[count] != (char)(count + 1) || allocanary_free(blocks[count]) != ALLOCANARY_CODE_OK) {
            abort();
        }
    }
}

static struct timespec in_100_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 100000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static void *worker(void *number) {
    unsigned seed = (unsigned)(size_t)number;
    for (;;) {
        struct timespec soon = in_100_ms();
        int late = 0;
        pthread_mutex_lock(&lock);
        while (waiting == 0 && late == 0) {
            late = pthread_cond_timedwait(&came, &lock, &soon);
        }
        if (waiting == 0) {
            pthread_mutex_unlock(&lock);
            allocanary_thread_idle(NULL); /* the hook: no request came for a while */
            pthread_mutex_lock(&lock);
            while (waiting == 0) {
                pthread_cond_wait(&came, &lock);
            }
        }
        waiting--;
        pthread_mutex_unlock(&lock);
        request(&seed);
        pthread_mutex_lock(&lock);
        served++;
        waiting += load_goes_on; /* the client asks again */
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void rest(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 32;
    unsigned load_ms = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
    AllocanaryStatistics statistics;
    for (size_t number = 0; number < threads; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)number) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    pthread_mutex_lock(&lock);
    waiting = 2 * threads;
    pthread_cond_broadcast(&came);
    pthread_mutex_unlock(&lock);
    rest(load_ms);
    pthread_mutex_lock(&lock);
    load_goes_on = false;
    unsigned long requests = served;
    pthread_mutex_unlock(&lock);
    rest(1000);
    if (allocanary_statistics(&statistics) != ALLOCANARY_CODE_OK) {
        return 1;
    }
    printf("%.0f %.1f\n", requests * 1000.0 / load_ms, (double)statistics.resident_bytes / (1 << 20));
    return 0;
}
