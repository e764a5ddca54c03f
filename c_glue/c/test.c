/* Tests of the library from C. In: the name of a group of tests; `all` by default. Out: nothing, or the tests that
   failed.

   `arenas`, `check` and `metrics` print what the library reports, for test.sh, which sets the environment. `pressure`
   needs ALLOCANARY_MEMORY_BUDGET=64MiB. `profile` writes a profile to standard output. `valgrind` has all tests except those that
   cannot pass under valgrind. `checked` is for a checked build of the library. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocanary.h"

/* A function of mimalloc: whether a pointer is in its heap. It is weak, because the other variants do not have it. */
extern bool mi_is_in_heap_region(const void *pointer) __attribute__((weak));

static int failures = 0;

static void fail(int line, const char *what) {
    char words[1024];
    allocanary_last_error(words, sizeof words);
    fprintf(stderr, "test.c:%d: %s: %s (last error: %s)\n", line, allocanary_variant(), what, words);
    failures++;
}

#define EXPECT(what) \
    do { \
        if (!(what)) { \
            fail(__LINE__, #what); \
        } \
    } while (0)
#define EXPECT_CODE(wanted, call) EXPECT((call) == ALLOCANARY_CODE_##wanted)

static bool is_variant(const char *name) { return strncmp(allocanary_variant(), name, strlen(name)) == 0; }
static bool is_shared(void) { return strstr(allocanary_variant(), "-shared") != NULL; }

/* Whether glibc's own start-up calls malloc before any code of a program. If jemalloc is that malloc, our settings
   come too late for it. Its values may still equal them on some hosts. */
static bool is_late(void) {
#ifdef STATIC
    return strcmp(allocanary_variant(), "jemalloc-shared") == 0;
#else
    return false;
#endif
}

/* Whether another C library's malloc (musl) is used: it has no arenas and reports nothing. */
static bool is_silent(void) {
#ifdef __GLIBC__
    return false;
#else
    return is_variant("system");
#endif
}

/* Whether the call purged memory. The malloc of another C library must answer that it cannot. */
static bool purges(AllocanaryCode said) {
    return said == (is_silent() ? ALLOCANARY_CODE_UNSUPPORTED : ALLOCANARY_CODE_OK);
}

static AllocanaryStatistics statistics(void) {
    AllocanaryStatistics found;
    EXPECT_CODE(OK, allocanary_statistics(&found));
    return found;
}

/* Checks a tuning call that only jemalloc supports. The other allocators must return an error that names
   them, and not silently do nothing. */
static bool only_jemalloc(AllocanaryCode code) {
    char words[256];
    if (is_variant("jemalloc")) {
        return code == ALLOCANARY_CODE_OK;
    }
    allocanary_last_error(words, sizeof words);
    return code == ALLOCANARY_CODE_UNSUPPORTED && strchr(words, ':') != NULL &&
           strncmp(words, is_variant("system") ? "system" : "mimalloc", 6) == 0;
}

static void blocks(void) {
    size_t before = allocanary_requested_bytes();
    unsigned char *block = allocanary_calloc(1000, 7);
    EXPECT(block != NULL && allocanary_requested_bytes() == before + 7000);
    EXPECT((uintptr_t)block % 16 == 0);
    for (size_t at = 0; at < 7000; at++) {
        EXPECT(block[at] == 0);
        block[at] = (unsigned char)at;
    }
    void *empty = allocanary_calloc(0, 9);
    EXPECT(empty != NULL && allocanary_requested_bytes() == before + 7000);
    EXPECT_CODE(OK, allocanary_free(empty));
    EXPECT_CODE(OK, allocanary_free(block));
    EXPECT_CODE(OK, allocanary_free(NULL));
    EXPECT(allocanary_requested_bytes() == before);

    char words[128] = "untouched";
    EXPECT(allocanary_calloc(SIZE_MAX / 2, 3) == NULL);
    EXPECT(allocanary_last_error(words, sizeof words) > 0 && strstr(words, "more than there are addresses") != NULL);
    EXPECT(allocanary_calloc(SIZE_MAX - 8, 1) == NULL);
    EXPECT(allocanary_calloc(SIZE_MAX / 4, 1) == NULL);
    EXPECT(allocanary_last_error(words, sizeof words) > 0 && strncmp(words, "no memory for ", 14) == 0);
    EXPECT(allocanary_last_error(NULL, 0) > 0 && allocanary_last_error(NULL, 5) == 0);
    EXPECT(allocanary_last_error(words, 4) > 4 && strcmp(words, "no ") == 0);
    EXPECT(allocanary_requested_bytes() == before);
}

static void tuning(void) {
    uint32_t most = 99;
    int64_t decay = 0;
    bool was = false;
    EXPECT_CODE(NULL, allocanary_most_arenas(NULL));
    EXPECT_CODE(OK, allocanary_most_arenas(&most));
    EXPECT(is_variant("mimalloc") || is_silent() ? most == 0 : most >= 1);

    EXPECT(only_jemalloc(allocanary_bind_thread(0)));
    EXPECT(allocanary_bind_thread(100000) == (is_variant("jemalloc") ? ALLOCANARY_CODE_REFUSED
                                                                     : ALLOCANARY_CODE_UNSUPPORTED));
    EXPECT(only_jemalloc(allocanary_set_thread_cache_max(4096)));
    EXPECT(only_jemalloc(allocanary_flush_thread_cache()));
    EXPECT(only_jemalloc(allocanary_set_thread_cache(false, &was)));
    EXPECT(only_jemalloc(allocanary_set_thread_cache(true, NULL)));
    EXPECT(was == is_variant("jemalloc"));
    EXPECT(only_jemalloc(allocanary_set_background_threads(true, &was)));
    EXPECT(only_jemalloc(allocanary_set_background_threads(false, NULL)));

    EXPECT_CODE(ARGUMENT, allocanary_set_decay(7, 0));
    EXPECT_CODE(ARGUMENT, allocanary_set_decay(ALLOCANARY_PAGES_DIRTY, -2));
    EXPECT_CODE(NULL, allocanary_decay(ALLOCANARY_PAGES_DIRTY, NULL));
    if (is_variant("system")) {
        EXPECT_CODE(UNSUPPORTED, allocanary_set_decay(ALLOCANARY_PAGES_DIRTY, 100));
    } else {
        EXPECT_CODE(OK, allocanary_set_decay(ALLOCANARY_PAGES_DIRTY, -1));
        EXPECT(allocanary_decay(ALLOCANARY_PAGES_DIRTY, &decay) == ALLOCANARY_CODE_OK && decay == -1);
        EXPECT_CODE(OK, allocanary_set_decay(ALLOCANARY_PAGES_DIRTY, 100));
        EXPECT(allocanary_decay(ALLOCANARY_PAGES_DIRTY, &decay) == ALLOCANARY_CODE_OK && decay == 100);
    }
    EXPECT(only_jemalloc(allocanary_set_decay(ALLOCANARY_PAGES_MUZZY, 0)));
    EXPECT(purges(allocanary_purge()));

    /* The first call gives back the memory that the thread used. The second comes too soon. */
    allocanary_free(allocanary_calloc(1, 100000));
    was = false;
    EXPECT(purges(allocanary_thread_idle(&was)));
    EXPECT(was == !is_silent());
    EXPECT(purges(allocanary_thread_idle(&was)));
    EXPECT(!was && purges(allocanary_thread_idle(NULL)));
}

static void texts(void) {
    char page[4096], small[40], words[512];
    size_t length = 0, again = 0;
    EXPECT_CODE(OK, allocanary_metrics(page, sizeof page, &length));
    EXPECT(length == strlen(page) && page[length - 1] == '\n');
    EXPECT(strstr(page, "# TYPE allocanary_resident_bytes gauge\nallocanary_resident_bytes{allocator=\"") != NULL);
    EXPECT((strstr(page, "\nallocanary_allocator_allocated_bytes{") != NULL) == !(is_variant("mimalloc") || is_silent()));
    memset(small, 'x', sizeof small);
    EXPECT_CODE(BUFFER, allocanary_metrics(small, sizeof small, &again));
    EXPECT(strlen(small) == sizeof small - 1 && strncmp(small, page, sizeof small - 1) == 0 && again > sizeof small);
    EXPECT_CODE(BUFFER, allocanary_metrics(NULL, 0, &again));
    EXPECT_CODE(NULL, allocanary_metrics(NULL, 10, NULL));
    EXPECT_CODE(NULL, allocanary_statistics(NULL));
    if (!is_late()) {
        EXPECT_CODE(OK, allocanary_check(words, sizeof words));
        EXPECT_CODE(OK, allocanary_check(NULL, 0));
        EXPECT(words[0] == '\0');
    }
}

/* Counts the calls of the program's function for the memory budget. */
typedef struct {
    unsigned levels; /* one bit for each */
    unsigned calls, within;
    bool is_inside, is_wrong;
} Pressure;

static void on_pressure(int32_t level, void *data) {
    Pressure *seen = data;
    seen->within += seen->is_inside;
    seen->is_inside = true;
    seen->is_wrong = seen->is_wrong || level < ALLOCANARY_LEVEL_CALM || level > ALLOCANARY_LEVEL_LAST;
    seen->levels |= 1u << level;
    seen->calls++;
    /* The function may allocate, even so much that a reading is due. */
    for (int index = 0; index < 4; index++) {
        void *block = allocanary_calloc(1, 1 << 20);
        if (block == NULL || allocanary_free(block) != ALLOCANARY_CODE_OK) {
            abort();
        }
    }
    seen->is_inside = false;
}

static void no_budget(void) {
    Pressure seen = {0};
    EXPECT_CODE(UNSUPPORTED, allocanary_on_pressure(on_pressure, &seen));
    EXPECT_CODE(NULL, allocanary_on_pressure(NULL, NULL));
    EXPECT(seen.calls == 0);
}

/* Holds 96 MiB under a budget of 64 MiB, and then frees them. */
static void pressure(void) {
    enum { BLOCKS = 96, SIZE = 1 << 20 };
    /* The last function that was set is called until the process ends. */
    static Pressure seen, replaced;
    void *blocks[BLOCKS];
    EXPECT_CODE(NULL, allocanary_on_pressure(NULL, &seen));
    EXPECT_CODE(OK, allocanary_on_pressure(on_pressure, &replaced));
    EXPECT_CODE(OK, allocanary_on_pressure(on_pressure, &seen));
    for (int index = 0; index < BLOCKS; index++) {
        blocks[index] = allocanary_calloc(1, SIZE);
        EXPECT(blocks[index] != NULL);
        memset(blocks[index], 1, SIZE);
    }
    EXPECT(seen.levels >> ALLOCANARY_LEVEL_LAST == 1 && (seen.levels & 1u << ALLOCANARY_LEVEL_CALM) == 0);
    for (int index = 0; index < BLOCKS; index++) {
        EXPECT_CODE(OK, allocanary_free(blocks[index]));
    }
    EXPECT_CODE(OK, allocanary_purge());
    for (int index = 0; index < BLOCKS; index++) {
        EXPECT_CODE(OK, allocanary_free(allocanary_calloc(1, SIZE)));
    }
    EXPECT(seen.levels & 1u << ALLOCANARY_LEVEL_CALM);
    EXPECT(seen.calls >= 2 && seen.calls <= 7 && seen.within == 0 && !seen.is_wrong);
    EXPECT(replaced.calls == 0);
}

static void service(void) {
    size_t before = allocanary_requested_bytes();
    EXPECT_CODE(ARGUMENT, allocanary_service(0, 1));
    EXPECT_CODE(ARGUMENT, allocanary_service(1025, 1));
    EXPECT_CODE(OK, allocanary_service(4, 60));
    EXPECT_CODE(OK, allocanary_service(1, 0));
    EXPECT(allocanary_requested_bytes() == before);
}

/* Whether C's own malloc is in the heap of this library's allocator. */
static void heaps(void) {
    const size_t bytes = 10 << 20;
    AllocanaryStatistics before = statistics();
    char *mine = malloc(bytes), *theirs = allocanary_calloc(1, bytes);
    EXPECT(mine != NULL && theirs != NULL);
    memset(mine, 1, bytes);
    AllocanaryStatistics after = statistics();
    bool is_counted = is_shared() || is_variant("system");
    if (is_variant("mimalloc")) {
        /* mimalloc does not count allocated bytes, but recognizes its own blocks. */
        EXPECT(mi_is_in_heap_region(theirs) && mi_is_in_heap_region(mine) == is_counted);
    } else if (is_silent()) {
        EXPECT(after.allocator_allocated_bytes == ALLOCANARY_UNKNOWN);
    } else {
        uint64_t grown = after.allocator_allocated_bytes - before.allocator_allocated_bytes;
        EXPECT(grown >= (is_counted ? 2 : 1) * bytes && grown < (is_counted ? 3 : 2) * bytes);
        /* glibc does not count pages with blocks. */
        double ratio = after.allocator_fragmentation_ratio;
        EXPECT(is_variant("system") ? ratio < 0 : ratio >= 1.0);
    }
    EXPECT(after.requested_bytes == before.requested_bytes + bytes);
    EXPECT(after.resident_bytes > bytes && after.resident_bytes != ALLOCANARY_UNKNOWN);
    free(mine);
    EXPECT_CODE(OK, allocanary_free(theirs));
}

static void after_fork(void) {
    void *block = allocanary_calloc(1, 100);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        EXPECT_CODE(OK, allocanary_free(block));
        blocks();
        EXPECT_CODE(OK, allocanary_service(2, 20));
        EXPECT(purges(allocanary_purge()));
        statistics();
        _exit(failures == 0 ? 0 : 1);
    }
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT_CODE(OK, allocanary_free(block));
}

