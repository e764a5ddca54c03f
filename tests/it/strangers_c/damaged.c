// Loads the library that its argument names, has it allocate, frees three quarters of it, and waits, if its input is
// a pipe that stays open. It prints the address of its thread-local data, which a core has.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static char *all[400];

int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *(*held)(size_t) = (void *(*)(size_t))dlsym(library, "held");
    for (int at = 0; at < 400; at++)
        all[at] = held(4000 + at);
    for (int at = 0; at < 400; at++)
        if (at % 4)
            free(all[at]);
    printf("local=%lu\n", (unsigned long)__builtin_thread_pointer());
    fflush(stdout);
    getchar();
    return 0;
}
