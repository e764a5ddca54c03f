// Threads that allocate, wait in every way, fork and end. A signal handler interrupts them anywhere, in malloc too. The
// handler does not allocate, but waits. Runs for the given number of seconds. If it hangs, a watchdog ends it with 9.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

static _Atomic long waits, handled, forks;
static _Atomic int ended, word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

// This is longer than the first part of a wait. If memory were given back here, it would need the interrupted malloc's
// lock.
static void handler(int signal) {
    int before = errno;
    (void)signal;
    poll(NULL, 0, 4);
    struct timespec t = {0, 3000000};
    nanosleep(&t, NULL);
    handled++;
    errno = before;
}

static void work(unsigned *seed) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = memset(malloc(1 + rand_r(seed) % 20000), i, 1);
    for (int i = 0; i < 64; i++) free(blocks[i]);
}

static void *thread(void *number) {
    unsigned seed = (unsigned)(size_t)number;
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec t = {0, 3000000}, until;
    for (int i = 0; i < 12; i++) {
        work(&seed);
        clock_gettime(CLOCK_REALTIME, &until);
        if ((until.tv_nsec += 3000000) >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        switch (rand_r(&seed) % 9) {
        case 0: epoll_wait(set, &event, 1, 3); break;
        case 1: poll(NULL, 0, 3); break;
        case 2: ppoll(NULL, 0, &t, NULL); break;
        case 3: select(0, NULL, NULL, NULL, &(struct timeval){0, 3000}); break;
        case 4: nanosleep(&t, NULL); break;
        case 5: sem_timedwait(&semaphore, &until); break;
        case 6: syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0); break;
        case 7:
            pthread_mutex_lock(&mutex);
            pthread_cond_timedwait(&condition, &mutex, &until);
            pthread_mutex_unlock(&mutex);
            break;
        case 8: {
            pid_t child = fork();
            if (child == 0) {
                work(&seed);
                poll(NULL, 0, 3);
                work(&seed);
                _exit(0);
            }
            int status = 1;
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
            if (status) printf("a child ended with %d\n", status), _exit(2);
            forks++;
        }
        }
        waits++;
    }
    close(set);
    return NULL;
}

static void *watchdog(void *seconds) {
    for (int i = 0; i < 600; i++) {
        struct timespec t = {0, 100000000};
        syscall(SYS_nanosleep, &t, NULL);
        if (ended == 2) return NULL;
    }
    printf("hangs after %ld waits, %ld signals, %ld forks (%ld s)\n", waits, handled, forks, (long)seconds);
    fflush(stdout);
    _exit(9);
}

int main(int count, char **words) {
    long seconds = count > 1 ? atol(words[1]) : 2;
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_t dog;
    // The watchdog gets no signals.
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    pthread_create(&dog, NULL, watchdog, (void *)seconds);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    size_t number = 0;
    do {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, thread, (void *)++number);
        for (int i = 0; i < 40; i++) {
            pthread_kill(threads[i % 8], SIGALRM); // they are not joined yet
            unsigned seed = i;
            work(&seed);
            struct timespec t = {0, 500000};
            nanosleep(&t, NULL);
        }
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < seconds * 1000);
    ended = 2;
    pthread_join(dog, NULL);
    if (!handled || !forks) return 3;
    return 0;
}
