// A program with a known answer, for tests/it/profile.rs. It keeps 64 MiB by `keeper` in blocks of 4,000 bytes, and as much by
// `hoarder` in blocks of 64 KiB, and throws away what `churn` makes. "realloc", "free", "fork" and "threads" do what they say as well.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *kept[40000];

__attribute__((noinline)) void keeper(int from, int count) {
    for (int at = 0; at < count; at++) kept[from + at] = malloc(4000);
}
__attribute__((noinline)) void hoarder(int from, int count) {
    for (int at = 0; at < count; at++) kept[from + at] = calloc(1, 65536);
}
__attribute__((noinline)) void grower(int from, int count) {
    for (int at = 0; at < count; at++) kept[from + at] = realloc(kept[from + at], 8000);
}
__attribute__((noinline)) void churn(int count) {
    for (int at = 0; at < count; at++) {
        void *block = malloc(1 + at % 9000);
        // So that the compiler leaves it.
        __asm__ volatile("" : : "r"(block) : "memory");
        free(block);
    }
}

static void *thread(void *unused) {
    churn(20000);
    return unused;
}

static volatile int handled;
static void handler(int number) {
    (void)number;
    // Not allowed in general. Here it interrupts only itself, and never malloc.
    handled++;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    signal(SIGUSR1, handler);
    keeper(0, 16777);
    hoarder(20000, 1024);
    churn(50000);
    if (!strcmp(what, "realloc")) grower(0, 16777);
    if (!strcmp(what, "threads")) {
        static pthread_t all[500];
        for (int round = 0; round < 4; round++) {
            for (int at = 0; at < 500; at++) pthread_create(&all[at], NULL, thread, NULL);
            for (int at = 0; at < 500; at++) pthread_join(all[at], NULL);
        }
    }
    if (!strcmp(what, "free")) {
        for (int at = 0; at < 16777; at++) free(kept[at]);
    }
    if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            for (int at = 0; at < 16777; at++) free(kept[at]);
            keeper(0, 5000);
            printf("child %d\n", getpid());
            fflush(stdout);
            for (;;) pause();
        }
    }
    puts("ready");
    fflush(stdout);
    // What it does while it is read.
    char line[16];
    while (read(0, line, sizeof line) > 0) churn(100000);
    return 0;
}