static void *from_a_thread(void *given) {
    AllocanaryStatistics found;
    for (int round = 0; round < 50; round++) {
        void *block = allocanary_calloc(10, (size_t)round * 100);
        if (allocanary_statistics(&found) != ALLOCANARY_CODE_OK || !purges(allocanary_purge()) ||
            allocanary_free(block) != ALLOCANARY_CODE_OK) {
            *(bool *)given = false;
        }
        allocanary_set_decay(ALLOCANARY_PAGES_DIRTY, round);
    }
    return given;
}

static pthread_key_t at_exit;

/* Runs while the thread ends, when Rust's thread-local variables may already be gone. */
static void while_a_thread_ends(void *block) {
    if (allocanary_free(block) != ALLOCANARY_CODE_OK || allocanary_metrics(NULL, 0, NULL) != ALLOCANARY_CODE_BUFFER) {
        abort();
    }
}

static void *with_a_block(void *given) {
    pthread_setspecific(at_exit, allocanary_calloc(3, 3));
    return from_a_thread(given);
}

static void threads(void) {
    pthread_t all[8];
    bool good[8];
    size_t before = allocanary_requested_bytes();
    EXPECT(pthread_key_create(&at_exit, while_a_thread_ends) == 0);
    for (int index = 0; index < 8; index++) {
        good[index] = true;
        EXPECT(pthread_create(&all[index], NULL, with_a_block, &good[index]) == 0);
    }
    for (int index = 0; index < 8; index++) {
        EXPECT(pthread_join(all[index], NULL) == 0 && good[index]);
    }
    EXPECT(allocanary_requested_bytes() == before);
}

