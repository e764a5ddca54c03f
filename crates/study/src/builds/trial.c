// Runs under a library that was just built. It exits with 0 if the family of malloc works in four threads and after a fork, and prints
// the version that the library reports.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static void *work(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed + 1;
    char *blocks[256] = {0};
    size_t sizes[256] = {0};
    for (int i = 0; i < 20000; i++) {
        state = state * 1664525u + 1013904223u;
        int at = state >> 24;
        size_t size = 1 + ((state >> 8) & 0xFFF) * ((state & 7) == 0 ? 64 : 1);
        if (blocks[at] && (blocks[at][0] != (char)at || blocks[at][sizes[at] - 1] != (char)at)) fail("a block was overwritten");
        void *block = NULL;
        switch (state % 5) {
        case 0: free(blocks[at]); block = malloc(size); break;
        case 1: free(blocks[at]); block = calloc(1, size); if (block && ((char *)block)[size / 2]) fail("calloc: not zero"); break;
        case 2: block = realloc(blocks[at], size); break;
        case 3: free(blocks[at]); if (posix_memalign(&block, 64, size)) block = NULL; break;
        case 4: free(blocks[at]); block = aligned_alloc(4096, (size + 4095) / 4096 * 4096); break;
        }
        if (!block) fail("no memory");
        if (state % 5 == 3 && (uintptr_t)block % 64) fail("posix_memalign: not aligned");
        if (state % 5 == 4 && (uintptr_t)block % 4096) fail("aligned_alloc: not aligned");
        if (malloc_usable_size(block) < size) fail("malloc_usable_size: too small");
        blocks[at] = block;
        sizes[at] = size;
        memset(block, at, size);
    }
    for (int at = 0; at < 256; at++) free(blocks[at]);
    return NULL;
}

static void round_of_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) fail("no thread");
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

int main(void) {
    Dl_info of_malloc;
    if (!dladdr((void *)malloc, &of_malloc)) fail("malloc is in no library");
    const char *preloaded = getenv("ALLOCANARY_TRIED");
    if (!preloaded || strcmp(of_malloc.dli_fname, preloaded)) fail(of_malloc.dli_fname);
    round_of_threads();
    pid_t child = fork();
    if (child == 0) {
        round_of_threads();
        _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status) fail("the child of a fork failed");
    int (*mi_version)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "mi_version");
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) =
        (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
    const char *version;
    size_t length = sizeof version;
    if (mi_version) printf("mimalloc %d\n", mi_version());
    else if (mallctl && !mallctl("version", &version, &length, NULL, 0)) printf("jemalloc %s\n", version);
    return 0;
}
