// The address to which signal handlers return is on the stack, although no handler runs, and the program exits. The stack looks
// like this after the C library's `sigaction`.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void handler(int signal) { (void)signal; }

int main(void) {
    // The kernel's structure: handler, flags, the return address if the processor has one, mask.
    volatile unsigned long action[4] = {0}, left[256];
    signal(SIGUSR1, handler);
    if (syscall(SYS_rt_sigaction, SIGUSR1, NULL, action, 8)) return 1;
    for (int i = 0; i < 256; i++) left[i] = action[2];
    free(malloc(left[255] % 100 + 1));
    exit(0);
}
