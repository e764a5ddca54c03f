// A program of nasty calls, drawn by a seed: nasty SEED. The same seed makes the same calls and writes the same lines, whatever allocator and
// whatever library is loaded: what a call returned, and sums over what is in its blocks. At the end it may forbid itself calls or its clock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static uint64_t seed;
static uint64_t draw(uint64_t *of) {
    *of ^= *of << 13;
    *of ^= *of >> 7;
    return *of ^= *of << 17;
}

static void say(const char *name, long number) {
    char line[80];
    int length = snprintf(line, sizeof line, "%s %ld\n", name, number);
    if (write(1, line, length) != length) _exit(9);
}

// Allocates, resizes and frees, and sums what is in the blocks.
static long churn(uint64_t own, int times) {
    unsigned char *blocks[64] = {0};
    size_t sizes[64] = {0};
    long sum = 0;
    for (int i = 0; i < times; i++) {
        int at = draw(&own) % 64;
        size_t size = 1 + draw(&own) % (draw(&own) % 8 ? 700 : 200000);
        for (size_t byte = 0; byte < sizes[at]; byte += 61) sum += blocks[at][byte];
        void *aligned = NULL;
        switch (draw(&own) % 5) {
        case 0:
            blocks[at] = realloc(blocks[at], size);
            break;
        case 1:
            free(blocks[at]);
            if (posix_memalign(&aligned, 64 << draw(&own) % 5, size)) _exit(8);
            blocks[at] = aligned;
            break;
        case 2:
            free(blocks[at]);
            blocks[at] = calloc(1, size);
            for (size_t byte = 0; byte < size; byte += 61) sum += blocks[at][byte];
            break;
        default:
            free(blocks[at]);
            blocks[at] = malloc(size);
        }
        if (!blocks[at]) _exit(8);
        sizes[at] = size;
        memset(blocks[at], i, size);
    }
    for (int at = 0; at < 64; at++) free(blocks[at]);
    return sum;
}

static void *thread(void *own) { return (void *)churn((uintptr_t)own, 300); }

static void *waits(void *own) {
    churn((uintptr_t)own, 50);
    struct timespec long_time = {60, 0};
    for (;;) nanosleep(&long_time, NULL);
    return NULL;
}

static void *without_files(void *own) {
    if (unshare(CLONE_FILES) == 0)
        for (int file = 0; file < 64; file++) close(file);
    return (void *)churn((uintptr_t)own, 100);
}

static int child(void *own) {
    int code = 0;
    for (int i = 0; i < 1000; i++) code = code * 31 + (int)(uintptr_t)own + i;
    return code & 63;
}

static volatile long handled;
static void on_signal(int number) {
    handled += number;
    char frame[3000];
    memset(frame, number, sizeof frame);
    handled += frame[2999];
}
static void allocates(int number) { handled += churn(number + 77, 40); }

static ucontext_t back, there;
static long routine_sum;
static void routine(void) {
    for (int i = 0; i < 3; i++) {
        routine_sum += churn(i + 5, 60);
        swapcontext(&there, &back);
    }
}

static jmp_buf far;
static void deep(int left) {
    volatile char *block = malloc(100 + left);
    block[0] = left;
    if (left > 0) deep(left - 1);
    longjmp(far, 1);
}

static void joined(void *(*work)(void *), uint64_t own, size_t stack, const char *name) {
    pthread_attr_t how;
    pthread_attr_init(&how);
    if (stack) pthread_attr_setstacksize(&how, stack);
    pthread_t made;
    void *answer = NULL;
    int failed = pthread_create(&made, &how, work, (void *)(uintptr_t)own);
    if (!failed) pthread_join(made, &answer);
    say(name, failed ? -failed : (long)answer);
    pthread_attr_destroy(&how);
}

static void waited(pid_t pid, const char *name) {
    int status = 0;
    say(name, waitpid(pid, &status, __WALL) == pid ? status : -1);
}

