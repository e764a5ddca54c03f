// Goes to the given place: a wait for a condition, a handler of fork, a separate stack, a filter of system calls, a long epoll_wait, registers for
// matrices, or a function of an allocator that waits for a lock. Only the first thread waits in a call that can be made again.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int released;

static void tell(void)
{
    printf("pid=%d\n", getpid());
    fflush(stdout);
}

/* The function that the remedy of tcmalloc calls. */
__attribute__((used, noinline)) void MallocExtension_ReleaseFreeMemory(void)
{
    pthread_mutex_lock(&lock);
    released++;
    pthread_mutex_unlock(&lock);
}

static void waits_for_ever(void)
{
    tell();
    for (;;)
        poll(NULL, 0, -1);
}

static void *holds_the_lock(void *unused)
{
    sigset_t set;
    int signal;
    (void)unused;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_mutex_lock(&lock);
    sigwait(&set, &signal);
    pthread_mutex_unlock(&lock);
    for (;;)
        sigwait(&set, &signal);
}

int main(int count, char **words)
{
    const char *place = count > 1 ? words[1] : "";
    /* Refuses memory that is writable and executable, like systemd's MemoryDenyWriteExecute. */
    struct sock_filter no_writable_code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 6),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 3, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter no_advice[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog code = {sizeof no_writable_code / sizeof *no_writable_code, no_writable_code};
    struct sock_fprog advice = {sizeof no_advice / sizeof *no_advice, no_advice};
    char byte;
    if (!strcmp(place, "condition")) {
        pthread_mutex_lock(&lock);
        tell();
        for (;;)
            pthread_cond_wait(&condition, &lock);
    } else if (!strcmp(place, "lock")) {
        pthread_mutex_lock(&lock);
        tell();
        pthread_mutex_lock(&lock);
    } else if (!strcmp(place, "fork")) {
        pthread_atfork(waits_for_ever, NULL, NULL);
        fork();
    } else if (!strcmp(place, "coroutine")) {
        static ucontext_t other, own;
        getcontext(&other);
        other.uc_stack.ss_sp = malloc(1 << 20);
        other.uc_stack.ss_size = 1 << 20;
        makecontext(&other, waits_for_ever, 0);
        swapcontext(&own, &other);
    } else if (!strcmp(place, "code") || !strcmp(place, "advice")) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, 2, !strcmp(place, "code") ? &code : &advice))
            return 1;
        waits_for_ever();
#ifdef __aarch64__
    } else if (!strcmp(place, "matrix")) {
        /* SME; smstart za */
        if (getauxval(AT_HWCAP2) & 1 << 23)
            __asm__ volatile(".inst 0xd503457f");
        waits_for_ever();
#endif
    } else if (!strcmp(place, "epoll")) {
        struct epoll_event event;
        int epoll = epoll_create1(0);
        tell();
        for (;;)
            epoll_wait(epoll, &event, 1, 60000);
    } else if (!strcmp(place, "blocked")) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        sigset_t set;
        pthread_t thread;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        pthread_create(&thread, NULL, holds_the_lock, NULL);
        while (pthread_mutex_trylock(&lock) == 0)
            pthread_mutex_unlock(&lock);
        tell();
        errno = 1234;
        int ready = poll(&input, 1, -1), error = errno;
        if (read(0, &byte, 1) != 1)
            return 1;
        printf("ready=%d errno=%d released=%d\n", ready, error, released);
        fflush(stdout);
        for (;;)
            pause();
    } else {
        waits_for_ever();
    }
}
