// Runs for some seconds: two threads replace blocks at random, and hand some over. A million blocks, in steps of 100.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEPT = 1000, SHARED = 64, STEPS = 5000 };
static void *shared[SHARED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *seed) {
    static __thread void *kept[KEPT];
    unsigned long random = (unsigned long)seed * 2654435761u + 1;
    for (int step = 0; step < STEPS; step++) {
        for (int at = 0; at < 100; at++) {
            random = random * 6364136223846793005ul + 1442695040888963407ul;
            int place = (random >> 33) % KEPT;
            free(kept[place]);
            kept[place] = malloc(16 + (random >> 40) % 600);
        }
        pthread_mutex_lock(&lock);
        void *other = shared[step % SHARED];
        shared[step % SHARED] = kept[step % KEPT];
        kept[step % KEPT] = realloc(other, 700);
        pthread_mutex_unlock(&lock);
        usleep(500);
    }
    return NULL;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)1);
    work((void *)2);
    pthread_join(other, NULL);
    puts("done");
}
