/* A C program that only uses malloc, linked with a shared-heap variant and `-Wl,-u,allocanary_variant`: without a call of
   its own, that is what brings the library's object along, and with it the hook that sizes the arenas before `main`.
   Out: the most arenas that jemalloc has. */
#include <stdio.h>
#include <stdlib.h>

/* jemalloc's own; C's malloc is jemalloc here. */
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
