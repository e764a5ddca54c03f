// Takes 1,000 parts of 64 bytes from GLib's slice allocator. Waits until its input ends.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *parts[1000];

int main(void) {
    void *library = dlopen("libglib-2.0.so.0", RTLD_NOW);
    void *(*take)(size_t) = library ? (void *(*)(size_t))dlsym(library, "g_slice_alloc") : 0;
    for (int at = 0; take && at < 1000; at++) parts[at] = take(64);
    printf("glib=%d parts=1000\n", take != 0);
    fflush(stdout);
    return getchar() == 0;
}
