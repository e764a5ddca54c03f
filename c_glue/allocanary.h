/* allocanary for C: memory with a count, live tuning, statistics and metrics of the allocator that is linked. */

#ifndef ALLOCANARY_H
#define ALLOCANARY_H

/* Written by cbindgen from src/: change it there, then `make header`. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 The value of a field of `AllocanaryStatistics` that this allocator does not report.
 */
#define ALLOCANARY_UNKNOWN UINT64_MAX

/*
 The result of a call. `allocanary_last_error` has the message.
 */
typedef enum {
  /*
   Success.
   */
  ALLOCANARY_CODE_OK = 0,
  /*
   A pointer is null that must not be null.
   */
  ALLOCANARY_CODE_NULL = 1,
  /*
   The function does not take this argument.
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
   Settings are invalid, or the allocator did not take them.
   */
  ALLOCANARY_CODE_SETTINGS = 5,
  /*
   The text does not fit the buffer, and was cut.
   */
  ALLOCANARY_CODE_BUFFER = 6,
  /*
   The block was freed before. Only a checked build finds this.
   */
  ALLOCANARY_CODE_FREED_TWICE = 7,
  /*
   The pointer is not a block of this library. Only a checked build finds this.
   */
  ALLOCANARY_CODE_FOREIGN = 8,
  /*
   The data that were read back differ from those that were written.
   */
  ALLOCANARY_CODE_DAMAGED = 9,
  /*
   A bug in this library: it panicked, and the panic was caught.
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
   90 % are in use.
   */
  ALLOCANARY_LEVEL_SEVERE = 2,
  /*
   95 % are in use: the program itself must free memory.
   */
  ALLOCANARY_LEVEL_LAST = 3,
} AllocanaryLevel;

/*
 The two states of freed pages.
 */
typedef enum {
  /*
   Freed by the program, still backed by memory.
   */
  ALLOCANARY_PAGES_DIRTY = 0,
  /*
   Given back lazily (MADV_FREE): the kernel takes them when it needs memory. jemalloc only.
   */
  ALLOCANARY_PAGES_MUZZY = 1,
} AllocanaryPages;

/*
 Where the memory of all threads together is. A field that this allocator does not report is `ALLOCANARY_UNKNOWN`.
 */
typedef struct {
  /*
   Bytes in blocks that the program holds, rounded up to size classes.
   */
  uint64_t allocator_allocated_bytes;
  /*
   Bytes in pages with at least one such block.
   */
  uint64_t allocator_active_bytes;
  /*
   Bytes in pages of the allocator that are in memory.
   */
  uint64_t allocator_resident_bytes;
  /*
   Bytes of mappings of the allocator, touched or not.
   */
  uint64_t allocator_mapped_bytes;
  /*
   Bytes in the allocator's own structures.
   */
  uint64_t allocator_metadata_bytes;
  /*
   Bytes of addresses kept for later, without memory.
   */
  uint64_t allocator_retained_bytes;
  /*
   The number of arenas that have been used.
   */
  uint64_t allocator_arenas;
  /*
   The maximum number of arenas that threads are spread over; unknown if there is no limit.
   */
  uint64_t allocator_arenas_limit;
  /*
   Resident memory of the whole process, whoever allocated it.
   */
  uint64_t resident_bytes;
  /*
   Bytes in blocks of `allocanary_calloc`, in the requested sizes.
   */
  uint64_t requested_bytes;
  /*
   Active bytes divided by allocated bytes: 1 means no fragmentation. Negative if it is unknown.
   */
  double allocator_fragmentation_ratio;
} AllocanaryStatistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The variant of this library: `system`, `jemalloc`, `mimalloc`, `jemalloc-shared` or `mimalloc-shared`. The text is
 static: do not free it.
 */
const char *allocanary_variant(void);

/*
 The message of the last error of the calling thread; empty without an error. Writes as much of it as fits to `text`,
 with a NUL at the end. Returns the length of the whole message without the NUL, as snprintf does. `text` may be null
 if `size` is 0.

 # Safety

 `text` is null or points to `size` bytes.
 */
