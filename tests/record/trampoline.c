/* What Python 3.12 does with PYTHONPERFSUPPORT=1, in small: each function is called through code of its own, which is made while the program
 * runs and lies in no file, and /tmp/perf-PID.map names it. `keeps` and `drops` are such names: both call `PyBytes_FromSize`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCKS 4096
/* sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
static char *volatile kept[BLOCKS];
static char *volatile dropped[BLOCKS];

typedef char *made(size_t);
typedef char *called(size_t, size_t, size_t, made *);

__attribute__((noinline)) char *PyBytes_FromSize(size_t size) {
    char *volatile block = malloc(size);
    memset(block, 1, size);
    return block;
}

int main(int argc, char **argv) {
    char path[64];
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    memcpy(page + 64, code, sizeof code);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC)) return 2;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    /* `none` is for the run that writes no map. */
    if (argc < 2 || strcmp(argv[1], "none")) {
        unlink(path);
        FILE *map = fopen(path, "w");
        chmod(path, 0600);
        fprintf(map, "%lx %zx py::keeps:/srv/app.py\n", (long)page, sizeof code);
        fprintf(map, "%lx %zx py::drops:/srv/app.py\n", (long)page + 64, sizeof code);
        fclose(map);
    }
    called *keeps = (called *)page, *drops = (called *)(page + 64);
    for (int i = 0; i < BLOCKS; i++) dropped[i] = drops(8000, 0, 0, PyBytes_FromSize), kept[i] = keeps(64, 0, 0, PyBytes_FromSize);
    for (int i = 0; i < BLOCKS; i++) free(dropped[i]);
    return 0;
}
