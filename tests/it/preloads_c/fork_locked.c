// A thread stops where it holds a lock of its allocator, at its start or at its end, while the main thread forks. The
// child allocates, in a second thread too, and must end. The locks are found by the function that unlocks them: the
// program's own `pthread_mutex_unlock` takes precedence over the C library's. Ends with 0 if all children ended.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int (*_Atomic real_unlock)(pthread_mutex_t *);
// The number of the unlock before which the thread stops; 0 means none. It is counted down.
static _Thread_local volatile int stop_before;
static _Atomic int held, forked;

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (!real_unlock) real_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    if (stop_before && --stop_before == 0) {
        held = 1;
        // Whether the fork waits for this lock is not visible. Without the lock it would come within this tenth of a
        // second.
        struct timespec t = {0, 1000000};
        for (int i = 0; i < 100 && !forked; i++) nanosleep(&t, NULL);
    }
    return real_unlock(mutex);
}

static void work(void) {
    void *blocks[100];
    for (int i = 0; i < 100; i++) blocks[i] = memset(malloc((size_t)i * i * 20 + 1), i, 1);
    for (int i = 0; i < 100; i++) free(blocks[i]);
}

static void *in_child(void *nothing) {
    work();
    return nothing;
}

// Stops at the given unlock of its first allocation. If the number is negative, at that unlock of its end.
static void *stops(void *which) {
    int number = (int)(long)which;
    if (number > 0) stop_before = number;
    work();
    if (number < 0) stop_before = -number;
    return NULL;
}

// Whether the child that is forked at this unlock ends. The unlock is one of the thread's first allocation, or of its
// end if the number is negative. -1 if the thread has fewer unlocks.
static int child_ends(int which) {
    pthread_t thread;
    held = forked = 0;
    pthread_create(&thread, NULL, stops, (void *)(long)which);
    struct timespec t = {0, 1000000};
    int ended = 0;
    while (!held && !ended) {
        ended = pthread_tryjoin_np(thread, NULL) == 0;
        if (!ended) nanosleep(&t, NULL);
    }
    if (!held) return -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        work();
        pthread_t another;
        if (pthread_create(&another, NULL, in_child, NULL) || pthread_join(another, NULL)) _exit(2);
        _exit(0);
    }
    forked = 1;
    int status;
    waitpid(child, &status, 0);
    if (!ended) pthread_join(thread, NULL);
    if (status) printf("unlock %d: a forked child ended with status %d\n", which, status);
    return status == 0;
}

int main(void) {
    work();
    int tried = 0;
    for (int end = 0; end < 2; end++) {
        for (int which = 1; which <= 3; which++) {
            int ends = child_ends(end ? -which : which);
            if (ends == 0) return 1;
            tried += ends > 0;
        }
    }
    printf("%d locks\n", tried);
    return 0;
}
