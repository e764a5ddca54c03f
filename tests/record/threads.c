// 207 short threads, a few at a time, and a consumer that frees what they allocate: some 610,000 blocks cross. Also what
// a recorder must survive: blocks made in a constructor, by dlopen, in a signal handler, by forked and vforked children.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 207, AT_ONCE = 7, BLOCKS = 2947, QUEUE = 4096 };

static void *early;
__attribute__((constructor)) static void before_main(void) { early = malloc(1000); }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, room = PTHREAD_COND_INITIALIZER;
static void *queue[QUEUE];
static unsigned long put_at, taken_at;
static int over;
static pthread_key_t key;

static void free_at_end(void *block) { free(block); }

static void *produce(void *seed) {
    unsigned long random = (unsigned long)seed * 2654435761u + 1;
    pthread_setspecific(key, malloc(333)); // freed by the key's destructor, after the recorder's own
    for (int at = 0; at < BLOCKS; at++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        size_t size = 16 + (random >> 33) % ((random >> 20) % 16 == 0 ? 8000 : 200);
        char *block = at % 16 == 0 ? calloc(1, size) : at % 17 == 0 ? memalign(64, size) : malloc(size);
        block[0] = 1;
        char *own = realloc(malloc(40), 40 + at % 300); // stays here
        pthread_mutex_lock(&lock);
        while (put_at - taken_at == QUEUE) pthread_cond_wait(&room, &lock);
        queue[put_at++ % QUEUE] = block;
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
        free(own);
    }
    return NULL;
}

static void *consume(void *unused) {
    (void)unused;
    for (;;) {
        void *some[64];
        int count = 0;
        pthread_mutex_lock(&lock);
        while (put_at == taken_at && !over) pthread_cond_wait(&more, &lock);
        while (put_at != taken_at && count < 64) some[count++] = queue[taken_at++ % QUEUE];
        pthread_cond_broadcast(&room);
        int end = over && count == 0;
        pthread_mutex_unlock(&lock);
        for (int at = 0; at < count; at++) free(some[at]);
        if (end) return NULL;
    }
}

static void handler(int unused) {
    (void)unused;
    void *volatile block = malloc(77); // forbidden, and done
    free(block);
}

int main(int argc, char **argv) {
    pthread_key_create(&key, free_at_end);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library) dlclose(library);
    pthread_t consumer, threads[THREADS];
    pthread_create(&consumer, NULL, consume, NULL);
    for (long at = 0; at < THREADS; at++) {
        if (at >= AT_ONCE) pthread_join(threads[at - AT_ONCE], NULL);
        pthread_create(&threads[at], NULL, produce, (void *)at);
    }
    for (int at = THREADS - AT_ONCE; at < THREADS; at++) pthread_join(threads[at], NULL);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    pthread_join(consumer, NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int at = 0; at < 1000; at++) {
            void *volatile block = malloc(at); // volatile: a compiler leaves out what nobody sees
            free(block);
        }
        free(early); // the parent's block: a stray in the child's trace
        exit(0);
    }
    waitpid(child, NULL, 0);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    free(early);
    malloc_usable_size(NULL);
    if (argc > 1 && strcmp(argv[1], "die") == 0) kill(getpid(), SIGKILL);
    printf("%lu\n", taken_at);
    return 0;
}
