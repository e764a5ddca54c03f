// What a window of the last seconds has to tell. The argument says what is done:
// rounds: a child and its parent allocate at three places, again and again; the parent then kills itself.
// paths: each allocation has a stack of its own, at first; those of the first hundred come again at the end.
// older: blocks that stay, then so many calls that these leave the window, then a block of `survivor` behind each of short life.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OLDER = 512, BLOCKS = 1024, PATHS = 1 << 14 };

__attribute__((noinline)) static char *first(void) {
    char *volatile block = malloc(104);
    return block;
}

__attribute__((noinline)) static char *second(void) {
    char *volatile block = calloc(1, 208);
    return block;
}

__attribute__((noinline)) static char *third(void) {
    char *volatile block = realloc(malloc(24), 312);
    return block;
}

static void *rounds(void *unused) {
    (void)unused;
    for (int i = 0; i < 60000; i++) {
        char *a = first(), *b = second(), *c = i % 5 == 0 ? third() : NULL;
        free(a), free(c), free(b);
    }
    return NULL;
}

static volatile int turns;
static void walk(int depth, unsigned path);

__attribute__((noinline)) static void left(int depth, unsigned path) {
    walk(depth, path);
    turns++;
}

__attribute__((noinline)) static void right(int depth, unsigned path) {
    walk(depth, path);
    turns--;
}

__attribute__((noinline)) static void walk(int depth, unsigned path) {
    if (depth == 0)
        free(first());
    else
        (path & 1 ? left : right)(depth - 1, path >> 1);
    turns += 2;
}

__attribute__((noinline)) char *survivor(void) {
    char *volatile block = malloc(64);
    memset(block, 1, 64);
    return block;
}

static char *volatile kept[OLDER + 2 * BLOCKS];

static void older(void) {
    for (int i = 0; i < OLDER; i++)
        kept[i] = malloc(4000), memset(kept[i], 1, 4000);
    rounds(NULL);
    for (int i = OLDER; i < OLDER + BLOCKS; i++)
        kept[i] = malloc(3000), memset(kept[i], 1, 3000), kept[i + BLOCKS] = survivor();
    for (int i = OLDER; i < OLDER + BLOCKS; i++)
        free(kept[i]);
    for (int i = 0; i < 10; i++)
        free(kept[i * 2]);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "rounds") == 0) {
        pid_t child = fork();
        pthread_t other;
        pthread_create(&other, NULL, rounds, NULL);
        rounds(NULL);
        pthread_join(other, NULL);
        if (child == 0)
            return 0;
        waitpid(child, NULL, 0);
        raise(SIGKILL);
    }
    if (argc > 1 && strcmp(argv[1], "paths") == 0) {
        for (unsigned path = 0; path < PATHS + 100; path++)
            walk(14, path % PATHS);
        puts("done");
        return 0;
    }
    older();
    puts("ready");
    fflush(stdout);
    fclose(fopen("up", "w"));
    for (;;)
        pause();
}
