// A service of root: it becomes another user, begins a child, and begins a program anew. Each of the three allocates.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(const char *who) {
    for (int at = 0; at < 1000; at++) {
        void *volatile block = malloc((size_t)at + 1);
        free(block);
    }
    printf("%s %d\n", who, (int)getuid());
    fflush(stdout);
}

int main(int count, char **words) {
    allocate(count > 1 ? words[1] : "first");
    if (count > 1) return 0;
    if (setgid(64321) || setuid(64321)) return 1;
    pid_t child = fork();
    if (child == 0) {
        allocate("child");
        exit(0);
    }
    waitpid(child, NULL, 0);
    execl("/proc/self/exe", "changes_user", "again", NULL);
    return 2;
}
