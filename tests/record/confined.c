// A program that forbids itself what a recorder needs, and allocates on: `confined strict|tsc|filter|asks [waits]`. `filter` kills the
// process at a call that the C library's malloc does not make; `asks` only asks whether filters are supported. With `waits` it reads a line
// before it begins.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int filter(void) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap),
        ALLOW(madvise), ALLOW(mprotect), ALLOW(futex), ALLOW(rt_sigreturn), ALLOW(getrandom),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof lines / sizeof *lines, lines};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void *allocates(void *none) {
    static __thread void *blocks[400];
    for (long at = 0; at < 300000; at++) {
        free(blocks[at * 7 % 400]);
        memset(blocks[at * 7 % 400] = malloc(16 + at % 3000), 1, 16);
    }
    return none;
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    // In strict mode malloc may make no call either: its heap neither grows nor shrinks from here on.
    mallopt(M_TOP_PAD, 8 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (count > 2 && (puts("ready=1") < 0 || fflush(stdout) || getchar() < 0)) return 4;
    allocates(NULL);
    int refused = !strcmp(way, "strict") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
                  : !strcmp(way, "tsc")  ? prctl(PR_SET_TSC, PR_TSC_SIGSEGV)
                  : !strcmp(way, "filter") ? filter()
                                           : !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
    if (refused) {
        perror(way);
        return 1;
    }
    // Its threads inherit the lack of a counter. In the other ways no thread can be made.
    pthread_t thread;
    if (!strcmp(way, "tsc") && (pthread_create(&thread, NULL, allocates, NULL) || pthread_join(thread, NULL)))
        return 2;
    allocates(NULL);
    if (write(1, "done\n", 5) != 5)
        return 3;
    // Strict mode allows only this way to end.
    if (!strcmp(way, "strict"))
        syscall(SYS_exit, 0);
    return 0;
}
