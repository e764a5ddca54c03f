// Holds blocks in ways that are easily missed, and loses some. Each block of a way has the same size. Held are 100 each in memory that is now
// read-only, that nobody may read, that is code, in a private file that is read-only, in a file of memory that is mapped read-only, and in memory
// of sbrk; 50 in epoll's data, and 20 in timers. Lost are 50 in memory that is gone, and 20 in a pipe. Waits until its input ends.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNT 100
static size_t size = 200;

static void *block(void) {
    char *block = malloc(size);
    memset(block, 0x11, size);
    return block;
}

static void **page(int descriptor, int flags) {
    return mmap(0, 4096, PROT_READ | PROT_WRITE, flags, descriptor, 0);
}

static void fill(void **words) {
    for (int at = 0; at < COUNT; at++) words[at] = block();
    size += 16;
}

static void __attribute__((noinline)) hold(void) {
    static void **maps[5];
    fill(maps[0] = page(-1, MAP_PRIVATE | MAP_ANONYMOUS));
    mprotect(maps[0], 4096, PROT_READ);
    fill(maps[1] = page(-1, MAP_PRIVATE | MAP_ANONYMOUS));
    mprotect(maps[1], 4096, PROT_NONE);
    unsigned char *code = (unsigned char *)(maps[2] = page(-1, MAP_PRIVATE | MAP_ANONYMOUS));
    for (int at = 0; at < COUNT; at++) {
        // mov rax, address
        void *one = block();
        code[at * 11] = 0x48;
        code[at * 11 + 1] = 0xb8;
        memcpy(code + at * 11 + 2, &one, 8);
    }
    size += 16;
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), 8192)) exit(1);
    fill(maps[3] = page(fileno(file), MAP_PRIVATE));
    mprotect(maps[3], 4096, PROT_READ);
    int memory = memfd_create("words", 0);
    if (ftruncate(memory, 4096)) exit(1);
    void **written = page(memory, MAP_SHARED);
    maps[4] = mmap(0, 4096, PROT_READ, MAP_SHARED, memory, 0);
    fill(written);
    munmap(written, 4096);
    // Memory that the program takes itself, in the middle of the heap.
    fill(sbrk(65536));
    int epoll = epoll_create1(0);
    for (int at = 0; at < 50; at++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = block()};
        epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(0, 0), &event);
    }
    size += 16;
    for (int at = 0; at < 20; at++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_ptr = block()};
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
    }
    size += 16;
}

static void __attribute__((noinline)) lose(void) {
    void **gone = page(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    for (int at = 0; at < 50; at++) gone[at] = block();
    munmap(gone, 4096);
    size += 16;
    int ends[2];
    if (pipe(ends)) exit(1);
    for (int at = 0; at < 20; at++) {
        void *one = block();
        if (write(ends[1], &one, sizeof one) < 0) exit(1);
    }
}

// What a function leaves on the stack can hold a block.
static void __attribute__((noinline)) clear(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main(void) {
    hold();
    lose();
    clear();
    puts("lost=70 pipes=1 epoll=50 timers=20");
    fflush(stdout);
    return getchar() == 0;
}
