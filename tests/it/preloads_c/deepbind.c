// Blocks that are passed between a program and a library that it opened with RTLD_DEEPBIND. That library opens another
// one, which is found by its own RUNPATH. The file is compiled as the program, and with -DLIBRARY and -DINNER as the
// two libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined INNER
int inner(void) { return 7; }
#elif defined LIBRARY
char *make(void) { return strdup("made by the library, and long enough to be a block of its own"); }
void end(char *block) { free(block); }
int open_inner(void) {
    void *library = dlopen("libinner.so", RTLD_NOW);
    if (library == NULL) {
        printf("%s\n", dlerror());
        return 0;
    }
    int (*inner)(void) = (int (*)(void))dlsym(library, "inner");
    return inner();
}
#else
int main(int count, char **words) {
    if (count < 2) return 2;
    void *libraries[2] = {dlopen(words[1], RTLD_NOW | RTLD_DEEPBIND), dlmopen(LM_ID_BASE, words[1], RTLD_LAZY | RTLD_DEEPBIND)};
    for (int i = 0; i < 2; i++) {
        if (libraries[i] == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        char *(*make)(void) = (char *(*)(void))dlsym(libraries[i], "make");
        void (*end)(char *) = (void (*)(char *))dlsym(libraries[i], "end");
        int (*open_inner)(void) = (int (*)(void))dlsym(libraries[i], "open_inner");
        for (int round = 0; round < 100; round++) {
            char *theirs = make(), *ours = strdup("made by the program");
            free(theirs);
            end(ours);
            end(realloc(make(), 5000));
        }
        if (open_inner() != 7) return 1;
    }
    if (dlopen("/nowhere/libnone.so", RTLD_NOW | RTLD_DEEPBIND) != NULL || dlerror() == NULL) return 1;
    puts("blocks crossed");
    return 0;
}
#endif
