// The program exits while the address to which signal handlers return is on its stack, although no handler runs. The C
// library's `sigaction` leaves this address there, too.
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
