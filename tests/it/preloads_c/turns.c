/* Threads that have a burst one after the other: each allocates 3 MiB, frees all but the last block, and stays. With an
   arena for each thread every arena keeps its burst; with one arena the next burst gets the memory of the last.
   `turns` prints "done" and ends. `turns DIR` is a service: it writes DIR/pid, says "ready", has its bursts at SIGUSR1, and
   writes DIR/done. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 12, BLOCKS = 6000, SIZE = 500 };

static sem_t turn[THREADS + 1];
static char *kept[THREADS];

static void *work(void *place) {
    long at = (long)place;
    static char *blocks[THREADS][BLOCKS];
    sem_wait(&turn[at]);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[at][i] = malloc(SIZE);
        memset(blocks[at][i], 1, SIZE);
    }
    for (int i = 0; i < BLOCKS - 1; i++) free(blocks[at][i]);
    kept[at] = blocks[at][BLOCKS - 1];
    sem_post(&turn[at + 1]);
    poll(NULL, 0, -1);
    return NULL;
}

int main(int count, char **words) {
    sigset_t burst;
    int signal_number;
    char path[4096];
    sigemptyset(&burst);
    sigaddset(&burst, SIGUSR1);
    sigprocmask(SIG_BLOCK, &burst, NULL);
    for (int i = 0; i <= THREADS; i++) sem_init(&turn[i], 0, 0);
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)i)) return 1;
    }
    if (count > 1) {
        snprintf(path, sizeof path, "%s/pid", words[1]);
        FILE *file = fopen(path, "w");
        if (!file) return 2;
        fprintf(file, "%d\n", getpid());
        fclose(file);
        puts("ready");
        fflush(stdout);
        sigwait(&burst, &signal_number);
    }
    sem_post(&turn[0]);
    sem_wait(&turn[THREADS]);
    if (count > 1) {
        snprintf(path, sizeof path, "%s/done", words[1]);
        FILE *file = fopen(path, "w");
        if (!file) return 3;
        fclose(file);
        pause();
    }
    puts("done");
    /* Long enough to be looked at, and for a setting that acts after 200 ms: always, not only on a busy machine. */
    usleep(300000);
    return 0;
}
