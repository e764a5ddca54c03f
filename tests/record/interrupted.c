// A signal handler that forks, at each instruction of the recorder: the processor's trap flag stops the program behind each
// instruction, and where the recorder would take a signal, one is sent. The child returns into the call that was
// interrupted, goes on and ends with 0. Arguments: `alone` or `threads` (the program has had a second one), and `quiet` or
// `allocates` (what the handler does in the child).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
int main(void) { puts("not this processor"); }
#else

enum { TRAP = 0x100, ROUNDS = 2, OLD = 64, NEAR = 60, AT_ONCE = 32 };

static unsigned long from, to; // the recorder's code
static unsigned char *seen;    // its instructions at which there was a fork
static volatile int is_child, allocates, forks, failed, first_status;
static unsigned long first_failed;
static struct { pid_t pid; unsigned long place; } children[AT_ONCE];

static void *volatile block;
static void *old[OLD];

static void step(void) { __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc"); }
static void run(void) { __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc"); }

static void trapped(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *at = context;
    unsigned long place = at->uc_mcontext.gregs[REG_RIP];
    if (place < from || place >= to || seen[place - from] || sigismember(&at->uc_sigmask, SIGUSR1)) return;
    seen[place - from] = 1;
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1); // comes when this handler has returned
}

static void wait_for_all(void) {
    for (int at = 0; at < AT_ONCE; at++) {
        int status = -1;
        if (children[at].pid == 0) continue;
        if (children[at].pid > 0) waitpid(children[at].pid, &status, 0);
        children[at].pid = 0;
        if (status != 0 && failed++ == 0) first_failed = children[at].place, first_status = status;
    }
}

static void interrupted(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *at = context;
    pid_t child = fork();
    if (child == 0) {
        is_child = 1;
        at->uc_mcontext.gregs[REG_EFL] &= ~TRAP;
        if (allocates) {
            void *volatile other = malloc(77); // forbidden, and done: the allocator itself was not interrupted
            free(other);
        }
        return;
    }
    children[forks % AT_ONCE].pid = child;
    children[forks % AT_ONCE].place = at->uc_mcontext.gregs[REG_RIP] - from;
    if (++forks % AT_ONCE == 0) wait_for_all();
}

static void *work(void *unused) {
    for (int at = 1; at < 50; at++) {
        char *volatile some = malloc(at * 20);
        memset(some, at, at * 20);
        some = realloc(some, at * 30);
        for (int byte = 0; byte < at * 20; byte++)
            if (some[byte] != at) _exit(3);
        free(some);
    }
    return unused;
}

// The rest of the child's life.
static void go_on(void) {
    pthread_t thread;
    work(NULL);
    if (pthread_create(&thread, NULL, work, NULL) != 0) _exit(4);
    pthread_join(thread, NULL);
    exit(0);
}

#define STEPPED(call)        \
    do {                     \
        step();              \
        call;                \
        run();               \
        if (is_child) go_on(); \
    } while (0)

// The bytes of the trace that threads have taken: more of them with each chunk.
static unsigned long used(void) {
    static int trace = -1;
    char path[4096];
    unsigned long bytes = 0;
    snprintf(path, sizeof path, "%s/%s-%d-0.trace", getenv("ALLOCANARY_RECORD"), program_invocation_short_name, getpid());
    if (trace < 0) trace = open(path, O_RDONLY | O_CLOEXEC);
    if (pread(trace, &bytes, sizeof bytes, 16) != sizeof bytes) _exit(5);
    return bytes;
}

// Makes and frees blocks until there is another chunk, at most so many. Returns their number.
static long fill(long most) {
    long count = 0;
    for (unsigned long before = used(); count < most && used() == before; count++) {
        block = malloc(24);
        free(block);
    }
    return count;
}

static void find_recorder(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], rights[8];
    unsigned long begin, end;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "preload-record") && sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && rights[2] == 'x')
            from = begin, to = end;
    fclose(maps);
}

int main(int argc, char **argv) {
    int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    allocates = argc > 2 && strcmp(argv[2], "allocates") == 0;
    find_recorder();
    if (from == 0) return puts("no recorder"), 2;
    seen = calloc(1, to - from);
    pthread_t thread;
    if (threads && pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
    for (int at = 0; at < OLD; at++) old[at] = malloc(24 + at % 300);
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    action.sa_sigaction = trapped;
    sigaction(SIGTRAP, &action, NULL);
    action.sa_sigaction = interrupted;
    sigaction(SIGUSR1, &action, NULL);
    for (int at = 0; at < ROUNDS && failed == 0; at++) {
        STEPPED(block = malloc(40));
        STEPPED(free(block));
        STEPPED(block = malloc(100 + at * 5000));
        STEPPED(block = realloc(block, 700));
        STEPPED(block = realloc(block, 100000));
        STEPPED(free(block));
        STEPPED(block = calloc(3, 50));
        STEPPED(free(block));
        STEPPED(block = memalign(64, 200));
        STEPPED(free(block));
        for (int of = 0; of < 8; of++) {
            int which = at * 8 + of;
            STEPPED(free(old[which]));
        }
    }
    // The end of a chunk: two chunks tell how many blocks there is room for.
    unsigned long begin = used();
    fill(1 << 20);
    unsigned long first = used();
    long room = fill(1 << 20);
    unsigned long second = used();
    fill(room * (second - first) / (first - begin) - NEAR);
    for (int at = 0; at < 4 * NEAR && used() == second && failed == 0; at++) {
        STEPPED(block = malloc(24));
        STEPPED(free(block));
    }
    wait_for_all();
    if (failed) printf("%d of %d children failed, the first with status %d at %#lx\n", failed, forks, first_status, first_failed);
    else printf("%s\n", forks > 200 ? "all children ended well" : "too few forks");
    return failed != 0;
}
#endif
