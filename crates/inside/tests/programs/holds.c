// Frees most of what it allocated, and then waits in the given system call until a line arrives. Prints what it noticed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 40000, SIZE = 1000 };
static void *blocks[BLOCKS];
static int ended, epoll;
static volatile int signals;
static volatile sig_atomic_t in_handler;

static void *storm(void *unused)
{
    (void)unused;
    for (unsigned seed = 1;; seed = seed * 1103515245 + 12345)
        free(malloc(16 + (seed >> 16) % 60000));
}

static void noticed(int signal)
{
    (void)signal;
    signals++;
}

static void sleeps(int signal)
{
    (void)signal;
    in_handler = 1;
    for (;;)
        pause();
}

/* Waits in the given call until there is something to read. */
static void wait_in(const char *call)
{
    fd_set set;
    struct epoll_event event;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    struct timespec tick = {.tv_nsec = 20000000};
    FD_ZERO(&set);
    FD_SET(0, &set);
    if (!strcmp(call, "poll"))
        ended += poll(&input, 1, -1) != 1;
    else if (!strcmp(call, "select"))
        ended += select(1, &set, NULL, NULL, NULL) != 1;
    else if (!strcmp(call, "epoll_wait"))
        ended += epoll_wait(epoll, &event, 1, -1) != 1;
    else if (!strcmp(call, "nanosleep"))
        while (poll(&input, 1, 0) == 0)
            ended += nanosleep(&tick, NULL) != 0;
}

int main(int count, char **words)
{
    const char *call = count > 1 ? words[1] : "read";
    char byte;
    pthread_t thread;
    double before, after;
    struct epoll_event event = {.events = EPOLLIN};
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
    signal(SIGUSR1, noticed);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(SIZE), 1, SIZE);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 100 != 0)
            free(blocks[i]);
    if (count > 2 && !strcmp(words[2], "storm"))
        for (int i = 0; i < 3; i++)
            pthread_create(&thread, NULL, storm, NULL);
    if (!strcmp(call, "handler")) {
        signal(SIGUSR2, sleeps);
        printf("pid=%d\n", getpid());
        fflush(stdout);
        raise(SIGUSR2);
    }
    printf("pid=%d\n", getpid());
    fflush(stdout);
    before = after = (double)getpid() * 1.5;
    for (;;) {
        errno = 1234;
        /* Keeps the value in a register while the thread waits. */
#ifdef __x86_64__
        __asm__ volatile("" : "+x"(after));
#else
        __asm__ volatile("" : "+w"(after));
#endif
        wait_in(call);
        if (read(0, &byte, 1) != 1)
            return 0;
        printf("ended=%d errno=%d signals=%d same=%d\n", ended, errno, signals, before == after);
        fflush(stdout);
    }
}
