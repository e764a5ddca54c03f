// A process whose memory looks like glibc's main arena with a block in a page that never arrives. A reader that copies
// this page from the process waits for ever. One thread counts, and another one writes the count whenever it reads a
// byte.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

volatile uint64_t data[4096] __attribute__((aligned(4096))) = {1, 2, 3};
static volatile uint64_t count;

static void *counts(void *unused) {
    for (;; count++) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return unused;
}

int main(void) {
    const size_t bytes = 1 << 20;
    int fault = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    // In private memory the reader would see that the page is not present.
    char *shared = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(uint64_t)shared, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fault < 0 || ioctl(fault, UFFDIO_API, &api) || shared == MAP_FAILED || ioctl(fault, UFFDIO_REGISTER, &all)) {
        puts("ready=0");
        return 0;
    }
    uint64_t arena = (uint64_t)data + 64, *bins = (uint64_t *)(arena + 112);
    for (int bin = 0; bin < 127; bin++) bins[2 * bin] = bins[2 * bin + 1] = (uint64_t)(bins + 2 * bin) - 16;
    bins[6] = bins[7] = (uint64_t)shared + 0x100;
    *(uint64_t *)(arena + 112 + 2048) = arena;
    pthread_t thread;
    if (pthread_create(&thread, NULL, counts, NULL)) return 1;
    puts("ready=1");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) == 1;) {
        if (byte != '\n') continue;
        printf("count=%llu\n", (unsigned long long)count);
        fflush(stdout);
    }
    return 0;
}
