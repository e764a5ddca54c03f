// Libraries of one shape that take turns at one address: each makes blocks, and is closed before the next one is opened.
//   cc -DLIBRARY -DNAME=first -DBLOCKS=20 -shared -fPIC closed.c -o first.so        and others, then
//   cc closed.c -ldl -o closed && ./closed ./first.so first ./second.so second
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LIBRARY
void *volatile kept;

void NAME(void) {
    for (int at = 0; at < BLOCKS; at++)
        kept = malloc(1000);
}
#else
int main(int count, char **words) {
    for (int turn = 0; turn < 10; turn++)
        for (int at = 1; at + 1 < count; at += 2) {
            void *library = dlopen(words[at], RTLD_NOW | RTLD_LOCAL);
            void (*function)(void) = library ? (void (*)(void))dlsym(library, words[at + 1]) : NULL;
            if (!function) {
                puts(dlerror());
                return 1;
            }
            if (turn == 0)
                printf("%p\n", (void *)function);
            function();
            dlclose(library);
        }
    fflush(stdout);
    // The blocks are alive at the end.
    _exit(0);
}
#endif
