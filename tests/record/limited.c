// Makes and frees 200,000 blocks, a thread and a forked child among them, and says how many. Under a limit on the length of
// files (`ulimit -f`) that must be all that happens.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EACH = 50000 };

static void *work(void *count) {
    for (int at = 0; at < EACH; at++) {
        char *block = malloc(16 + at % 900);
        block[0] = 1;
        block = realloc(block, 16 + at % 1700);
        free(block);
    }
    *(int *)count += EACH;
    return NULL;
}

int main(void) {
    int count = 0;
    pthread_t thread;
    work(&count);
    pthread_create(&thread, NULL, work, &count);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        work(&count);
        exit(count == 3 * EACH ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) {
        printf("the child's status is %d\n", status);
        return 1;
    }
    work(&count);
    printf("%d\n", count);
    return 0;
}
