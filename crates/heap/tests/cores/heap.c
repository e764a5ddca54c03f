// A small heap with known counts, of which a core is kept. Three threads hold, free and replace blocks. The program writes what it holds
// itself and what the allocator counts as one line, and ends by SIGABRT. Its bytes are all alike, so that the core is small once it is packed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 400 };

static struct { size_t bytes, blocks; } held[THREADS];
static pthread_barrier_t built;

static void *fill(void *at) {
  size_t thread = (uintptr_t)at, sizes = 17 + thread;
  static void *all[THREADS][BLOCKS];
  void **mine = all[thread];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t size = 24 + i * sizes % 1700;
    mine[i] = i % 97 ? malloc(size) : aligned_alloc(256, 512);
    memset(mine[i], 0x5a, size < 512 ? size : 512);
  }
  for (size_t i = 0; i < BLOCKS; i++)
    if (i % 3 == 1 || (i / 40) % 4 == 2) {
      free(mine[i]);
      mine[i] = 0;
    }
  // With pages of its own in most allocators. Only the first bytes are touched.
  mine[1] = malloc(400000 + 100000 * thread);
  memset(mine[1], 0x5a, 100);
  for (size_t i = 0; i < BLOCKS; i++)
    if (mine[i]) {
      held[thread].bytes += malloc_usable_size(mine[i]);
      held[thread].blocks++;
    }
  pthread_barrier_wait(&built);
  if (thread) for (;;) pause();
  return 0;
}

int main(void) {
  pthread_t thread;
  pthread_barrier_init(&built, 0, THREADS);
  for (uintptr_t i = 1; i < THREADS; i++) pthread_create(&thread, 0, fill, (void *)i);
  fill(0);
  size_t bytes = 0, blocks = 0;
  for (size_t i = 0; i < THREADS; i++) bytes += held[i].bytes, blocks += held[i].blocks;
  char line[400];
  int length = snprintf(line, sizeof line, "page=%ld held=%zu blocks=%zu", sysconf(_SC_PAGESIZE), bytes, blocks);
#ifdef __GLIBC__
  int (*mallctl)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
  if (mallctl) {
    uint64_t epoch = 1;
    size_t eight = 8, allocated = 0, active = 0;
    mallctl("epoch", 0, 0, &epoch, 8);
    mallctl("stats.allocated", &allocated, &eight, 0, 0);
    mallctl("stats.active", &active, &eight, 0, 0);
    length += snprintf(line + length, sizeof line - length, " allocated=%zu active=%zu", allocated, active);
  } else if (!dlsym(RTLD_DEFAULT, "mi_version") && !dlsym(RTLD_DEFAULT, "tc_version")) {
    struct mallinfo2 info = mallinfo2();
    length += snprintf(line + length, sizeof line - length,
                       " arena=%zu uordblks=%zu fordblks=%zu fsmblks=%zu ordblks=%zu smblks=%zu hblks=%zu hblkhd=%zu", info.arena,
                       info.uordblks, info.fordblks, info.fsmblks, info.ordblks, info.smblks, info.hblks, info.hblkhd);
  }
#endif
  line[length++] = '\n';
  if (write(1, line, length) != length) return 1;
  abort();
}
