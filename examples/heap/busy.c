// A program whose threads allocate and free all the time, and which knows how many live bytes it had at any moment of the last second. It
// says `ready`, and goes on as the lines of its standard input say: `busy`, `still`, and `at SECONDS` (of `still`: the live bytes at a time
// since 1970, or `lost` if that is too long ago). It ends with its input. Usage: busy churn|saw|pass [THREADS [MEBIBYTES]]
//   churn  each thread replaces blocks of 16 bytes to 64 KiB by others
//   saw    each thread allocates such blocks until it has twice its share, and frees them all
//   pass   as churn, but each block is freed by another thread
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ENTRIES = 1 << 22, SLOTS = 1 << 16 };

// After each call of the allocator: when it was, and the live bytes of the thread.
struct entry { uint64_t time; int64_t live; };
struct thread { struct entry *log; _Atomic(uint64_t) count; int64_t live; void **slots; size_t filled; uint64_t seed; };
static struct thread all[MOST];
static int threads = 16;
static size_t share;
static const char *name;
static atomic_int busy, resting;
// Blocks on their way to another thread.
static _Atomic(void *) passed[SLOTS];

static void say(const char *line) { if (write(1, line, strlen(line)) < 0) _exit(2); }

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13; *state ^= *state >> 7; *state ^= *state << 17;
  return *state;
}

static void note(struct thread *own, int64_t by) {
  own->live += by;
  uint64_t count = own->count;
  own->log[count % ENTRIES] = (struct entry){ now(), own->live };
  atomic_store_explicit(&own->count, count + 1, memory_order_release);
}

// Each doubling from 16 bytes to 64 KiB is as likely as the others.
static void *take(struct thread *own) {
  uint64_t random = next_random(&own->seed);
  size_t low = (size_t)16 << random % 12, size = low + (random >> 8) % low;
  char *block = malloc(size);
  for (size_t at = 0; at < size; at += 4096) block[at] = 1;
  note(own, malloc_usable_size(block));
  return block;
}

static void give(struct thread *own, void *block) {
  if (!block) return;
  note(own, -(int64_t)malloc_usable_size(block));
  free(block);
}

static void turn(struct thread *own, size_t count) {
  uint64_t random = next_random(&own->seed);
  if (!strcmp(name, "saw")) {
    if (own->live < (int64_t)(2 * share) && own->filled < SLOTS) { own->slots[own->filled++] = take(own); return; }
    while (own->filled) give(own, own->slots[--own->filled]);
  } else if (!strcmp(name, "pass")) {
    give(own, atomic_exchange(&passed[random % (count * threads)], take(own)));
  } else {
    void **slot = &own->slots[random % count];
    give(own, *slot);
    *slot = take(own);
  }
}

static void *worker(void *at) {
  struct thread *own = at;
  // The mean of the sizes.
  size_t count = share / 8190;
  for (;;) {
    if (!busy) { resting++; while (!busy) usleep(1000); resting--; }
    for (int times = 0; times < 16 && busy; times++) turn(own, count ? count : 1);
  }
  return 0;
}

// The live bytes of a thread at a time. `pass` frees what others have allocated: they can be negative.
static int64_t live_at(struct thread *one, uint64_t time, int *is_lost) {
  uint64_t to = one->count, from = to > ENTRIES ? to - ENTRIES : 0, first = from;
  while (from < to) {
    uint64_t middle = from + (to - from) / 2;
    if (one->log[middle % ENTRIES].time <= time) from = middle + 1; else to = middle;
  }
  // Its log does not go back so far.
  if (from == first && first) *is_lost = 1;
  return from == first ? 0 : one->log[(from - 1) % ENTRIES].live;
}

static void answer(uint64_t time) {
  char line[64];
  int64_t sum = 0;
  int is_lost = 0;
  for (int i = 0; i < threads; i++) sum += live_at(&all[i], time, &is_lost);
  snprintf(line, sizeof line, "live=%ld\n", (long)sum);
  say(is_lost ? "lost\n" : line);
}

int main(int count, char **arguments) {
  // The kernel shall not change what is resident by itself.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  name = count > 1 ? arguments[1] : "churn";
  if (count > 2) threads = atoi(arguments[2]);
  if (threads < 1 || threads > MOST) { fprintf(stderr, "busy: wanted 1 to %d threads\n", MOST); return 2; }
  share = ((size_t)(count > 3 ? atoi(arguments[3]) : 100) << 20) / threads;
  for (int i = 0; i < threads; i++) {
    int rights = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    all[i] = (struct thread){ .seed = 77777u * (i + 1),
      .log = mmap(0, ENTRIES * sizeof(struct entry), rights, flags, -1, 0), .slots = mmap(0, SLOTS * sizeof(void *), rights, flags, -1, 0) };
    pthread_t thread;
    pthread_create(&thread, 0, worker, &all[i]);
  }
  while (resting < threads) usleep(1000);
  say("ready\n");
  char word[64];
  size_t length = 0;
  for (char c; read(0, &c, 1) == 1;) {
    if (c != '\n') { if (length < sizeof word - 1) word[length++] = c; continue; }
    word[length] = 0; length = 0;
    if (!strcmp(word, "busy")) { busy = 1; while (resting) usleep(1000); say("busy\n"); }
    if (!strcmp(word, "still")) { busy = 0; while (resting < threads) usleep(1000); say("still\n"); }
    if (!strncmp(word, "at ", 3)) {
      char digits[10] = "000000000", *point = strchr(word, '.');
      unsigned long seconds = strtoul(word + 3, 0, 10), nanoseconds = 0;
      if (point) { memcpy(digits, point + 1, strnlen(point + 1, 9)); nanoseconds = strtoul(digits, 0, 10); }
      answer(seconds * 1000000000ull + nanoseconds);
    }
  }
  return 0;
}
