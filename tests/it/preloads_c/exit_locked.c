// A signal arrives while malloc or free holds a lock of the allocator, and its handler calls exit. This is tried for
// each such lock, in a forked child, which must end. The locks are found by the function that unlocks them: the
// program's own `pthread_mutex_unlock` takes precedence over the C library's. Ends with 0 if all children ended.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*real_unlock)(pthread_mutex_t *);
// The number of the unlock before which the signal is raised; 0 means none. It is counted down.
static volatile sig_atomic_t signal_before;

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (!real_unlock) real_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    if (signal_before && --signal_before == 0) raise(SIGTERM);
    return real_unlock(mutex);
}

static void handler(int signal) {
    (void)signal;
    exit(3);
}

static void work(void) {
    void *volatile blocks[64];
    int count = 0;
    for (size_t size = 16; size < 64 << 20; size *= 4) {
        blocks[count++] = memset(malloc(size), 1, 16);
    }
    while (count > 0) free(blocks[--count]);
}

int main(void) {
    signal(SIGTERM, handler);
    for (int which = 1; which < 1000; which++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            signal_before = which;
            work();
            signal_before = 0;
            exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            printf("%d locks\n", which - 1);
            return 0;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) {
            printf("unlock %d: a child whose signal handler called exit ended with status %d\n", which, status);
            return 1;
        }
    }
    puts("999 locks");
    return 0;
}
