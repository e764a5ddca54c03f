/* A C program with a malloc of its own, exported. With MALLCTL it shows what jemalloc shows: a symbol, and a background thread.
 * It writes over its arguments and its environment as setproctitle does, and waits to be killed. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static char heap[1 << 22];
static size_t used;

void *malloc(size_t size) {
    size_t at = __atomic_fetch_add(&used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    return at + size < sizeof heap ? heap + at : NULL;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *block, size_t size) {
    void *new = malloc(size);
    if (new && block) memmove(new, block, size);
    return new;
}

static void *wait_for_ever(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (;;) pause();
}

#ifdef MALLCTL
int mallctl(const char *name, void *old, size_t *length, void *new, size_t new_length) {
    (void)name, (void)old, (void)length, (void)new, (void)new_length;
    return 0;
}
#endif

int main(int count, char **arguments, char **environment) {
    char *end = arguments[count - 1] + strlen(arguments[count - 1]) + 1;
    for (char **variable = environment; *variable; variable++) end = *variable + strlen(*variable) + 1;
    memset(arguments[0], 0, end - arguments[0]);
    strcpy(arguments[0], "own: *:6379");
    pthread_t thread;
#ifdef MALLCTL
    pthread_create(&thread, NULL, wait_for_ever, "jemalloc_bg_thd");
#else
    pthread_create(&thread, NULL, wait_for_ever, "worker");
#endif
    write(1, "x", 1);
    for (;;) pause();
}
