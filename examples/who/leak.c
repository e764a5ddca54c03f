// A service with a leak of a known rate: 20 requests a second, each of which forgets a block of 1,000 bytes, are 1.14 MiB a minute. A table of
// 2 MiB is filled at once, and 50 buffers of a request are freed. It ends after so many seconds.
//
//   cc -O1 -g -o leak examples/who/leak.c && allocanary record -o traces --stack-sample all -- ./leak 60 && allocanary who traces/leak-*.trace
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUNCTION __attribute__((noinline)) static void

static void *volatile last;

FUNCTION leak(void) { last = memset(malloc(1000), 1, 1000); }
FUNCTION fill(void) { for (int at = 0; at < 2048; at++) last = memset(malloc(1024), 1, 1024); }
FUNCTION serve(void) { for (int at = 0; at < 50; at++) { last = malloc(200); free(last); } }

int main(int count, char **words) {
    long requests = 20 * (count > 1 ? atol(words[1]) : 60);
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    fill();
    for (; requests > 0; requests--) {
        serve();
        leak();
        next.tv_nsec += 50000000;
        if (next.tv_nsec >= 1000000000) { next.tv_nsec -= 1000000000; next.tv_sec++; }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return 0;
}
