// A process whose memory looks like a tree of jemalloc's extents. It has 20 MiB and a quarter of a million leaves,
// which overlap. Read one by one, they would have 68 billion entries. With an argument it has 50 MiB and leaves that do
// not overlap: 6 million extents.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 1 << 18, PROVEN = 64 };

volatile uint64_t root[SLOTS] __attribute__((aligned(4096)));

static char *map(void *at, size_t bytes, int flags) {
    void *found = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return found == MAP_FAILED ? NULL : found;
}

int main(int count, char **arguments) {
    (void)arguments;
    const size_t leaf_bytes = 8ul * SLOTS, step = count > 1 ? leaf_bytes : 64, last = count > 1 ? PROVEN + 24 : SLOTS - 1;
    const size_t dense_words = (leaf_bytes + step * (last - PROVEN)) / 8;
    char *leaves = map(NULL, (PROVEN + 2) * leaf_bytes, 0);
    char *extents = map(NULL, 1 << 20, 0);
    uint64_t *dense = (uint64_t *)map(NULL, 8 * dense_words + leaf_bytes, 0);
    if (!leaves || !extents || !dense) return 1;
    leaves = (char *)(((uintptr_t)leaves + leaf_bytes - 1) & -leaf_bytes);
    // These extents are valid: each has one page, and its address says in which slot it is.
    for (uint64_t i = 1; i <= PROVEN; i++) {
        char *page = map((void *)(i << 30), 4096, MAP_FIXED_NOREPLACE);
        if (!page) return 1;
        *page = 1;
        uint64_t extent = (uint64_t)extents + 128 * i, *leaf = (uint64_t *)(leaves + (i - 1) * leaf_bytes);
        ((uint64_t *)extent)[1] = i << 30;
        ((uint64_t *)extent)[2] = 4096;
        leaf[0] = extent | 1;
        root[i] = (uint64_t)leaf;
    }
    for (size_t k = 0; k < dense_words; k++) dense[k] = (uint64_t)extents + 128 * (k % 4096);
    for (uint64_t i = PROVEN + 1; i <= last; i++) root[i] = (uint64_t)dense + step * (i - PROVEN - 1);
    puts("ready=1");
    fflush(stdout);
    char end;
    return read(0, &end, 1) != 0;
}
