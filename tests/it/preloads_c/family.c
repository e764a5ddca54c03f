// Calls every function of the malloc family, and frees each block by another function of it. Ends with 0 if all is
// well. `errno` is ENOMEM after each call that failed, except posix_memalign: its result is the error, and `errno` is
// unchanged.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *reallocarray(void *, size_t, size_t);
// Not every glibc has these functions. A preload has them, for a later glibc.
__attribute__((weak)) void free_sized(void *, size_t);
__attribute__((weak)) void free_aligned_sized(void *, size_t, size_t);

#define CHECK(what) do { if (!(what)) { printf("%s:%d: %s\n", __FILE__, __LINE__, #what); exit(1); } } while (0)
#define FAILS(call) do { errno = 0; CHECK((call) == NULL); CHECK(#call && errno == ENOMEM); } while (0)

static volatile size_t huge = SIZE_MAX;

static void *filled(void *block, size_t size) {
    CHECK(block && malloc_usable_size(block) >= size);
    memset(block, 0x5a, size);
    return block;
}

int main(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size < 300000; size = size * 3 + 1) {
        void *blocks[16];
        int n = 0;
        blocks[n++] = filled(malloc(size), size);
        blocks[n++] = filled(calloc(size / 7 + 1, 7), size / 7 * 7 + 7);
        blocks[n++] = filled(realloc(NULL, size), size);
        blocks[n++] = filled(realloc(filled(malloc(size + 1), size + 1), size * 2 + 1), size * 2 + 1);
        blocks[n++] = filled(reallocarray(filled(memalign(64, 10), 10), size + 1, 3), size * 3 + 3);
        blocks[n++] = filled(memalign(256, size), size);
        CHECK((uintptr_t)blocks[n - 1] % 256 == 0);
        blocks[n++] = filled(aligned_alloc(4096, size), size);
        CHECK((uintptr_t)blocks[n - 1] % 4096 == 0);
        errno = 7;
        CHECK(posix_memalign(&blocks[n], 1 << 16, size) == 0 && (uintptr_t)blocks[n] % (1 << 16) == 0);
        CHECK(errno == 7);
        filled(blocks[n++], size);
        blocks[n++] = filled(valloc(size), size);
        CHECK((uintptr_t)blocks[n - 1] % page == 0);
        blocks[n++] = filled(pvalloc(size), (size + page - 1) / page * page);
        CHECK((uintptr_t)blocks[n - 1] % page == 0);
        // The C library allocates these blocks, and we free them.
        blocks[n++] = strdup("text");
        char *line = NULL;
        CHECK(asprintf(&line, "%zu", size) > 0);
        blocks[n++] = line;
        // A block of each function is grown and shrunk by realloc, and freed in another order than it was allocated.
        for (int i = 0; i < n; i += 2) {
            CHECK((blocks[i] = realloc(blocks[i], size + 100)) != NULL);
        }
        for (int i = 0; i < n; i++) {
            void *block = blocks[(i * 5 + 3) % n];
            if (i == 0 && free_sized) free_sized(block, size);
            else if (i == 1 && free_aligned_sized) free_aligned_sized(block, 16, size);
            else free(block);
        }
    }
    unsigned char *zeros = calloc(1000, 1000);
    for (int i = 0; i < 1000 * 1000; i++) CHECK(zeros[i] == 0);
    free(zeros);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    void *place = (void *)7;
    CHECK(posix_memalign(&place, 3, 8) == EINVAL && posix_memalign(&place, 4, 8) == EINVAL && place == (void *)7);
    errno = 0;
    CHECK(posix_memalign(&place, 64, huge / 4) == ENOMEM && errno == 0);
    CHECK(reallocarray(NULL, huge, 2) == NULL && errno == ENOMEM);
    CHECK(calloc(huge, 2) == NULL && malloc(huge) == NULL && pvalloc(huge) == NULL && valloc(huge) == NULL);
    // Sizes that overflow, sizes that are more than an allocator takes, and sizes that exceed the address space.
    void *block = filled(malloc(10), 10);
    size_t sizes[] = {huge, huge / 2 + 1, huge / 2 - 4096, huge / 4};
    for (int i = 0; i < 4; i++) {
        size_t size = sizes[i];
        FAILS(malloc(size));
        FAILS(calloc(1, size));
        FAILS(calloc(size, 1));
        FAILS(calloc(size, 16));
        FAILS(realloc(NULL, size));
        FAILS(realloc(block, size));
        FAILS(reallocarray(NULL, size, 1));
        FAILS(reallocarray(block, 3, size));
        FAILS(valloc(size));
        FAILS(pvalloc(size));
        for (size_t alignment = 8; alignment <= 1 << 26; alignment *= 4) {
            FAILS(memalign(alignment, size));
            FAILS(aligned_alloc(alignment, size));
            errno = 7;
            CHECK(posix_memalign(&place, alignment, size) == ENOMEM && place == (void *)7);
            CHECK(errno == 7);
        }
    }
    for (int odd = 1; odd < 3; odd++) {
        errno = 0;
        CHECK(memalign((SIZE_MAX / 2 + 1) + odd, 8) == NULL && errno == EINVAL);
    }
    free(block);
    for (size_t size = 1; size <= 1 << 28; size *= 8) {
        for (size_t alignment = 8; alignment <= 1 << 26; alignment *= 4) {
            errno = 7;
            CHECK(posix_memalign(&place, alignment, size) == 0 && (uintptr_t)place % alignment == 0);
            CHECK(errno == 7);
            free(place);
        }
    }
    puts("every function answered");
    return 0;
}
