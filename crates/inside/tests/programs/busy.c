// Four threads allocate blocks, keep some of them, check their content, and free them. The first thread waits for
// lines. With "opens PATH" another thread opens and closes a library; with "forks" another thread forks. Out: a line
// for each line read.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 512

static atomic_long rounds, wrong, opened, forked;
static const char *library;

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;
};

__attribute__((noinline)) static void *site_small(size_t size) { return malloc(size); }
__attribute__((noinline)) static void *site_zeroed(size_t size) { return calloc(1, size); }
__attribute__((noinline)) static void *site_grown(void *block, size_t size) { return realloc(block, size); }

static void check(struct block *block) {
    for (size_t at = 0; at < block->size; at++)
        if (block->bytes[at] != block->mark) {
            wrong++;
            return;
        }
}

static void *works(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    struct block *kept = calloc(KEPT, sizeof *kept);
    for (;;) {
        struct block *block = &kept[rand_r(&state) % KEPT];
        if (block->bytes) {
            check(block);
            if (rand_r(&state) % 3 == 0) {
                size_t size = 16 + rand_r(&state) % 2000;
                block->bytes = site_grown(block->bytes, size);
                block->size = size;
                memset(block->bytes, block->mark, size);
            } else {
                free(block->bytes);
                block->bytes = NULL;
            }
        } else {
            block->size = 16 + rand_r(&state) % 1000;
            int zeroed = rand_r(&state) % 2;
            block->bytes = zeroed ? site_zeroed(block->size) : site_small(block->size);
            block->mark = zeroed ? 0 : rand_r(&state);
            if (!zeroed) memset(block->bytes, block->mark, block->size);
        }
        if (++rounds % 4096 == 0) usleep(100);
    }
    return NULL;
}

static void *opens(void *unused) {
    for (;;) {
        void *handle = dlopen(library, RTLD_NOW);
        if (!handle) wrong++;
        else if (dlclose(handle)) wrong++;
        opened++;
        usleep(300);
    }
    return unused;
}

static void *forks(void *unused) {
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            void *blocks[100];
            for (int at = 0; at < 100; at++) blocks[at] = malloc(100 + at);
            for (int at = 0; at < 100; at++) free(blocks[at]);
            _exit(0);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) wrong++;
        forked++;
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    for (size_t at = 1; at <= 4; at++) pthread_create(&thread, NULL, works, (void *)at);
    for (int at = 1; at < argc; at++) {
        if (!strcmp(argv[at], "forks")) pthread_create(&thread, NULL, forks, NULL);
        if (!strcmp(argv[at], "opens") && at + 1 < argc) {
            library = argv[at + 1];
            pthread_create(&thread, NULL, opens, NULL);
        }
    }
    for (;;) {
        printf("rounds=%ld wrong=%ld opened=%ld forked=%ld\n", rounds, wrong, opened, forked);
        fflush(stdout);
        struct pollfd in = {0, POLLIN, 0};
        poll(&in, 1, -1);
        char line[100];
        if (!fgets(line, sizeof line, stdin)) return 0;
    }
}
