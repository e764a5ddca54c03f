/* A process in a sandbox: a filter ends it at system calls that it does not expect, as sshd's child before the login. Its argument says
   by which of three ways it enters. Waits, and ends as usual. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNEXPECTED(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(int count, char **words) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
        UNEXPECTED(SYS_sigaltstack), UNEXPECTED(SYS_getrusage), UNEXPECTED(SYS_openat), UNEXPECTED(SYS_rt_sigprocmask),
        UNEXPECTED(SYS_ppoll),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof lines / sizeof *lines, lines};
    const char *way = words[count - 1];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    /* A program asks in this way whether there are filters: it does not enter. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != -1) return 2;
    long entered = !strcmp(way, "prctl") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)
                 : !strcmp(way, "seccomp") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                 : !strcmp(way, "syscall") ? syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)
                 : 0;
    if (entered) return 3;
    free(malloc(1000000));
    poll(NULL, 0, 20);
    printf("done by %s\n", way);
    return 0;
}
