// A program that knows its live blocks. It builds one of the heaps of `build`, tells how many blocks it holds and how many bytes they have,
// and goes on as the lines of its standard input say: `busy` (threads replace blocks by others of the same size, so that the count stays
// true), `still`, `give` (it asks the allocator to give back what it can, and tells by how much its resident memory fell). It ends with
// its input. Usage: known one|half|threads|mmaps|blocked|large
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef int mallctl_t(const char *, void *, size_t *, void *, size_t);

static mallctl_t *mallctl_of; static void (*collect_of)(int); static void (*release_of)(void); static int is_libc;

// What a block takes. glibc counts its header, too; of a block with a mapping of its own it has the whole mapping, which since 2.43 is more
// than the header says. musl tells as usable what was asked for; the block takes its slot, whose size the meta of
// its group has (src/malloc/mallocng/meta.h).
#ifdef __GLIBC__
enum { GIVES = 1 };
static void give(void) { malloc_trim(0); }
// What is asked for to get a block of the same size again. A block with its own pages that is asked for by its usable size has a page more.
static size_t again(void *block) { return malloc_usable_size(block) - (is_libc && ((size_t *)block)[-1] & 2 ? 64 : 0); }
static size_t libc_bytes_of(void *block) {
  size_t head = ((size_t *)block)[-1], bytes = head & ~(size_t)7;
  return head & 2 ? (bytes + 4095) & ~(size_t)4095 : bytes;
}
#else
static size_t libc_bytes_of(void *block) {
  static const uint16_t units[48] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204,
    255, 292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191 };
  unsigned char *at = block;
  size_t distance = at[-4] ? *(uint32_t *)(at - 8) : *(uint16_t *)(at - 2);
  uint64_t bits = (*(uint64_t **)(at - 16 * distance - 16))[4];
  return !(bits & 31) && bits >> 12 ? (bits >> 12) * 4096 - 16 : 16 * (size_t)units[bits >> 6 & 63];
}
enum { GIVES = 0 };
static void give(void) {}
static size_t again(void *block) { return malloc_usable_size(block); }
#endif
static size_t bytes_of(void *block) { return is_libc ? libc_bytes_of(block) : malloc_usable_size(block); }

static void say(const char *line) { if (write(1, line, strlen(line)) < 0) _exit(2); }

static long resident(void) {
  static char text[8192];
  int file = open("/proc/self/smaps_rollup", O_RDONLY);
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  text[count > 0 ? count : 0] = 0;
  char *at = strstr(text, "Anonymous:");
  return at ? atol(at + 10) * 1024 : -1;
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13; *state ^= *state >> 7; *state ^= *state << 17;
  return *state;
}

// The blocks that a thread holds. The list is no block of the allocator's.
struct blocks { void **list; size_t count; uint64_t seed; };
static struct blocks all[16];
static int threads;
static atomic_long live_bytes, live_blocks;

static void hold(struct blocks *blocks, void *block) {
  blocks->list[blocks->count++] = block;
  live_bytes += bytes_of(block); live_blocks++;
}

// Allocates blocks of 16 bytes to 4 KiB until they are `bytes`, and frees all but `percent` of them.
static void fill(struct blocks *blocks, size_t bytes, unsigned percent) {
  size_t first = blocks->count, sum = 0;
  while (sum < bytes) {
    uint64_t random = next_random(&blocks->seed);
    size_t size = 16 + random % (random % 8 ? 240 : 4096);
    void *block = malloc(size);
    memset(block, 0x5a, size);
    hold(blocks, block);
    sum += size;
  }
  size_t kept = first;
  for (size_t at = first; at < blocks->count; at++) {
    if (next_random(&blocks->seed) % 100 < percent) { blocks->list[kept++] = blocks->list[at]; continue; }
    live_bytes -= bytes_of(blocks->list[at]); live_blocks--;
    free(blocks->list[at]);
  }
  blocks->count = kept;
}

static atomic_int busy, started;
static pthread_barrier_t filled;

// Replaces blocks by others of the same size while the program shall be busy. A block is in the list all the while, or for a moment none.
static void work(struct blocks *blocks) {
  for (;;) {
    if (!busy) { usleep(2000); continue; }
    for (int turn = 0; turn < 1000; turn++) {
      size_t at = next_random(&blocks->seed) % blocks->count;
      size_t size = again(blocks->list[at]);
      free(blocks->list[at]);
      blocks->list[at] = malloc(size);
      *(char *)blocks->list[at] = 1;
    }
  }
}