static void nasty(int what) {
    uint64_t own = draw(&seed) | 1;
    static char stack[65536] __attribute__((aligned(64))), other[32768] __attribute__((aligned(64)));
    struct rlimit limit;
    switch (what) {
    case 0: say("churn", churn(own, 400)); break;
    case 1: joined(thread, own, 0, "thread"); break;
    case 2: joined(thread, own, 65536, "thread of a small stack"); break;
    case 3: {
        pthread_t made[6];
        long sum = 0;
        for (int i = 0; i < 6; i++) if (pthread_create(&made[i], NULL, thread, (void *)(uintptr_t)(own + i))) _exit(7);
        for (int i = 0; i < 6; i++) {
            void *answer;
            pthread_join(made[i], &answer);
            sum += (long)answer;
        }
        say("six threads", sum);
        break;
    }
    case 4: waited(clone(child, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void *)(uintptr_t)own), "clone with our memory"); break;
    case 5: waited(clone(child, stack + sizeof stack, SIGCHLD, (void *)(uintptr_t)own), "clone"); break;
    case 6: {
        pid_t pid = fork();
        if (pid == 0) _exit(churn(own, 200) & 63);
        waited(pid, "fork");
        break;
    }
    case 7: {
        pid_t pid = fork();
        if (pid == 0) {
            void *answer;
            pthread_t made;
            if (pthread_create(&made, NULL, thread, (void *)(uintptr_t)own) || pthread_join(made, &answer)) _exit(77);
            exit((long)answer & 63);
        }
        waited(pid, "fork with a thread");
        break;
    }
    case 8: {
        pid_t pid = vfork();
        if (pid == 0) _exit(own & 31);
        waited(pid, "vfork");
        break;
    }
    case 9: {
        pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) _exit(5);
        waited(pid, "clone without the C library");
        break;
    }
    case 10: say("name", prctl(PR_SET_NAME, "nasty \"\\ name")); break;
    case 11: say("not dumpable", prctl(PR_SET_DUMPABLE, 0)); break;
    case 12: say("no huge pages", prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)); break;
    case 13: limit = (struct rlimit){40, 40}; say("files", setrlimit(RLIMIT_NOFILE, &limit)); break;
    case 14: limit = (struct rlimit){0, 0}; say("file size", setrlimit(RLIMIT_FSIZE, &limit)); break;
    case 15: limit = (struct rlimit){1 << 20, 1 << 20}; say("stack", setrlimit(RLIMIT_STACK, &limit)); break;
    case 16: limit = (struct rlimit){64 << 10, 64 << 10}; say("locked", setrlimit(RLIMIT_MEMLOCK, &limit)); break;
    case 17: for (int file = 3; file < 64; file++) close(file); say("closed", 0); break;
    case 18: close(0); say("closed input", open("/dev/null", O_RDONLY)); break;
    case 19: say("closed errors", close(2) == 0 || errno == EBADF); break;
    case 20: {
        stack_t alternate = {.ss_sp = other, .ss_size = sizeof other};
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
        handled = 0;
        say("alternate stack", sigaltstack(&alternate, NULL));
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
        say("handled", handled);
        break;
    }
    case 21: {
        struct sigaction action = {.sa_handler = allocates, .sa_flags = own & 2 ? SA_ONSTACK : 0};
        handled = 0;
        sigaction(SIGUSR2, &action, NULL);
        raise(SIGUSR2);
        say("a handler allocates", handled);
        break;
    }
    case 22: {
        void *room = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        routine_sum = 0;
        getcontext(&there);
        there.uc_stack.ss_sp = room;
        there.uc_stack.ss_size = 65536;
        there.uc_link = NULL;
        makecontext(&there, routine, 0);
        for (int i = 0; i < 3; i++) swapcontext(&back, &there);
        munmap(room, 65536);
        say("coroutine", routine_sum);
        break;
    }
    case 23: {
        struct itimerval every = {{0, 900}, {0, 900}}, off = {{0, 0}, {0, 0}};
        signal(SIGALRM, on_signal);
        setitimer(ITIMER_REAL, &every, NULL);
        long sum = churn(own, 3000);
        setitimer(ITIMER_REAL, &off, NULL);
        say("interrupted", sum);
        break;
    }
    case 24: {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        say("library", library && dlsym(library, "cos") && dlclose(library) == 0);
        break;
    }
    case 25: {
        pthread_t made;
        void *answer = NULL;
        if (pthread_create(&made, NULL, waits, (void *)(uintptr_t)own)) _exit(7);
        usleep(draw(&seed) % 3000);
        pthread_cancel(made);
        pthread_join(made, &answer);
        say("cancelled", answer == PTHREAD_CANCELED);
        break;
    }
    case 26: if (setjmp(far) == 0) deep(50); say("long jump", 0); break;
    case 27: {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        say("blocked signals", churn(own, 100));
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        break;
    }
    case 28: errno = 7; free(malloc(100)); say("errno", errno); break;
    case 29: errno = 0; say("too large", malloc(PTRDIFF_MAX) == NULL); say("errno", errno); break;
    case 30: joined(without_files, own, 0, "thread without files"); break;
    case 31: {
        char folder[] = "/tmp/nastyXXXXXX";
        if (mkdtemp(folder)) say("folder", chdir(folder) == 0 && rmdir(folder) == 0 && chdir("/") == 0);
        break;
    }
    case 32: say("mask", umask(0777) < 01000); break;
    case 33: malloc_trim(0); mallopt(M_TRIM_THRESHOLD, 1 << 20); say("trim", churn(own, 50)); break;
    case 34: {
        char *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(pages, 3, 1 << 20);
        madvise(pages, 1 << 19, MADV_DONTNEED);
        pages = mremap(pages, 1 << 20, 3 << 20, MREMAP_MAYMOVE);
        say("mapping", pages[0] + pages[(1 << 20) - 1] + munmap(pages, 3 << 20));
        break;
    }
    case 35: setenv("LD_PRELOAD", "", 1); unsetenv("ALLOCANARY_RECORD"); clearenv(); say("no variables", environ == NULL || *environ == NULL); break;
    }
}

static int filtered(int what) {
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(madvise), ALLOW(mprotect),
        ALLOW(futex), ALLOW(rt_sigreturn), ALLOW(getrandom),
        BPF_STMT(BPF_RET | BPF_K, what ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof lines / sizeof *lines, lines};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return what == 2 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int main(int count, char **words) {
    seed = (count > 1 ? strtoull(words[1], NULL, 10) : 1) * 0x9e3779b97f4a7c15ull | 1;
    for (int i = 0; i < 8; i++) draw(&seed);
    int calls = 3 + draw(&seed) % 12;
    for (int i = 0; i < calls; i++) nasty(draw(&seed) % 36);
    // The last word.
    switch (draw(&seed) % 8) {
    case 0: say("filter that kills", filtered(1)); break;
    case 1: say("filter that refuses", filtered(0)); break;
    case 2: say("filter by prctl", filtered(2)); break;
    case 3: say("no clock", prctl(PR_SET_TSC, PR_TSC_SIGSEGV)); break;
    case 4: abort();
    case 5: raise(SIGKILL);
    case 6: _exit(13);
    }
    say("after", churn(seed, 30));
    return 3;
}
