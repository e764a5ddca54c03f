/* A service whose live bytes are known at each mark: 1 MiB when ready, 9 MiB at most under its load, 6 MiB when idle, 30 MiB
 * after its signal. Its argument is a folder: `go` there is the request, `done` the answer. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB 1024
static char *volatile blocks[64 * MIB];
static int count;
static volatile sig_atomic_t over;

static void grow(int mib) {
    for (int end = count + mib * MIB; count < end; count++) memset(blocks[count] = malloc(1024), 1, 1024);
}

static void shrink(int mib) {
    for (int end = count - mib * MIB; count > end;) free(blocks[--count]);
}

static void stop(int signal) { (void)signal, over = 1; }

int main(int argc, char **argv) {
    char go[4096], done[4096];
    if (argc < 2) return 2;
    snprintf(go, sizeof go, "%s/go", argv[1]);
    snprintf(done, sizeof done, "%s/done", argv[1]);
    signal(SIGTERM, stop);
    grow(1);
    puts("ready");
    fflush(stdout);
    while (!over) {
        if (access(go, F_OK) == 0) {
            unlink(go);
            grow(8);
            shrink(1);
            usleep(50000);
            fclose(fopen(done, "w"));
            usleep(20000);
            shrink(2);
        }
        usleep(5000);
    }
    grow(24);
    return 0;
}
