/* allocanary for C: memory with a count, live tuning, statistics and metrics of the allocator that is linked. */

#ifndef ALLOCANARY_H
#define ALLOCANARY_H

/* Written by cbindgen from src/: change it there, then `make header`. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 What this allocator cannot say, in `AllocanaryStatistics`.
 */
#define ALLOCANARY_UNKNOWN UINT64_MAX

/*
 What a call came to. `allocanary_last_error` has the words.
 */
typedef enum {
  /*
   Done.
   */
  ALLOCANARY_CODE_OK = 0,
  /*
   A pointer is null that must not be.
   */
  ALLOCANARY_CODE_NULL = 1,
  /*
   An argument is not one that the function takes.
   */
  ALLOCANARY_CODE_ARGUMENT = 2,
  /*
   This allocator cannot do it.
   */
  ALLOCANARY_CODE_UNSUPPORTED = 3,
  /*
   The allocator, or the system, refused.
   */
  ALLOCANARY_CODE_REFUSED = 4,
  /*
   Settings are wrong, or the allocator did not take them.
   */
  ALLOCANARY_CODE_SETTINGS = 5,
  /*
   The text does not fit the buffer, and is cut.
   */
  ALLOCANARY_CODE_BUFFER = 6,
  /*
   The block was freed before. Found by a checked build only.
   */
  ALLOCANARY_CODE_FREED_TWICE = 7,
  /*
   The pointer is not one that this library gave out. Found by a checked build only.
   */
  ALLOCANARY_CODE_FOREIGN = 8,
  /*
   Data that were written are not those that were read back.
   */
  ALLOCANARY_CODE_DAMAGED = 9,
  /*
   A bug in this library: it panicked, and the panic was caught here.
   */
  ALLOCANARY_CODE_PANIC = 10,
} AllocanaryCode;

/*
 How near the process is to its memory limit, after the allocator gave back what it keeps.
 */
typedef enum {
  /*
   Nothing is to be done.
   */
  ALLOCANARY_LEVEL_CALM = 0,
  /*
   80 % of the limit are in use.
   */
  ALLOCANARY_LEVEL_HIGH = 1,
  /*
   90 %.
   */
  ALLOCANARY_LEVEL_SEVERE = 2,
  /*
   95 %: the program itself must free something.
   */
  ALLOCANARY_LEVEL_LAST = 3,
} AllocanaryLevel;

/*
 Freed pages, by how far they have gone.
 */
typedef enum {
  /*
   Freed by the program and still backed by memory.
   */
  ALLOCANARY_PAGES_DIRTY = 0,
  /*
   Given back lazily (MADV_FREE): the kernel takes them when it needs them. jemalloc only.
   */
  ALLOCANARY_PAGES_MUZZY = 1,
} AllocanaryPages;

/*
 Where the memory is, all threads together. `ALLOCANARY_UNKNOWN` stands for what this allocator cannot say.
 */
typedef struct {
  /*
   In blocks that the program holds, rounded up to size classes.
   */
  uint64_t allocated_bytes;
  /*
   In pages that hold at least one such block.
   */
  uint64_t active_bytes;
  /*
   In pages of the allocator that are in memory.
   */
  uint64_t resident_bytes;
  /*
   In the allocator's own structures.
   */
  uint64_t metadata_bytes;
  /*
   Addresses kept for later, with no memory behind them.
   */
  uint64_t retained_bytes;
  /*
   Arenas that have been used, in number.
   */
  uint64_t arenas;
  /*
   The most arenas that threads are spread over; unknown where there is no limit.
   */
  uint64_t most_arenas;
  /*
   Resident memory of the whole process, whoever allocated it.
   */
  uint64_t process_resident_bytes;
  /*
   In blocks of `allocanary_calloc`, as they were asked for.
   */
  uint64_t in_use_bytes;
  /*
   Active over allocated bytes: 1 is no fragmentation. Negative where it is unknown.
   */
  double fragmentation;
} AllocanaryStatistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The variant of this library: `system`, `jemalloc`, `mimalloc`, `jemalloc-shared` or `mimalloc-shared`. Static: not to
 be freed.
 */
const char *allocanary_variant(void);

/*
 The words of the last error of the calling thread; empty where there was none. As much as fits is written to `text`,
 with a NUL at the end. Gives the length of the whole without the NUL, as snprintf does; `text` may be null where
 `size` is 0.

 # Safety

 `text` is null or points to `size` bytes.
 */
size_t allocanary_last_error(char *text, size_t size);

/*
 Memory for `count` things of `size` bytes, all zero, aligned for any type of C; null where there is none (see
 `allocanary_last_error`). What is given must be freed by `allocanary_free`, not by `free`. No bytes are a block too.
 */
void *allocanary_calloc(size_t count, size_t size);

/*
 Frees a block of `allocanary_calloc`; null is nothing to do. A checked build refuses a block that was freed before
 and a pointer that is not a block; in any other build both are as undefined as they are for `free`.

 # Safety

 `block` is null or from `allocanary_calloc`, and not freed yet.
 */
AllocanaryCode allocanary_free(void *block);

/*
 Bytes in blocks of `allocanary_calloc` that are not freed yet, as they were asked for.
 */