size_t allocanary_last_error(char *text, size_t size);

/*
 Memory for `count` elements of `size` bytes, all zero, aligned for any type of C; null if it cannot be allocated
 (see `allocanary_last_error`). Free it by `allocanary_free`, not by `free`. A size of 0 gives a block, too.
 */
void *allocanary_calloc(size_t count, size_t size);

/*
 Frees a block of `allocanary_calloc`. Does nothing for null. A checked build refuses a block that was freed before
 and a pointer that is not a block. In any other build both are undefined, as they are for `free`.

 # Safety

 `block` is null or from `allocanary_calloc`, and not freed yet.
 */
AllocanaryCode allocanary_free(void *block);

/*
 Bytes in blocks of `allocanary_calloc` that are not freed yet, in the requested sizes.
 */
size_t allocanary_requested_bytes(void);

/*
 Writes the metrics page in Prometheus' text format to `text`, which has `size` bytes. It has a gauge for each
 statistic that this allocator knows, labelled with its name, and the resident memory of the process by part. The length of
 the whole page, without the NUL at its end, goes to `length`, which may be null. If the page does not fit, the code is
 `ALLOCANARY_CODE_BUFFER`, and `text` has a part of it. 4 kB are enough.

 # Safety

 `text` is null (and `size` 0) or points to `size` bytes; `length` is null or points to a number.
 */
AllocanaryCode allocanary_metrics(char *text, size_t size, size_t *length);

/*
 Calls `callback` with each new level (an `AllocanaryLevel`) of the memory budget, and with `data`. A later call replaces both.
 The code is `ALLOCANARY_CODE_UNSUPPORTED` if no budget is on. `ALLOCANARY_MEMORY_BUDGET=container`, or a size such as `1GiB`, in the
 environment turns it on.

 `callback` is called in a thread that allocates, before the allocation is made, and perhaps in two threads at once. It may allocate and
 free. Its allocations cause no further call in this thread. It must not wait for a lock that a thread may hold while it allocates. It
 must not throw, and must not leave by longjmp.

 # Safety

 `callback` may be called with `data` in any thread for as long as the process lives.
 */
AllocanaryCode allocanary_on_pressure(void (*callback)(int32_t level, void *data), void *data);

/*
 Begins to sample the blocks of this library, for the life of the process. From now on, one byte in `mean` of the allocated bytes is
 sampled on average. 524288 is usual, and 1024 is the minimum. Does nothing if the profile is on. `ALLOCANARY_PROFILE=512KiB` in the
 environment turns it on before the first allocation.

 Only blocks of `allocanary_calloc` and of Rust code are sampled. For C's own malloc start the program with LD_PRELOAD of `allocanary
 preload profile`. `allocanary who PID` reads either.
 */
AllocanaryCode allocanary_profile(uint64_t mean);

/*
 Ends sampling for good. Call it before this process gives itself a filter of system calls (seccomp) that may forbid `openat` of
 `/proc/self/maps` or `process_vm_readv` of itself. `allocanary who PID` still reads the profile, but `allocanary_write_pprof` fails from
 now on. If another thread is in that function, this call waits for it, perhaps for seconds.
 */
AllocanaryCode allocanary_profile_before_filter(void);

/*
 Writes the profile to an open file, pipe or socket, compressed by gzip. A service can answer `GET /debug/pprof/heap` with it. `go tool
 pprof` and others read this format. The call may take seconds, and longer while nobody reads, even if the descriptor is non-blocking
 (O_NONBLOCK). The descriptor stays open.

 The code is `ALLOCANARY_CODE_REFUSED` if the profile is off, if the descriptor cannot be written to, or if nobody has read for 30
 seconds. A pipe or a socket that nobody reads any more is such an error, and raises no SIGPIPE.
 */
AllocanaryCode allocanary_write_pprof(int descriptor);

