// Runs the command that its arguments name, with a limit of one minute. It writes to the file of its first argument how the command ended,
// as `waitpid` says it, and the most memory in KiB that the command or one of its children had. The kernel counts a process that was forked
// with the memory of the one that forked it, so a small program must do this.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60); // It stays over exec.
        execv(arguments[2], arguments + 2);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child)
        return 1;
    FILE *file = fopen(arguments[1], "w");
    return file == 0 || fprintf(file, "%d %ld", status, usage.ru_maxrss) < 0 || fclose(file) != 0;
}
