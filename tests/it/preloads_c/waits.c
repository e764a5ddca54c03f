// Each wait is ended by an event in its first and in its second part, by its time limit, and by a signal in both parts.
// Prints only failures; 0 if all results are those of the C library. Compiled with the names of the waits that are
// checked.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
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
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int failed;
#define CHECK(what) do { if (!(what)) { printf("%s:%d: %s (errno %d)\n", wait_name, __LINE__, #what, errno); failed = 1; } } while (0)

enum { NONE, EVENT, SIGNAL };
static const char *wait_name;
static int pipes[2], set;
static sem_t semaphore;
static _Atomic int word;
static pthread_t waiter;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int told;
static volatile sig_atomic_t handled;

static void handler(int signal) { (void)signal; handled++; }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}
static struct timespec of(int64_t ms) { return (struct timespec){ms / 1000, ms % 1000 * 1000000}; }
static struct timespec at(clockid_t clock, int64_t ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    int64_t nanos = t.tv_nsec + ms % 1000 * 1000000;
    return (struct timespec){t.tv_sec + ms / 1000 + nanos / 1000000000, nanos % 1000000000};
}

struct job { int what, after, repeats; }; // repeats: the signal is sent again
static _Atomic int over; // the wait has returned

static void *other(void *given) {
    struct job job = *(struct job *)given;
    struct timespec t = of(job.after);
    syscall(SYS_nanosleep, &t, NULL);
    // Sends it again until the wait has returned: on a busy machine the first signal may come before the wait has
    // begun.
    while (job.what == SIGNAL && !over) {
        pthread_kill(waiter, SIGUSR1);
        if (!job.repeats) break;
        syscall(SYS_nanosleep, &t, NULL);
    }
    if (job.what == EVENT) {
        if (write(pipes[1], "x", 1) != 1) abort();
        sem_post(&semaphore);
        word = 1;
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        pthread_mutex_lock(&mutex);
        told = 1;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&condition);
    }
    return NULL;
}

// Checks that a wait took at least this time, and at most what a busy machine may need.
static void took(int64_t since, int least) {
    int64_t ms = now() - since;
    CHECK(ms >= least - 1 && ms < 60000);
}

// The remaining time of a wait that ended early must be its limit minus the time that it took.
static void is_left(int ms, int64_t since, int64_t left) {
    CHECK(left <= ms && left >= ms - (now() - since) - 2);
}

typedef int wait_of(int ms, int what, int after); // ms < 0 means without a limit; the result: 1 event, 0 time, -1 EINTR

static int answer(int n) { return n > 0 ? 1 : n == 0 ? 0 : errno == EINTR ? -1 : -9; }

