// What a program's own allocator counts, for truth.py: a library that is preloaded and writes mallinfo2's figures, or jemalloc's, into
// the file $OWN_COUNTERS.PID five times a second.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// arena, uordblks, hblkhd of glibc; allocated and active of jemalloc; how often they were written.
struct figures {
    uint64_t arena, used, mapped, allocated, active, times;
};

static void *write_on(void *shared) {
    volatile struct figures *out = shared;
    int (*ctl)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
    for (;;) {
        struct mallinfo2 now = mallinfo2();
        out->arena = now.arena, out->used = now.uordblks, out->mapped = now.hblkhd;
        if (ctl) {
            uint64_t epoch = 1;
            size_t value, length = sizeof value;
            ctl("epoch", NULL, NULL, &epoch, sizeof epoch);
            if (!ctl("stats.allocated", &value, &length, NULL, 0)) out->allocated = value;
            if (!ctl("stats.active", &value, &length, NULL, 0)) out->active = value;
        }
        out->times++;
        usleep(200000);
    }
}

static void begin(void) {
    char name[300];
    const char *base = getenv("OWN_COUNTERS");
    if (!base) return;
    snprintf(name, sizeof name, "%s.%d", base, getpid());
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct figures))) return;
    void *shared = mmap(NULL, sizeof(struct figures), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    pthread_t thread;
    if (shared != MAP_FAILED && !pthread_create(&thread, NULL, write_on, shared)) pthread_detach(thread);
}

static void child(void) { begin(); }

__attribute__((constructor)) static void start(void) {
    pthread_atfork(NULL, NULL, child);
    begin();
}