size_t allocanary_bytes_in_use(void);

/*
 The metrics page, in Prometheus' text format, into `text`, which has `size` bytes: a gauge for each of the
 statistics that this allocator knows, labelled with its name. The length of the whole page, without the NUL at its
 end, goes to `length`, which may be null. Where the page does not fit, the code is `ALLOCANARY_CODE_BUFFER`, and what
 is in `text` is cut. 4 kB are enough.

 # Safety

 `text` is null (and `size` 0) or points to `size` bytes; `length` is null or points to a number.
 */
AllocanaryCode allocanary_metrics(char *text, size_t size, size_t *length);

/*
 Calls `callback` with each new level (an `AllocanaryLevel`) of the memory budget and with `data`. A later call replaces both. The
 code is `ALLOCANARY_CODE_UNSUPPORTED` where no budget is on: `ALLOCANARY_BUDGET=container`, or a size such as `1GiB`, in the
 environment turns it on.

 It is called in a thread that allocates, before the allocation is made, and perhaps in two threads at once. It may allocate and
 free; that causes no further call in this thread. It must not wait for a lock that a thread may hold while it allocates, must not
 throw, and must not leave by longjmp.

 # Safety

 `callback` may be called with `data` in any thread for as long as the process lives.
 */
AllocanaryCode allocanary_on_pressure(void (*callback)(int32_t level, void *data), void *data);

/*
 Runs a service in `threads` threads (1 to 1024) that all live at the same time and answer `requests` requests each.
 Each request builds a page of text; the last pages are kept. `ALLOCANARY_CODE_DAMAGED` if any page is not what was
 written. All its memory is freed at the end.
 */
AllocanaryCode allocanary_service(uint32_t threads, uint32_t requests);

/*
 Where the memory is, into `statistics`. Costs microseconds, and with glibc a lock on each arena in turn.

 # Safety

 `statistics` points to a struct.
 */
AllocanaryCode allocanary_statistics(AllocanaryStatistics *statistics);

/*
 Whether all settings, those of the library and those in the environment, exist, have a value that can be, and are in
 force. If not the code is `ALLOCANARY_CODE_SETTINGS`, and `text` (null, or `size` bytes) gets a line for each that does
 not, cut where they do not fit. With glibc this starts the loader once: for the start of a program.

 # Safety

 `text` is null or points to `size` bytes.
 */
AllocanaryCode allocanary_check(char *text, size_t size);

/*
 The most arenas that threads are spread over, into `most`; 0 where the allocator sets no limit.

 # Safety

 `most` points to a number.
 */
AllocanaryCode allocanary_most_arenas(uint32_t *most);

/*
 Binds the calling thread to an arena, from 0 up to `allocanary_most_arenas`. jemalloc only.
 */
AllocanaryCode allocanary_bind_thread(uint32_t arena);

/*
 Turns the calling thread's cache on or off; what it was goes to `was`, which may be null. jemalloc only.

 # Safety

 `was` is null or points to a bool.
 */
AllocanaryCode allocanary_set_thread_cache(bool on, bool *was);

/*
 Limits the blocks that the calling thread's cache holds to `bytes`, rounded up to a size class. jemalloc only.
 */
AllocanaryCode allocanary_set_thread_cache_max(size_t bytes);

/*
 Gives the blocks in the calling thread's cache back to their arenas. jemalloc only.
 */
AllocanaryCode allocanary_flush_thread_cache(void);

/*
 Sets the time over which freed pages (an `AllocanaryPages`) go back to the system, in milliseconds: 0 is at once, -1
 never. For arenas that live and for those to come. jemalloc, and mimalloc's dirty pages.

 An idle process keeps what it has, whatever the time: see `allocanary_set_background_threads` and
 `allocanary_purge`.
 */
AllocanaryCode allocanary_set_decay(int32_t pages, int64_t milliseconds);

/*
 The time that `allocanary_set_decay` sets, into `milliseconds`.

 # Safety

 `milliseconds` points to a number.
 */
AllocanaryCode allocanary_decay(int32_t pages, int64_t *milliseconds);

/*
 Turns threads on or off that purge on time even when the process is idle; what it was goes to `was`, which may be
 null. jemalloc only.

 # Safety

 `was` is null or points to a bool.
 */
AllocanaryCode allocanary_set_background_threads(bool on, bool *was);

/*
 Tells the allocator that the calling thread is about to wait: what the thread keeps for itself goes back to the system.
 Whether something was given back goes to `gave_back`, which may be null. To be called before each wait: it does nothing
 unless 100 ms have passed since the thread's last time (`ALLOCANARY_THREAD_IDLE_EVERY_MS`; `ALLOCANARY_THREAD_IDLE=keep` turns it off). Not
 for signal handlers.

 # Safety

 `gave_back` is null or points to a bool.
 */
AllocanaryCode allocanary_thread_idle(bool *gave_back);

/*
 Gives back to the system, now, all memory that one thread can give back: not what other threads' caches hold, nor, with
 glibc, the tops of their arenas. `allocanary_thread_idle` is for those.
 */
AllocanaryCode allocanary_purge(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ALLOCANARY_H */
