// A program with a known answer, for tests/it/profile.rs. It keeps 64 MiB by `keeper` in blocks of 4,000 bytes, and as much by
// `hoarder` in blocks of 64 KiB, and throws away what `churn` makes. "realloc", "free", "fork" and "threads" do what they say as well.
// "leak": it keeps 4 MB, and loses blocks by two functions.
// "hands": threads free each other's blocks, until none is left. "many": 4,000 threads that live. "seccomp": a filter of system calls.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

// Their pointers are nowhere afterwards.
__attribute__((noinline)) void loser(int count) {
    for (int at = 0; at < count; at++) {
        char *block = malloc(640);
        memset(block, 'x', 640);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}
__attribute__((noinline)) void forgetter(int count) {
    for (int at = 0; at < count; at++) {
        void *block = calloc(1, 2000);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}
// What a function leaves on the stack can hold a block.
__attribute__((noinline)) void clear(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

static void *thread(void *unused) {
    churn(20000);
    return unused;
}

// Blocks on their way from one thread to another.
static void *passed[64];
__attribute__((noinline)) void hander(int seed) {
    for (int at = 0; at < 300000; at++) {
        seed = seed * 1103515245 + 12345;
        void *block = malloc(1 + (unsigned)seed / 65536 % 3000);
        free(__atomic_exchange_n(&passed[(unsigned)seed / 256 % 64], block, __ATOMIC_ACQ_REL));
    }
}
static void *hands(void *seed) {
    hander((int)(long)seed);
    return NULL;
}

static pthread_barrier_t barrier;
__attribute__((noinline)) void *each(void *unused) {
    void *block = malloc(20000);
    __asm__ volatile("" : : "r"(block) : "memory");
    pthread_barrier_wait(&barrier);
    pause();
    free(block);
    return unused;
}

// Ends the process at the calls that a walk of a stack may make.
static int filtered(void) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof lines / sizeof *lines, lines};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
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
    if (!strcmp(what, "leak")) {
        keeper(0, 1000);
        loser(1000);
        forgetter(300);
        keeper(1000, 10);
        clear();
        puts("ready");
        fflush(stdout);
        return getchar() == 0;
    }
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
    if (!strcmp(what, "hands")) {
        pthread_t all[8];
        for (long at = 0; at < 8; at++) pthread_create(&all[at], NULL, hands, (void *)at);
        for (int at = 0; at < 8; at++) pthread_join(all[at], NULL);
        for (int at = 0; at < 64; at++) free(passed[at]);
    }
    if (!strcmp(what, "many")) {
        pthread_attr_t small;
        pthread_t one;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65536);
        pthread_barrier_init(&barrier, NULL, 4001);
        for (int at = 0; at < 4000; at++) {
            if (pthread_create(&one, &small, each, NULL)) return 2;
        }
        pthread_barrier_wait(&barrier);
    }
    if (!strcmp(what, "seccomp")) {
        pthread_t one;
        if (filtered() || pthread_create(&one, NULL, thread, NULL)) return 3;
        pthread_join(one, NULL);
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
