// Loads the library that its argument names, has it allocate, frees three quarters of it, and waits. With a second
// argument it maps this file as code, too.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static char *all[4000];

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
    printf("ready=1\n");
    fflush(stdout);
    getchar();
    return 0;
}
