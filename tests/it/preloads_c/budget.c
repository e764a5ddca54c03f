// Allocates as the first argument says, for the setting `budget`. Nothing is written to the blocks: a block counts before it is
// touched.
//   far      640 blocks of 1 MiB, one after the other
//   below    a block of 64 MiB three times, which stays
//   handler  the same once, in a signal handler that has interrupted nothing that allocates; then once outside
//   fork     nothing, and a child as with `below`
//   threads  a block of 64 MiB, then eight threads that each allocate 40 KiB four times
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile last;

static void allocate(size_t size) {
    last = malloc(size);
    if (!last) abort();
}

static void handler(int signal) {
    (void)signal;
    allocate(64 << 20);
}

static void *work(void *nothing) {
    for (int i = 0; i < 4; i++) {
        allocate(40 << 10);
        free(last);
    }
    return nothing;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    if (!strcmp(how, "far")) {
        for (int i = 0; i < 640; i++) {
            allocate(1 << 20);
            free(last);
        }
    } else if (!strcmp(how, "below")) {
        for (int i = 0; i < 3; i++) allocate(64 << 20);
    } else if (!strcmp(how, "handler")) {
        signal(SIGUSR1, handler);
        raise(SIGUSR1);
        if (count > 2) allocate(64 << 20);
    } else if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            allocate(64 << 20);
            return 0;
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
    } else if (!strcmp(how, "threads")) {
        allocate(64 << 20);
        for (int i = 0; i < 8; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL)) return 1;
        }
    } else {
        return 2;
    }
    return 0;
}