static void checked(void) {
    char words[128], wanted[128];
    void *block = allocanary_calloc(2, 50);
    int foreign = 0;
    EXPECT_CODE(OK, allocanary_free(block));
    size_t before = allocanary_requested_bytes();
    EXPECT_CODE(FREED_TWICE, allocanary_free(block));
    allocanary_last_error(words, sizeof words);
    snprintf(wanted, sizeof wanted, "%p was freed before", block);
    EXPECT(strcmp(words, wanted) == 0);
    EXPECT_CODE(FOREIGN, allocanary_free(&foreign));
    EXPECT_CODE(OK, allocanary_free(NULL));
    EXPECT(allocanary_requested_bytes() == before);
}

/* Holds a large block while the profile is written to standard output. The profile is off at first. */
static void profile(void) {
    EXPECT_CODE(REFUSED, allocanary_write_pprof(1));
    EXPECT_CODE(REFUSED, allocanary_profile(1));
    EXPECT_CODE(OK, allocanary_profile(524288));
    EXPECT_CODE(OK, allocanary_profile(524288));
    void *block = allocanary_calloc(64, 1 << 20);
    EXPECT_CODE(ARGUMENT, allocanary_write_pprof(-1));
    EXPECT_CODE(REFUSED, allocanary_write_pprof(1000));
    int ends[2];
    EXPECT(pipe(ends) == 0 && close(ends[0]) == 0);
    /* SIGPIPE would end this program. */
    EXPECT_CODE(REFUSED, allocanary_write_pprof(ends[1]));
    close(ends[1]);
    EXPECT_CODE(OK, allocanary_write_pprof(1));
    EXPECT_CODE(OK, allocanary_profile_before_filter());
    EXPECT_CODE(REFUSED, allocanary_write_pprof(1));
    EXPECT_CODE(OK, allocanary_free(block));
}

int main(int argc, char **argv) {
    const char *group = argc > 1 ? argv[1] : "all";
    if (strcmp(group, "arenas") == 0) {
        uint32_t most = 0;
        EXPECT_CODE(OK, allocanary_most_arenas(&most));
        printf("%u\n", most);
    } else if (strcmp(group, "check") == 0) {
        char words[4096];
        AllocanaryCode code = allocanary_check(words, sizeof words);
        printf("%d %s\n", (int)code, words);
    } else if (strcmp(group, "metrics") == 0) {
        char page[4096];
        EXPECT_CODE(OK, allocanary_metrics(page, sizeof page, NULL));
        fputs(page, stdout);
    } else if (strcmp(group, "checked") == 0) {
        checked();
    } else if (strcmp(group, "pressure") == 0) {
        pressure();
    } else if (strcmp(group, "profile") == 0) {
        profile();
    } else {
        blocks();
        texts();
        /* Under valgrind the system's malloc is valgrind's, which mallinfo2 does not know. */
        if (strcmp(group, "valgrind") != 0 || !is_variant("system")) {
            heaps();
        }
        no_budget();
        service();
        after_fork();
        threads();
        tuning();
        after_fork();
    }
    return failures == 0 ? 0 : 1;
}
