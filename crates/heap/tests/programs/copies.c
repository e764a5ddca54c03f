// A program with three C libraries, two of them in name spaces of their own. Each has a heap. Writes the counts of each as a line,
// the program's own first, and waits for a line on its standard input.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct library {
  void *(*malloc)(size_t);
  void (*free)(void *);
  struct mallinfo2 (*mallinfo2)(void);
};
static struct library all[3] = {{malloc, free, mallinfo2}};

// Allocates blocks in a heap, and frees two of three. Some of the blocks have their own pages.
static void fill(struct library *one, int count, uint64_t state) {
  void **blocks = mmap(0, count * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < count; i++) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    size_t size = i % 1000 == 999 ? 300000 : 16 + state % 2000;
    blocks[i] = one->malloc(size);
    memset(blocks[i], 1, size);
  }
  for (int i = 0; i < count; i++) if (i % 3) one->free(blocks[i]);
  munmap(blocks, count * sizeof *blocks);
}

static pthread_barrier_t filled;
static void *worker(void *at) {
  for (int i = 0; i < 3; i++) fill(&all[i], 1500, 77 + i);
  pthread_barrier_wait(&filled);
  for (;;) pause();
}

int main(int count, char **arguments) {
  char line[512];
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  for (int i = 1; i < 3; i++) {
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    if (!library) return 3;
    all[i].malloc = (void *(*)(size_t))dlsym(library, "malloc");
    all[i].free = (void (*)(void *))dlsym(library, "free");
    all[i].mallinfo2 = (struct mallinfo2 (*)(void))dlsym(library, "mallinfo2");
  }
  if (count > 1 && !strcmp(arguments[1], "blocked")) {
    char *end = (char *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095);
    if (mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) return 4;
  }
  // The program's own heap is neither the smallest nor the largest, and they grow in turn.
  for (int round = 0; round < 3; round++) {
    fill(&all[1], 2000, 5 + round);
    fill(&all[0], 4000, 15 + round);
    fill(&all[2], 7000, 25 + round);
  }
  if (count > 1 && !strcmp(arguments[1], "threads")) {
    pthread_t thread;
    pthread_barrier_init(&filled, 0, 3);
    for (int i = 0; i < 2; i++) pthread_create(&thread, 0, worker, 0);
    pthread_barrier_wait(&filled);
  }
  for (int i = 0; i < 3; i++) {
    struct mallinfo2 info = all[i].mallinfo2();
    snprintf(line, sizeof line, "arena=%zu uordblks=%zu fordblks=%zu fsmblks=%zu ordblks=%zu smblks=%zu hblks=%zu hblkhd=%zu\n",
             info.arena, info.uordblks, info.fordblks, info.fsmblks, info.ordblks, info.smblks, info.hblks, info.hblkhd);
    if (write(1, line, strlen(line)) < 0) return 5;
  }
  return read(0, line, 1) < 0;
}
