/* A C program that only uses malloc, linked with a shared-heap variant and `-Wl,-u,allocanary_variant`. It calls
   nothing of the library. So this option makes the linker take the library's object, and with it the hook that sets the
   number of arenas before `main`. Out: the maximum of jemalloc's arenas. */
#include <stdio.h>
#include <stdlib.h>

/* A function of jemalloc. C's malloc is jemalloc here. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

int main(void) {
    unsigned arenas = 0;
    size_t size = sizeof arenas;
    void *block = malloc(100);
    int failed = mallctl("opt.narenas", &arenas, &size, NULL, 0);
    free(block);
    printf("%u\n", arenas);
    return failed;
}
