// Loads the library that its argument names, has it allocate, frees three quarters of it, and waits. With a second
// argument it maps this file as code, too. Another thread maps and unmaps memory, and sleeps after each turn.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char *all[4000];

static void *map(void *none) {
    for (;; usleep(20000))
        munmap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
}

int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *(*held)(size_t) = (void *(*)(size_t))dlsym(library, "held");
    for (int at = 0; at < 4000; at++)
        all[at] = held(40000);
    for (int at = 0; at < 4000; at++)
        if (at % 4)
            free(all[at]);
    if (count > 2) {
        int file = open(arguments[2], O_RDONLY);
        if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
            return 2;
    }
    pthread_t thread;
    pthread_create(&thread, 0, map, 0);
    printf("ready=1\n");
    fflush(stdout);
    getchar();
    return 0;
}
