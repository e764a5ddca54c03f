/* A service with a known answer: three functions pin 50, 30 and 20 % of the pages. Under its load `short_lived` makes blocks of some
 * 8 KiB, and behind each one of the three keeps blocks: `sessions` one of 64 bytes, `orders` four of 64, `labels` ten of 96. Then all of the
 * first are freed. By live bytes the order is the other way round: `labels` has most.
 * When it ends it writes the truth, which it computes from the addresses that it got: for each function the free bytes of the pages
 * in which it has a block. Functions that share a page have equal parts.
 * Arguments: a folder, where `go` is the request and `done` the answer; a random seed; the file for the truth. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 8192
#define MOST (BLOCKS * 10)

struct kept {
    uintptr_t start;
    unsigned size, site;
};

static char *volatile large[BLOCKS];
static struct kept kept[MOST];
static size_t count;
static volatile sig_atomic_t over;
static uint64_t state;
static uintptr_t page_bytes;

static unsigned drawn(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % below);
}

__attribute__((noinline)) char *short_lived(size_t size) {
    char *volatile block = malloc(size);
    memset(block, 1, size);
    return block;
}

#define SITE(name, number, blocks, bytes)                                       \
    __attribute__((noinline)) void name(void) {                                 \
        for (int i = 0; i < blocks; i++) {                                      \
            char *volatile block = malloc(bytes);                               \
            memset(block, 1, bytes);                                            \
            kept[count++] = (struct kept){(uintptr_t)block, bytes, number};     \
        }                                                                       \
    }
SITE(sessions, 0, 1, 64)
SITE(orders, 1, 4, 64)
SITE(labels, 2, 10, 96)
static const char *const names[] = {"sessions", "orders", "labels"};

/* Sorts by address, without memory: this must not change the heap. */
static void sort(void) {
    for (size_t gap = count / 2; gap; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            struct kept one = kept[i];
            size_t at = i;
            for (; at >= gap && kept[at - gap].start > one.start; at -= gap) kept[at] = kept[at - gap];
            kept[at] = one;
        }
}

static void truth(const char *path) {
    double pinned[3] = {0};
    sort();
    size_t first = 0;
    uintptr_t visited = 0;
    while (first < count) {
        /* The next page that has a block. One that reaches into the page behind is looked at there again. */
        uintptr_t page = kept[first].start / page_bytes * page_bytes;
        if (page < visited) page = visited;
        unsigned live = 0, sites = 0;
        for (size_t i = first; i < count && kept[i].start < page + page_bytes; i++) {
            uintptr_t from = kept[i].start > page ? kept[i].start : page, end = kept[i].start + kept[i].size;
            uintptr_t to = end < page + page_bytes ? end : page + page_bytes;
            if (to <= from) continue;
            live += (unsigned)(to - from);
            sites |= 1u << kept[i].site;
        }
        for (int site = 0; site < 3; site++)
            if (sites >> site & 1) pinned[site] += (double)(page_bytes - live) / __builtin_popcount(sites);
        visited = page + page_bytes;
        while (first < count && kept[first].start + kept[first].size <= visited) first++;
    }
    FILE *file = fopen(path, "w");
    if (!file) perror(path), exit(1);
    for (int site = 0; site < 3; site++) fprintf(file, "%s %.0f\n", names[site], pinned[site]);
    fclose(file);
}

static void stop(int signal) { (void)signal, over = 1; }

int main(int argc, char **argv) {
    char go[4096], done[4096];
    if (argc != 4) return fprintf(stderr, "usage: shares FOLDER SEED TRUTH\n"), 2;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    state = strtoull(argv[2], NULL, 10);
    snprintf(go, sizeof go, "%s/go", argv[1]);
    snprintf(done, sizeof done, "%s/done", argv[1]);
    signal(SIGTERM, stop);
    puts("ready");
    fflush(stdout);
    while (!over) {
        if (access(go, F_OK) == 0) {
            unlink(go);
            for (int i = 0; i < BLOCKS; i++) {
                large[i] = short_lived(7000 + drawn(2400));
                unsigned who = drawn(10);
                if (who < 5) sessions();
                else if (who < 8) orders();
                else labels();
            }
            for (int i = 0; i < BLOCKS; i++) free(large[i]);
            fclose(fopen(done, "w"));
        }
        usleep(5000);
    }
    truth(argv[3]);
    return 0;
}
