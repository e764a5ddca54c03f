// A wrapper around malloc with two callers, which keep 500 blocks each: of 1,000 bytes and of 3,000. The caller of both is `load`.
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))

static void *kept[1000];
static int count;

APART void *app_safemalloc(size_t size) {
    void *block = malloc(size);
    if (!block)
        abort();
    return block;
}

APART void small(void) { kept[count++] = app_safemalloc(1000); }

APART void large(void) { kept[count++] = app_safemalloc(3000); }

APART void load(void) {
    for (int i = 0; i < 500; i++) {
        small();
        large();
    }
}

int main(void) {
    load();
    return kept[999] == 0;
}
