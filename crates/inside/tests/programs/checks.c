// Waits again and again in the given system call, and checks everything that must be the same after a wait: all registers with their states,
// the red zone of x86-64, the signal mask, the alternate stack, errno. It allocates between the waits. For each line on its input it prints what it found.
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

#ifdef __x86_64__
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

/* The register of an argument. */
#define ARGUMENT(at) (*(uint64_t *[]){&before.rdi, &before.rsi, &before.rdx, &before.r10, &before.r8, &before.r9}[at])

static void prepare(void)
{
    __builtin_cpu_init();
    has_avx = __builtin_cpu_supports("avx");
    before.mxcsr = 0x7f80; /* rounds to zero */
    before.control = 0x0c7f;
    before.none = 0;
    before.on_stack = 1234.5;
}

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
#else
struct state {
    uint64_t x[31], result, fpcr, fpsr;
    uint8_t v[32][16];
};

__attribute__((used)) static struct state before, after;
__attribute__((used)) static uint64_t save;

#define ARGUMENT(at) before.x[at]

static void prepare(void)
{
    before.fpcr = 3 << 22; /* rounds to zero */
    before.fpsr = 0x0800001f;
}

/* Makes a system call with a value in every register, and stores all registers afterwards. Returns the call's result. */
long all(long number);
__asm__(".text\n.type all, %function\nall:\n.cfi_startproc\n"
        "stp x29, x30, [sp, #-176]!\n.cfi_def_cfa_offset 176\n.cfi_offset 29, -176\n.cfi_offset 30, -168\n"
        "stp x19, x20, [sp, #16]\n stp x21, x22, [sp, #32]\n stp x23, x24, [sp, #48]\n stp x25, x26, [sp, #64]\n stp x27, x28, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n str x18, [sp, #160]\n"
        "mov x8, x0\n adrp x10, save\n mov x9, sp\n str x9, [x10, #:lo12:save]\n"
        "adrp x9, before\n add x9, x9, #:lo12:before\n"
        "ldp x10, x11, [x9, #256]\n msr fpcr, x10\n msr fpsr, x11\n add x10, x9, #272\n"
        ".irp n,0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30\n ldr q\\n, [x10], #32\n .endr\n add x10, x9, #288\n"
        ".irp n,1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31\n ldr q\\n, [x10], #32\n .endr\n"
        ".irp n,0,1,2,3,4,5,6,7,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n ldr x\\n, [x9, #8*\\n]\n .endr\n"
        "ldr x9, [x9, #72]\n"
        "svc #0\n"
        "str x0, [sp, #168]\n adrp x0, after\n add x0, x0, #:lo12:after\n"
        ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n str x\\n, [x0, #8*\\n]\n .endr\n"
        "mrs x10, fpcr\n mrs x11, fpsr\n stp x10, x11, [x0, #256]\n msr fpcr, xzr\n msr fpsr, xzr\n add x10, x0, #272\n"
        ".irp n,0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30\n str q\\n, [x10], #32\n .endr\n add x10, x0, #288\n"
        ".irp n,1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31\n str q\\n, [x10], #32\n .endr\n"
        "adrp x10, save\n ldr x10, [x10, #:lo12:save]\n mov x11, sp\n cmp x10, x11\n b.eq 1f\n brk #1\n 1: ldr x0, [sp, #168]\n"
        "ldp x19, x20, [sp, #16]\n ldp x21, x22, [sp, #32]\n ldp x23, x24, [sp, #48]\n ldp x25, x26, [sp, #64]\n ldp x27, x28, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n ldr x18, [sp, #160]\n"
        "ldp x29, x30, [sp], #176\n.cfi_def_cfa_offset 0\n.cfi_restore 29\n.cfi_restore 30\n ret\n.cfi_endproc\n.size all, .-all\n");

static long full(long number)
{
    long result = all(number);
    /* The result, and the call's number, which the kernel itself changes where a wait goes on. */
    after.x[0] = before.x[0];
    after.x[8] = before.x[8];
    after.result = before.result;
    return result;
}
#endif

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
    static struct timeval short_time __attribute__((unused));
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
    prepare();
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
#ifdef __x86_64__
        if (!strcmp(call, "poll"))
            number = SYS_poll, ARGUMENT(0) = (uint64_t)&nothing, ARGUMENT(1) = 1, ARGUMENT(2) = MS;
        else if (!strcmp(call, "select"))
            number = SYS_select, ARGUMENT(0) = ARGUMENT(1) = ARGUMENT(2) = ARGUMENT(3) = 0, ARGUMENT(4) = (uint64_t)&short_time;
        else if (!strcmp(call, "epoll_wait"))
            number = SYS_epoll_wait, ARGUMENT(0) = epoll, ARGUMENT(1) = (uint64_t)&event, ARGUMENT(2) = 1, ARGUMENT(3) = MS;
        else
#endif
        /* Where the kernel has only the newer ones of these calls, the C library makes them. */
        if (!strcmp(call, "ppoll") || !strcmp(call, "poll"))
            number = SYS_ppoll, ARGUMENT(0) = (uint64_t)&nothing, ARGUMENT(1) = 1, ARGUMENT(2) = (uint64_t)&time, ARGUMENT(3) = 0;
        else if (!strcmp(call, "select"))
            number = SYS_pselect6, ARGUMENT(0) = ARGUMENT(1) = ARGUMENT(2) = ARGUMENT(3) = ARGUMENT(5) = 0, ARGUMENT(4) = (uint64_t)&time;
        else if (!strcmp(call, "epoll_wait"))
            number = SYS_epoll_pwait, ARGUMENT(0) = epoll, ARGUMENT(1) = (uint64_t)&event, ARGUMENT(2) = 1, ARGUMENT(3) = MS, ARGUMENT(4) = 0;
        else if (!strcmp(call, "nanosleep"))
            number = SYS_nanosleep, ARGUMENT(0) = (uint64_t)&time, ARGUMENT(1) = 0;
        else if (!strcmp(call, "nanosleep_rest"))
            number = SYS_nanosleep, ARGUMENT(0) = (uint64_t)&time, ARGUMENT(1) = (uint64_t)&rest;
        else if (!strcmp(call, "clock_nanosleep"))
            number = SYS_clock_nanosleep, ARGUMENT(0) = CLOCK_MONOTONIC, ARGUMENT(1) = 0, ARGUMENT(2) = (uint64_t)&time, ARGUMENT(3) = 0;
        else if (!strcmp(call, "recvfrom"))
            number = SYS_recvfrom, ARGUMENT(0) = ends[0], ARGUMENT(1) = (uint64_t)&byte, ARGUMENT(2) = 1,
            ARGUMENT(3) = ARGUMENT(4) = ARGUMENT(5) = 0, wanted = 1;
        else
            number = SYS_read, ARGUMENT(0) = ends[0], ARGUMENT(1) = (uint64_t)&byte, ARGUMENT(2) = 1, wanted = 1;
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