static int by_epoll_wait(int ms, int what, int after) {
    struct epoll_event events[4];
    return answer(epoll_wait(set, events, 4, ms));
}
static int by_epoll_pwait(int ms, int what, int after) {
    struct epoll_event events[4];
    sigset_t none;
    sigemptyset(&none);
    return answer(epoll_pwait(set, events, 4, ms, &none));
}
static int by_poll(int ms, int what, int after) {
    struct pollfd file = {pipes[0], POLLIN, 0};
    int n = poll(&file, 1, ms);
    CHECK(n <= 0 || file.revents == POLLIN);
    return answer(n);
}
static int by_ppoll(int ms, int what, int after) {
    struct pollfd file = {pipes[0], POLLIN, 0};
    struct timespec t = of(ms);
    return answer(ppoll(&file, 1, ms < 0 ? NULL : &t, NULL));
}
static int by_select(int ms, int what, int after) {
    fd_set files;
    FD_ZERO(&files);
    FD_SET(pipes[0], &files);
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    int64_t since = now();
    int n = select(pipes[0] + 1, &files, NULL, NULL, ms < 0 ? NULL : &t);
    CHECK(n != 0 || (!FD_ISSET(pipes[0], &files) && t.tv_sec == 0 && t.tv_usec == 0));
    CHECK(n <= 0 || FD_ISSET(pipes[0], &files));
    if (n && ms > 0) is_left(ms, since, t.tv_sec * 1000 + t.tv_usec / 1000);
    return answer(n);
}
static int by_pselect(int ms, int what, int after) {
    fd_set files;
    FD_ZERO(&files);
    FD_SET(pipes[0], &files);
    struct timespec t = of(ms);
    return answer(pselect(pipes[0] + 1, &files, NULL, NULL, ms < 0 ? NULL : &t, NULL));
}
static int by_nanosleep(int ms, int what, int after) {
    struct timespec t = of(ms), left = {99, 99};
    int64_t since = now();
    int n = nanosleep(&t, &left);
    if (n) is_left(ms, since, left.tv_sec * 1000 + left.tv_nsec / 1000000);
    else CHECK(left.tv_sec == 99);
    return answer(n);
}
static int by_usleep(int ms, int what, int after) { return answer(usleep(ms * 1000)); }
static int by_clock_nanosleep(int ms, int what, int after) {
    struct timespec t = of(ms), left = {99, 99};
    int64_t since = now();
    int n = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left);
    if (n) is_left(ms, since, left.tv_sec * 1000 + left.tv_nsec / 1000000);
    CHECK(n == 0 || n == EINTR);
    return n ? -1 : 0;
}
static int by_clock_nanosleep_until(int ms, int what, int after) {
    struct timespec t = at(CLOCK_MONOTONIC, ms);
    int n = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    CHECK(n == 0 || n == EINTR);
    return n ? -1 : 0;
}
static int by_sem(int n) { return n == 0 ? 1 : errno == ETIMEDOUT ? 0 : errno == EINTR ? -1 : -9; }
static int by_sem_wait(int ms, int what, int after) { return by_sem(sem_wait(&semaphore)); }
static int by_sem_timedwait(int ms, int what, int after) {
    struct timespec t = at(CLOCK_REALTIME, ms);
    return by_sem(sem_timedwait(&semaphore, &t));
}
static int by_sem_clockwait(int ms, int what, int after) {
    struct timespec t = at(CLOCK_MONOTONIC, ms);
    return by_sem(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t));
}
// A number that has already changed counts as an event: on a busy machine it may change before the wait.
static int by_word(int n, int what) { return n && errno == EAGAIN && what == EVENT && word ? 1 : by_sem(n); }
static int by_futex(int ms, int what, int after) {
    struct timespec t = of(ms);
    return by_word(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, ms < 0 ? NULL : &t, NULL, 0), what);
}
static int by_futex_until(int ms, int what, int after) {
    struct timespec t = at(CLOCK_REALTIME, ms);
    int op = FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME;
    return by_word(syscall(SYS_futex, &word, op, 0, ms < 0 ? NULL : &t, NULL, ~0), what);
}
static int by_condition(int ms, int what, int after) {
    struct timespec t = at(CLOCK_REALTIME, ms);
    int n = 0;
    pthread_mutex_lock(&mutex);
    while (!told && n == 0) n = ms < 0 ? pthread_cond_wait(&condition, &mutex) : pthread_cond_timedwait(&condition, &mutex, &t);
    pthread_mutex_unlock(&mutex);
    CHECK(n == 0 || n == ETIMEDOUT);
    return n ? 0 : 1;
}
static int by_condition_clock(int ms, int what, int after) {
    struct timespec t = at(CLOCK_MONOTONIC, ms);
    int n = 0;
    pthread_mutex_lock(&mutex);
    while (!told && n == 0) n = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &t);
    pthread_mutex_unlock(&mutex);
    CHECK(n == 0 || n == ETIMEDOUT);
    return n ? 0 : 1;
}

static void run(const char *name, wait_of *wait, int kinds) {
    wait_name = name;
    if (getenv("SAY")) puts(name);
    // The first part, then the second: the preload has thread_idle=100ms.
    static const int after[] = {20, 250};
    for (int part = 0; part < 2; part++) {
        for (int what = EVENT; what <= SIGNAL; what++) {
            if (!(kinds & what)) continue;
            // With SA_RESTART only waits without a time limit continue. All waits here have one.
            char drained[8];
            while (poll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, 0) > 0) if (read(pipes[0], drained, 8) < 0) abort();
            while (sem_trywait(&semaphore) == 0) {}
            word = told = handled = over = 0;
            struct job job = {what, after[part], 1};
            pthread_t thread;
            int64_t since = now();
            pthread_create(&thread, NULL, other, &job);
            free(memset(malloc(100000), 1, 100000)); // something to give back
            int endless = (kinds & 4) && part;
            int came = wait(endless ? -1 : 50000, what, after[part]);
            over = 1;
            took(since, after[part]);
            if (came != (what == EVENT ? 1 : -1)) printf("%s: %s in part %d: answer %d, errno %d\n", name, what == EVENT ? "event" : "signal", part + 1, came, errno), failed = 1;
            if (what == SIGNAL) CHECK(handled >= 1);
            pthread_join(thread, NULL);
        }
    }
    if (kinds & 8) {
        char drained[8];
        while (poll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, 0) > 0) if (read(pipes[0], drained, 8) < 0) abort();
        while (sem_trywait(&semaphore) == 0) {}
        word = told = 0;
        int64_t since = now();
        CHECK(wait(250, NONE, 0) == 0);
        took(since, 250);
        since = now();
        CHECK(wait(1, NONE, 0) == 0);
        took(since, 1);
    }
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int s = 1; s < 65; s++) CHECK(sigismember(&mask, s) != 1);
}

