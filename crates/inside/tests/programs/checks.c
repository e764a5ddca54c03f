// Waits again and again in the given system call, and checks everything that must be the same after a wait: registers, ymm, x87, MXCSR, the
// red zone, the signal mask, the alternate stack, errno. It allocates between the waits. For each line on its input it prints what it found.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MS = 20, BLOCKS = 20000, SIZE = 1000 };

struct state {
    uint64_t rbx, rbp, r12, r13, r14, r15, rdi, rsi, rdx, r10, r8, r9;
    uint64_t zone[16];
    uint8_t ymm[16][32];
    uint32_t mxcsr;
    uint16_t control, none;
    double on_stack;
};

static struct state before, after;
static int has_avx;

/* Makes a system call with a value in every register, and stores all registers afterwards. Returns the call's
   result. */
static long full(long number)
{
    long result;
    __asm__ volatile(
        "push %%rbx\n push %%rbp\n sub $1024, %%rsp\n .cfi_adjust_cfa_offset 1040\n"
        "mov %%rsp, save(%%rip)\n"
        "ldmxcsr %c[mxcsr](%[b])\n fldcw %c[control](%[b])\n fldl %c[on](%[b])\n"
        "cmpl $0, %[avx]\n je 1f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %c[ymm]+\\n*32(%[b]), %%ymm\\n\n .endr\n jmp 2f\n"
        "1: .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %c[ymm]+\\n*32(%[b]), %%xmm\\n\n .endr\n"
        "2: .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n mov %c[zone]+\\n*8(%[b]), %%rcx\n mov %%rcx, -128+\\n*8(%%rsp)\n .endr\n"
        "mov %[b], %%rcx\n"
        "mov 0(%%rcx), %%rbx\n mov 8(%%rcx), %%rbp\n mov 16(%%rcx), %%r12\n mov 24(%%rcx), %%r13\n mov 32(%%rcx), %%r14\n"
        "mov 40(%%rcx), %%r15\n mov 48(%%rcx), %%rdi\n mov 56(%%rcx), %%rsi\n mov 64(%%rcx), %%rdx\n mov 72(%%rcx), %%r10\n"
        "mov 80(%%rcx), %%r8\n mov 88(%%rcx), %%r9\n"
        "syscall\n"
        "cmp %%rsp, save(%%rip)\n je 4f\n ud2\n 4:\n"
        "lea after(%%rip), %%rcx\n"
        "mov %%rbx, 0(%%rcx)\n mov %%rbp, 8(%%rcx)\n mov %%r12, 16(%%rcx)\n mov %%r13, 24(%%rcx)\n mov %%r14, 32(%%rcx)\n"
        "mov %%r15, 40(%%rcx)\n mov %%rdi, 48(%%rcx)\n mov %%rsi, 56(%%rcx)\n mov %%rdx, 64(%%rcx)\n mov %%r10, 72(%%rcx)\n"
        "mov %%r8, 80(%%rcx)\n mov %%r9, 88(%%rcx)\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n mov -128+\\n*8(%%rsp), %%rdx\n mov %%rdx, %c[zone]+\\n*8(%%rcx)\n .endr\n"
        "stmxcsr %c[mxcsr](%%rcx)\n fnstcw %c[control](%%rcx)\n fstpl %c[on](%%rcx)\n"
        "cmpl $0, has_avx(%%rip)\n je 5f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %%ymm\\n, %c[ymm]+\\n*32(%%rcx)\n .endr\n vzeroupper\n jmp 6f\n"
        "5: .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %%xmm\\n, %c[ymm]+\\n*32(%%rcx)\n .endr\n"
        "6: add $1024, %%rsp\n pop %%rbp\n pop %%rbx\n .cfi_adjust_cfa_offset -1040\n"
        : "=a"(result)
        : "a"(number), [b] "r"(&before), [avx] "m"(has_avx), [zone] "i"(offsetof(struct state, zone)),
          [ymm] "i"(offsetof(struct state, ymm)), [mxcsr] "i"(offsetof(struct state, mxcsr)),
          [control] "i"(offsetof(struct state, control)), [on] "i"(offsetof(struct state, on_stack))
        : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "xmm0", "xmm1", "xmm2",
          "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st");
    return result;
}

__attribute__((used)) static uint64_t save;

static void *storm(void *unused)
{
    (void)unused;
    for (unsigned seed = 1;; seed = seed * 1103515245 + 12345)
        free(malloc(16 + (seed >> 16) % 60000));
}

static int ends[2];