static const char *name;
static void build(struct blocks *blocks) {
  if (!strcmp(name, "one")) fill(blocks, 100 << 20, 1);
  if (!strcmp(name, "half")) fill(blocks, 100 << 20, 50);
  if (!strcmp(name, "threads")) fill(blocks, 16 << 20, 30);
  if (!strcmp(name, "mmaps"))
    for (int i = 0; i < 300; i++) {
      char *block = malloc(200000 + 4096 * (i % 7));
      memset(block, 1, 100000);
      if (i % 5 == 0) free(block); else hold(blocks, block);
    }
  // Each size that an allocator may keep apart from the others.
  if (!strcmp(name, "large"))
    for (size_t size = 100 << 10; size < 40 << 20; size = size * 5 / 4 + 3 * 4096) {
      char *block = malloc(size);
      memset(block, 1, 1000);
      hold(blocks, block);
    }
  if (!strcmp(name, "blocked")) {
    fill(blocks, 1 << 20, 50);
    char *end = (char *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095);
    mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    fill(blocks, 100 << 20, 30);
  }
}

static void *worker(void *at) {
  // Its thread cache is there before the first reading.
  free(*(void *volatile *)&(void *){ malloc(100) });
  started++;
  pthread_barrier_wait(&filled);
  build(at);
  pthread_barrier_wait(&filled);
  work(at);
  return 0;
}

static void tell(void) {
  char line[128];
  snprintf(line, sizeof line, "live=%ld blocks=%ld\n", (long)live_bytes, (long)live_blocks);
  say(line);
}

int main(int count, char **arguments) {
  // The kernel shall not change what is resident by itself.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  name = count > 1 ? arguments[1] : "half";
  mallctl_of = (mallctl_t *)dlsym(RTLD_DEFAULT, "mallctl");
  collect_of = (void (*)(int))dlsym(RTLD_DEFAULT, "mi_collect");
  release_of = (void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
  const char *preload = getenv("LD_PRELOAD");
#ifdef LINKED_IN
  is_libc = 0;
#else
  is_libc = !preload || !*preload;
#endif
  threads = !strcmp(name, "threads") ? 12 : 1;
  // One thread shall use the main arena, whose data segment can be blocked.
#ifdef __GLIBC__
  if (is_libc && threads == 1) mallopt(M_ARENA_MAX, 1);
#endif
  pthread_barrier_init(&filled, 0, threads + 1);
  for (int i = 0; i < threads; i++) {
    size_t most = (size_t)8 << 20;
    all[i] = (struct blocks){ mmap(0, most * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), 0, 77777u * (i + 1) };
    pthread_t thread;
    pthread_create(&thread, 0, worker, &all[i]);
  }
  while (started < threads) usleep(1000);
  say("ready\n");
  char word[64];
  size_t length = 0;
  for (char c; read(0, &c, 1) == 1;) {
    if (c != '\n') { if (length < sizeof word - 1) word[length++] = c; continue; }
    word[length] = 0; length = 0;
    if (!strcmp(word, "build")) { pthread_barrier_wait(&filled); pthread_barrier_wait(&filled); tell(); }
    if (!strcmp(word, "busy")) { busy = 1; say("busy\n"); }
    if (!strcmp(word, "still")) { busy = 0; usleep(200000); say("still\n"); }
    if (!strcmp(word, "give")) {
      // The first call of mallctl makes tables of its own resident, which are none of what a purge gives back: 128 KiB where jemalloc was
      // built for pages of 64 KiB.
      if (mallctl_of) mallctl_of("version", 0, 0, 0, 0);
      long before = resident();
      if (mallctl_of) mallctl_of("arena.4096.purge", 0, 0, 0, 0); else if (collect_of) collect_of(1); else if (release_of) release_of(); else if (is_libc) give();
      char line[64];
      snprintf(line, sizeof line, "given=%ld\n", before - resident());
      // A preload does not export what gives back.
      say(mallctl_of || collect_of || release_of || (is_libc && GIVES) ? line : "given=none\n");
    }
  }
  return 0;
}
