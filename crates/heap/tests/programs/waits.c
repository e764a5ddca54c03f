// A program whose threads wait: some in calls that end with EINTR if the thread is stopped, some in other calls. For
// each line on its standard input it writes how many waits have ended and how many signals have come. A line with `s`
// first waits for a signal, for at most 30 seconds.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int ended, signals;
static sem_t by_signal;
static volatile int epoll_thread;

static void over(void) { atomic_fetch_add(&ended, 1); }
static void handler(int signal) { (void)signal; atomic_fetch_add(&signals, 1); sem_post(&by_signal); }

static void *in_epoll(void *unused) {
  int poller = epoll_create1(0);
  struct epoll_event event;
  prctl(PR_SET_NAME, "\xff) \xfe");  // A name can be any bytes.
  epoll_thread = (int)syscall(SYS_gettid);
  for (;;) { epoll_wait(poller, &event, 1, -1); over(); }
  return unused;
}
static void *in_signal(void *unused) {
  sigset_t set;
  struct timespec long_time = {100000, 0};
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  for (;;) { sigtimedwait(&set, 0, &long_time); over(); }
  return unused;
}
static void *in_receive(void *unused) {
  int pair[2];
  char byte;
  struct timeval long_time = {100000, 0};
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
  for (;;) { recv(pair[0], &byte, 1, 0); over(); }
  return unused;
}
static void *in_poll(void *unused) { for (;;) { poll(0, 0, -1); over(); } return unused; }
static void *in_sleep(void *unused) {
  struct timespec long_time = {100000, 0};
  for (;;) { nanosleep(&long_time, 0); over(); }
  return unused;
}
static void *in_malloc(void *unused) {
  for (unsigned i = 1;; i++) { char *volatile block = malloc(16 + i % 5000); free(block); }
  return unused;
}

int main(void) {
  void *(*all[])(void *) = {in_epoll, in_signal, in_receive, in_poll, in_sleep, in_malloc};
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, 0);
  sem_init(&by_signal, 0, 0);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    pthread_t thread;
    pthread_create(&thread, 0, all[i], 0);
  }
  while (!epoll_thread) usleep(1000);
  usleep(100000);
  char line[64];
  do {
    int length = snprintf(line, sizeof line, "ended=%d signals=%d thread=%d\n", atomic_load(&ended), atomic_load(&signals), epoll_thread);
    if (write(1, line, length) != length || read(0, line, 1) != 1) break;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    if (line[0] == 's') sem_timedwait(&by_signal, &until);
    char rest;
    while (line[0] != '\n' && read(0, &rest, 1) == 1 && rest != '\n') {}
  } while (1);
  return 0;
}
