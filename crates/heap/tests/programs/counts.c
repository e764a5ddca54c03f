// A program with a known heap. It builds the heap of one case, writes glibc's own counts as one line, and waits for a
// line on its standard input. Then it trims, writes by how much its resident memory has fallen, and waits again until
// it is ended.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static void say(const char *line) { if (write(1, line, strlen(line)) < 0) _exit(2); }
static void wait_for_line(void) { char c; do if (read(0, &c, 1) != 1) _exit(0); while (c != '\n'); }

// Bytes of anonymous resident memory, read without an allocation. The kernel adds them up from the page tables, so they
// are exact.
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

// Allocates blocks of 16 bytes to 4 KiB, `bytes` in all. Frees all but `percent` percent of them.
static void fill(size_t bytes, unsigned percent, uint64_t seed) {
  size_t most = bytes / 64 + 16, count = 0, sum = 0;
  void **blocks = mmap(0, most * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  while (sum < bytes && count < most) {
    uint64_t random = next_random(&seed);
    size_t size = 16 + random % (random % 8 ? 240 : 4096);
    blocks[count] = malloc(size);
    memset(blocks[count++], 0x5a, size);
    sum += size;
  }
  for (size_t i = 0; i < count; i++)
    if (next_random(&seed) % 100 >= percent) free(blocks[i]);
  munmap(blocks, most * sizeof *blocks);
}

// Closes a page of a block: 0 takes all rights away, 1 the right to write, 2 makes it a guard.
static void close_page(char *page, int how) {
  int failed = how == 2 ? madvise(page, 4096, 102 /* MADV_GUARD_INSTALL */) : mprotect(page, 4096, how ? PROT_READ : PROT_NONE);
  if (failed) say("missing=1\n"), _exit(0);
}

// Allocates stacks, as coroutines have them, and closes the lowest page of each.
static void stacks(int count, int how) {
  for (int i = 0; i < count; i++) {
    void *stack;
    if (posix_memalign(&stack, 4096, 65536)) _exit(5);
    memset(stack, 1, 65536);
    close_page(stack, how);
  }
}

static pthread_barrier_t filled;
static int with_stacks;
static void *worker(void *at) {
  if (with_stacks) stacks(16, 0);
  fill(8 << 20, 30, (uintptr_t)at * 77777 + 1);
  pthread_barrier_wait(&filled);
  for (;;) pause();
}

// Maps a page after the data segment, so that it cannot grow.
static void block_brk(void) {
  char *end = (char *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095);
  if (mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) _exit(3);
}

static void build(const char *name) {
  if (!strcmp(name, "one")) fill(20 << 20, 1, 1);
  if (!strcmp(name, "half")) fill(20 << 20, 50, 2);
  if (!strncmp(name, "closed", 6)) {
    fill(1 << 20, 50, 21);
    if (!strcmp(name, "closed_blocked")) block_brk();
    stacks(64, name[6] ? 0 : 1);
    if (!strcmp(name, "closed_guards")) stacks(64, 2);
    fill(8 << 20, 30, 22);
    for (int i = 0; i < 5; i++) {
      char *block = malloc(1 << 20);
      memset(block, 1, 1 << 20);
      close_page(block - 16 + 8192 * (i + 1), i % 2);
    }
  }
  with_stacks = !strcmp(name, "closed_threads");
  if (!strcmp(name, "threads") || with_stacks) {
    pthread_barrier_init(&filled, 0, 13);
    pthread_t thread;
    for (intptr_t i = 0; i < 12; i++) pthread_create(&thread, 0, worker, (void *)(i + 1));
    pthread_barrier_wait(&filled);
  }
  if (!strcmp(name, "mmaps"))
    for (int i = 0; i < 300; i++) {
      char *block = malloc(200000 + 4096 * (i % 7));
      block[0] = block[100000] = 1;
      if (i % 5 == 0) free(block);
      if (i % 11 == 0) mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
  if (!strcmp(name, "blocked")) {
    fill(1 << 20, 50, 3);
    block_brk();
    fill(20 << 20, 30, 4);
    for (int i = 0; i < 10; i++) memset(malloc(300000), 1, 300000);
    fill(5 << 20, 100, 5);
  }
  if (!strcmp(name, "emptied")) {
    // Makes the last piece of memory one free block: allocates blocks until one is the first block of a new piece, and
    // frees this block.
    block_brk();
    char *block;
    do block = malloc(2000); while ((uintptr_t)block % 4096 != 16 || block < (char *)sbrk(0));
    free(block);
  }
  if (!strcmp(name, "foreign"))
    for (int i = 0; i < 20; i++) {
      fill(1 << 20, 40, 6 + i);
      memset(sbrk(1000 + 8 * i), 0x77, 1000);
    }
  if (!strcmp(name, "aligned")) {
    for (int i = 6; i <= 12; i++)
      if (!realloc(memalign((size_t)1 << i, 1000000), i % 2 ? 300000 : 3000000)) _exit(4);
    for (int i = 0; i < 500; i++) {
      void *block = memalign((size_t)64 << (i % 10), i % 50 ? 100 + i * 7 : 300000);
      if (i % 3 == 0) free(block);
    }
  }
}

static void *tell(void *main_thread);

int main(int count, char **arguments) {
  // The kernel must not change by itself what is resident.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  build(count > 1 ? arguments[1] : "half");
  if (count > 1 && !strcmp(arguments[1], "dead_leader")) {
    fill(1 << 20, 50, 31);
    static pthread_t self, thread;
    self = pthread_self();
    pthread_create(&thread, 0, tell, &self);
    pthread_exit(0);
  }
  tell(0);
  return 0;
}

// Writes the counts, waits, trims, and writes what that gave; after the end of the main thread, if it is given.
static void *tell(void *main_thread) {
  char line[512];
  if (main_thread) pthread_join(*(pthread_t *)main_thread, 0);
  struct mallinfo2 info = mallinfo2();
  snprintf(line, sizeof line, "arena=%zu uordblks=%zu fordblks=%zu fsmblks=%zu ordblks=%zu smblks=%zu hblks=%zu hblkhd=%zu\n",
           info.arena, info.uordblks, info.fordblks, info.fsmblks, info.ordblks, info.smblks, info.hblks, info.hblkhd);
  say(line);
  wait_for_line();
  long before = resident();
  malloc_trim(0);
  snprintf(line, sizeof line, "given=%ld\n", before - resident());
  say(line);
  wait_for_line();
  return 0;
}