static void *feeds(void *unused)
{
    struct timespec time = {.tv_nsec = MS * 1000000};
    for (;;) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
        if (write(ends[1], unused ? "x" : "y", 1) != 1)
            return NULL;
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int count, char **words)
{
    static struct timespec time, rest, first = {.tv_nsec = MS * 1000000};
    static struct timeval short_time;
    static struct pollfd nothing = {.fd = -1};
    static struct epoll_event event;
    static char byte;
    static void *blocks[BLOCKS];
    const char *call = count > 1 ? words[1] : "poll";
    long changed = 0, ended = 0, early = 0, rounds = 0, wrong = 0, number = -1, wanted = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    pthread_t thread;
    int is_fed = !strcmp(call, "read") || !strcmp(call, "recvfrom"), epoll = epoll_create1(0);
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536}, found;
    sigset_t mask, mask_found;
    __builtin_cpu_init();
    has_avx = __builtin_cpu_supports("avx");
    sigaltstack(&alternate, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    if (is_fed && (call[2] == 'a' ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)))
        return 1;
    if (is_fed)
        pthread_create(&thread, NULL, feeds, "");
    for (int i = 0; count > 2 && i < 2; i++)
        pthread_create(&thread, NULL, storm, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    memset(&before, 0x5a, sizeof before);
    for (size_t i = 0; i < sizeof before; i++)
        ((uint8_t *)&before)[i] = (uint8_t)(i * 37 + 11);
    before.mxcsr = 0x7f80; /* rounds to zero */
    before.control = 0x0c7f;
    before.none = 0;
    before.on_stack = 1234.5;
    printf("pid=%d\n", getpid());
    fflush(stdout);
    for (;; rounds++) {
        double begun;
        for (int i = 0; i < BLOCKS / 20; i++) {
            void **place = &blocks[(rounds * 997 + i) % BLOCKS];
            free(*place);
            *place = i % 3 ? NULL : memset(malloc(SIZE), 1, SIZE);
        }
        time = rest = first;
        short_time = (struct timeval){.tv_usec = MS * 1000};
        if (!strcmp(call, "poll"))
            number = SYS_poll, before.rdi = (uint64_t)&nothing, before.rsi = 1, before.rdx = MS;
        else if (!strcmp(call, "ppoll"))
            number = SYS_ppoll, before.rdi = (uint64_t)&nothing, before.rsi = 1, before.rdx = (uint64_t)&time, before.r10 = 0;
        else if (!strcmp(call, "select"))
            number = SYS_select, before.rdi = before.rsi = before.rdx = before.r10 = 0, before.r8 = (uint64_t)&short_time;
        else if (!strcmp(call, "epoll_wait"))
            number = SYS_epoll_wait, before.rdi = epoll, before.rsi = (uint64_t)&event, before.rdx = 1, before.r10 = MS;
        else if (!strcmp(call, "nanosleep"))
            number = SYS_nanosleep, before.rdi = (uint64_t)&time, before.rsi = 0;
        else if (!strcmp(call, "nanosleep_rest"))
            number = SYS_nanosleep, before.rdi = (uint64_t)&time, before.rsi = (uint64_t)&rest;
        else if (!strcmp(call, "clock_nanosleep"))
            number = SYS_clock_nanosleep, before.rdi = CLOCK_MONOTONIC, before.rsi = 0, before.rdx = (uint64_t)&time, before.r10 = 0;
        else if (!strcmp(call, "recvfrom"))
            number = SYS_recvfrom, before.rdi = ends[0], before.rsi = (uint64_t)&byte, before.rdx = 1, before.r10 = before.r8 = before.r9 = 0, wanted = 1;
        else
            number = SYS_read, before.rdi = ends[0], before.rsi = (uint64_t)&byte, before.rdx = 1, wanted = 1;
        errno = 1234;
        begun = now();
        long result = full(number);
        early += !is_fed && now() - begun < MS - 0.5 && result != -EINTR;
        ended += result == -EINTR;
        wrong += result != wanted && result != -EINTR;
        changed += errno != 1234;
        changed += memcmp(&before, &after, sizeof before) != 0;
        pthread_sigmask(SIG_SETMASK, NULL, &mask_found);
        changed += memcmp(&mask, &mask_found, 8) != 0;
        sigaltstack(NULL, &found);
        changed += found.ss_sp != alternate.ss_sp || found.ss_size != alternate.ss_size || found.ss_flags != 0;
        if (poll(&input, 1, 0) == 1) {
            if (read(0, &byte, 1) != 1)
                return 0;
            printf("rounds=%ld changed=%ld ended=%ld early=%ld wrong=%ld\n", rounds, changed, ended, early, wrong);
            fflush(stdout);
        }
    }
}
