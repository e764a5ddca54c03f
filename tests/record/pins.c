/* A service with a known answer. Under its load `short_lived` makes 64 MiB in blocks of some 8 KiB, and `survivor` keeps a block of 64
 * bytes behind each. Then all of the first are freed: what is resident when idle is pinned by `survivor`, or kept by the allocator.
 * Arguments: a folder, where `go` is the request and `done` the answer; a random seed for the sizes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 8192
static char *volatile large[BLOCKS];
static char *volatile kept[BLOCKS];
static volatile sig_atomic_t over;
static unsigned state;

static size_t drawn(void) {
    state = state * 1664525u + 1013904223u;
    return 7000 + (state >> 20) % 2400;
}

__attribute__((noinline)) char *short_lived(size_t size) {
    char *volatile block = malloc(size);
    memset(block, 1, size);
    return block;
}

__attribute__((noinline)) char *survivor(void) {
    char *volatile block = malloc(64);
    memset(block, 1, 64);
    return block;
}

static void stop(int signal) { (void)signal, over = 1; }

int main(int argc, char **argv) {
    char go[4096], done[4096];
    if (argc < 2) return 2;
    state = argc > 2 ? atoi(argv[2]) : 1;
    snprintf(go, sizeof go, "%s/go", argv[1]);
    snprintf(done, sizeof done, "%s/done", argv[1]);
    signal(SIGTERM, stop);
    puts("ready");
    fflush(stdout);
    while (!over) {
        if (access(go, F_OK) == 0) {
            unlink(go);
            for (int i = 0; i < BLOCKS; i++) large[i] = short_lived(drawn()), kept[i] = survivor();
            for (int i = 0; i < BLOCKS; i++) free(large[i]);
            fclose(fopen(done, "w"));
        }
        usleep(5000);
    }
    return 0;
}
