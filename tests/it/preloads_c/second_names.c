// glibc's second names of its malloc family. Programs and other preloads mix them with the first ones.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);

int main(void) {
    for (int i = 1; i < 2000; i++) {
        free(memset(__libc_malloc(i), 1, i));
        free(__libc_calloc(i, 2));
        free(__libc_realloc(malloc(i), 2 * i));
        free(realloc(__libc_malloc(i), 3 * i));
        __libc_free(malloc(i));
        __libc_free(strdup("a block"));
        free(__libc_memalign(64, i));
        free(__libc_valloc(i));
        free(__libc_pvalloc(i));
    }
    puts("names mixed");
    return 0;
}
