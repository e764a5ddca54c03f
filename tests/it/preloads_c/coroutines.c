// Coroutines that wait. Their stacks are in three places: below the thread's own stack with an inaccessible page
// between, on the heap, and inside the thread's own stack. Each is tested in the first thread and in another one.
// Prints only failures.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { BYTES = 256 << 10 };
static ucontext_t thread_context, coroutine_context;
static const char *place;

// Uses the allocator, so that there is memory to give back, and waits.
static void use_and_wait(void) {
    for (int i = 0; i < 4000; i++) {
        char *block = malloc(100 + i % 900);
        if (block == NULL) abort();
        block[0] = 1;
        free(block);
    }
    struct timespec t = {0, 20000000};
    nanosleep(&t, NULL);
    poll(NULL, 0, 20);
    select(0, NULL, NULL, NULL, &(struct timeval){0, 20000});
}

static void coroutine(void) {
    use_and_wait();
    swapcontext(&coroutine_context, &thread_context);
}

static void run_on(void *stack) {
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = stack;
    coroutine_context.uc_stack.ss_size = BYTES;
    coroutine_context.uc_link = NULL;
    makecontext(&coroutine_context, coroutine, 0);
    swapcontext(&thread_context, &coroutine_context);
}

// Keeps frames alive while the coroutine runs on a stack above them.
static __attribute__((noinline)) int keep_frames(void *stack, int depth) {
    volatile char frame[32 << 10];
    memset((void *)frame, depth + 1, sizeof frame);
    int kept = 1;
    if (depth == 0) run_on(stack);
    else kept = keep_frames(stack, depth - 1);
    for (size_t i = 0; i < sizeof frame; i++)
        if (frame[i] != depth + 1) kept = 0;
    return kept;
}

static __attribute__((noinline)) void inside(void) {
    char stack[BYTES];
    memset(stack, 0, sizeof stack);
    place = "inside the thread's own stack";
    if (!keep_frames(stack, 3)) {
        printf("%s: frames that live were lost\n", place);
        exit(1);
    }
}

static void on_the_heap(void) {
    place = "on the heap";
    void *stack = malloc(BYTES);
    run_on(stack);
    free(stack);
}

// As close below the thread's own stack as possible.
static void below(void) {
    place = "below the thread's own stack";
    pthread_attr_t attributes;
    void *low;
    size_t size, guard;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) abort();
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t gap = page; gap < 64 << 20; gap += 16 * page) {
        char *wanted = (char *)low - guard - gap - BYTES;
        char *stack = mmap(wanted, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (stack != wanted) {
            if (stack != MAP_FAILED) munmap(stack, BYTES);
            continue;
        }
        run_on(stack);
        munmap(stack, BYTES);
        return;
    }
    printf("%s: no place\n", place);
    exit(1);
}

static void fell(int signal) {
    (void)signal;
    if (write(1, place, strlen(place)) > 0 && write(1, ": it crashed\n", 13) > 0) _exit(1);
    _exit(1);
}

static void *all(void *is_first) {
    // The handler that reports crashes has a separate stack.
    static char other[64 << 10];
    sigaltstack(&(stack_t){.ss_sp = other, .ss_size = sizeof other}, NULL);
    use_and_wait();
    on_the_heap();
    if (is_first == NULL) below();
    inside();
    use_and_wait();
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = fell, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    all(&action);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, all, NULL) != 0) abort();
    pthread_join(thread, NULL);
    return 0;
}