/*
 Runs a service in `threads` threads (1 to 1024) that all live at the same time and answer `requests` requests each.
 Each request builds a page of text, and the last pages are kept. `ALLOCANARY_CODE_DAMAGED` if any page differs from
 what was written. All memory of the service is freed at the end.
 */
AllocanaryCode allocanary_service(uint32_t threads, uint32_t requests);

/*
 Writes to `statistics` where the memory is. The call takes microseconds. With glibc it locks each arena in turn.

 # Safety

 `statistics` points to a struct.
 */
AllocanaryCode allocanary_statistics(AllocanaryStatistics *statistics);

/*
 Checks that all settings, those of the library and those in the environment, exist, have a valid value and are in
 force. If not, the code is `ALLOCANARY_CODE_SETTINGS`, and `text` (null, or `size` bytes) gets one line for each
 setting that fails, cut if the lines do not fit. With glibc this starts the loader once. Call it at the start of a
 program.

 # Safety

 `text` is null or points to `size` bytes.
 */
AllocanaryCode allocanary_check(char *text, size_t size);

/*
 Writes to `most` the maximum number of arenas that threads are spread over; 0 if the allocator sets no limit.

 # Safety

 `most` points to a number.
 */
AllocanaryCode allocanary_most_arenas(uint32_t *most);

/*
 Binds the calling thread to an arena. Arenas are numbered from 0; `allocanary_most_arenas` is their number. jemalloc
 only.
 */
AllocanaryCode allocanary_bind_thread(uint32_t arena);

/*
 Turns the calling thread's cache on or off. The previous value goes to `was`, which may be null. jemalloc only.

 # Safety

 `was` is null or points to a bool.
 */
AllocanaryCode allocanary_set_thread_cache(bool on, bool *was);

/*
 Sets the size in bytes of the largest block that the calling thread's cache keeps, rounded up to a size class.
 jemalloc only.
 */
AllocanaryCode allocanary_set_thread_cache_max(size_t bytes);

/*
 Returns the blocks in the calling thread's cache to their arenas. jemalloc only.
 */
AllocanaryCode allocanary_flush_thread_cache(void);

/*
 Sets the decay time, after which freed pages (an `AllocanaryPages`) go back to the system, in milliseconds: 0 means
 at once, -1 never. It applies to existing arenas and to later ones. jemalloc, and mimalloc's dirty pages.

 An idle process keeps its freed pages, whatever the time: see `allocanary_set_background_threads` and
 `allocanary_purge`.
 */
AllocanaryCode allocanary_set_decay(int32_t pages, int64_t milliseconds);

/*
 Writes to `milliseconds` the decay time that `allocanary_set_decay` sets.

 # Safety

 `milliseconds` points to a number.
 */
AllocanaryCode allocanary_decay(int32_t pages, int64_t *milliseconds);

/*
 Turns jemalloc's background threads on or off. While they are on, freed pages are purged on time even if the process
 is idle. The previous value goes to `was`, which may be null. jemalloc only.

 # Safety

 `was` is null or points to a bool.
 */
AllocanaryCode allocanary_set_background_threads(bool on, bool *was);

/*
 Tells the allocator that the calling thread is about to wait: the memory that the thread keeps goes back to the system. If `gave_back`
 is not null, it is set to whether this call gave memory back. Call it before each wait. It does nothing unless 100 ms have passed since
 this thread last gave memory back (`ALLOCANARY_GIVE_BACK_EVERY_MS`; `ALLOCANARY_THREADS_GIVE_BACK=false` turns it off). Do not call it
 in signal handlers.

 # Safety

 `gave_back` is null or points to a bool.
 */
AllocanaryCode allocanary_thread_idle(bool *gave_back);

/*
 Returns to the system now all memory that the calling thread can return. The caches of other threads stay, and with
 glibc also the tops of their arenas: for these there is `allocanary_thread_idle`.
 */
AllocanaryCode allocanary_purge(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ALLOCANARY_H */