static void *cancelled(void *nothing) {
    struct timespec t = of(60000);
    nanosleep(&t, NULL);
    return nothing;
}
static void *cancelled_in_poll(void *nothing) {
    poll(NULL, 0, 60000);
    return nothing;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(300); // a wait that never ends is a failure
    waiter = pthread_self();
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    if (pipe(pipes) || sem_init(&semaphore, 0, 0)) return 1;
    set = epoll_create1(0);
    struct epoll_event wanted = {EPOLLIN, {0}};
    epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &wanted);
    // 1 has events, 2 has signals, 4 can be without a limit, 8 can have a limit
    run("epoll_wait", by_epoll_wait, 15);
    run("epoll_pwait", by_epoll_pwait, 15);
    run("poll", by_poll, 15);
    run("ppoll", by_ppoll, 15);
    run("select", by_select, 15);
    run("pselect", by_pselect, 15);
    run("nanosleep", by_nanosleep, 2 | 8);
    run("usleep", by_usleep, 2 | 8);
    run("clock_nanosleep", by_clock_nanosleep, 2 | 8);
    run("clock_nanosleep until", by_clock_nanosleep_until, 2 | 8);
    run("sem_wait", by_sem_wait, 3 | 4);
    run("sem_timedwait", by_sem_timedwait, 3 | 8);
    run("sem_clockwait", by_sem_clockwait, 3 | 8);
    run("futex", by_futex, 15);
    run("futex until", by_futex_until, 15);
    run("condition", by_condition, 1 | 4 | 8);
    run("condition by a clock", by_condition_clock, 1 | 8);

    // With SA_RESTART a wait without a time limit continues, in both parts.
    wait_name = "restarted";
    over = 0;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    for (int part = 0; part < 2; part++) {
        handled = 0;
        while (sem_trywait(&semaphore) == 0) {}
        struct job signal = {SIGNAL, part ? 250 : 20, 0}, event = {EVENT, 500, 0};
        pthread_t first, second;
        pthread_create(&first, NULL, other, &signal);
        pthread_create(&second, NULL, other, &event);
        CHECK(sem_wait(&semaphore) == 0);
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        CHECK(handled == 1);
    }

    // An interrupted sleep returns the whole seconds that are left, in both parts. A full one keeps errno.
    wait_name = "sleep";
    for (int part = 0; part < 2; part++) {
        struct job signal = {SIGNAL, part ? 250 : 20, 1};
        pthread_t first;
        over = 0;
        pthread_create(&first, NULL, other, &signal);
        CHECK(sleep(60) >= 30 && errno == EINTR);
        over = 1;
        pthread_join(first, NULL);
    }
    errno = 7;
    CHECK(sleep(0) == 0 && sleep(1) == 0 && errno == 7);

    // Wrong arguments give the same errors as without the preload.
    wait_name = "wrong";
    struct timespec wrong = {0, 1000000000};
    CHECK(nanosleep(&wrong, NULL) == -1 && errno == EINVAL);
    CHECK(ppoll(NULL, 0, &wrong, NULL) == -1 && errno == EINVAL);
    CHECK(pselect(0, NULL, NULL, NULL, &wrong, NULL) == -1 && errno == EINVAL);
    struct epoll_event nothing;
    CHECK(epoll_wait(-1, &nothing, 1, 1000) == -1 && errno == EBADF);
    CHECK(select(-1, NULL, NULL, NULL, NULL) == -1 && errno == EINVAL);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL) == EINVAL);
    CHECK(sem_timedwait(&semaphore, &wrong) == -1 && errno == EINVAL);
    CHECK(accept(-1, NULL, NULL) == -1 && errno == EBADF);
    word = 7;
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &wrong, NULL, 0) == -1 && errno == EINVAL);

    // A thread can be cancelled in either part.
    wait_name = "cancel";
    for (int part = 0; part < 4; part++) {
        pthread_t thread;
        void *end = NULL;
        pthread_create(&thread, NULL, part / 2 ? cancelled_in_poll : cancelled, NULL);
        struct timespec t = of(part % 2 ? 250 : 20);
        syscall(SYS_nanosleep, &t, NULL);
        pthread_cancel(thread);
        pthread_join(thread, &end);
        CHECK(end == PTHREAD_CANCELED);
    }
    return failed;
}
