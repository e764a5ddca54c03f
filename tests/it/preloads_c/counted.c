// Waits in which nothing comes, after work: eight threads wait once each, in poll, select, nanosleep and on a semaphore, for far longer
// than `thread_idle=1ms`. Then come waits for something that is already there. Then a forked child waits once. Prints a sum.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long work(void) {
    long sum = 0;
    char *blocks[200];
    for (int i = 0; i < 200; i++) sum += *(char *)memset(blocks[i] = malloc(1000), i, 1000);
    for (int i = 0; i < 200; i++) free(blocks[i]);
    return sum;
}

static void *waits(void *sum) {
    long *total = sum;
    struct timespec span = {0, 20000000}, until;
    *total += work() + poll(NULL, 0, 20);
    struct timeval wait = {0, 20000};
    *total += work() + select(0, NULL, NULL, NULL, &wait);
    *total += work() + nanosleep(&span, NULL);
    sem_t none;
    sem_init(&none, 0, 0);
    *total += work();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    *total += sem_timedwait(&none, &until);

    int ends[2];
    if (pipe(ends) || write(ends[1], "x", 1) != 1) exit(1);
    struct pollfd there = {ends[0], POLLIN, 0};
    for (int i = 0; i < 100; i++) *total += work() + poll(&there, 1, -1);
    return NULL;
}

int main(void) {
    pthread_t threads[8];
    long sums[8] = {0}, sum = 0;
    for (int i = 0; i < 8; i++) if (pthread_create(&threads[i], NULL, waits, &sums[i])) return 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        sum = work() + poll(NULL, 0, 20);
        return 0;
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) return 1;
    for (int i = 0; i < 8; i++) sum += sums[i];
    printf("%ld\n", sum);
    return 0;
}
