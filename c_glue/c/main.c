/* A C program whose work a service in Rust does. It shows the cost of this.
   In: a label, the number of threads, the number of requests for each. Out: one row of the table. */
#include <stdio.h>
#include <stdlib.h>

#include "allocanary.h"

static double resident_mib(void) {
    AllocanaryStatistics statistics;
    if (allocanary_statistics(&statistics) != ALLOCANARY_CODE_OK) {
        return -1;
    }
    return (double)statistics.resident_bytes / (1 << 20);
}

int main(int argc, char **argv) {
    const char *label = argc > 1 ? argv[1] : "C";
    uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 32;
    uint32_t requests = argc > 3 ? (uint32_t)atoi(argv[3]) : 500;
    uint32_t most = 0;
    char words[256];

    double start = resident_mib();
    if (allocanary_service(threads, requests) != ALLOCANARY_CODE_OK) {
        allocanary_last_error(words, sizeof words);
        fprintf(stderr, "error: %s\n", words);
        return 1;
    }
    double after = resident_mib();
    AllocanaryCode purged = allocanary_purge(); /* musl's malloc cannot do it; the last column then repeats the one before */
    if ((purged != ALLOCANARY_CODE_OK && purged != ALLOCANARY_CODE_UNSUPPORTED) ||
        allocanary_most_arenas(&most) != ALLOCANARY_CODE_OK) {
        allocanary_last_error(words, sizeof words);
        fprintf(stderr, "error: %s\n", words);
        return 1;
    }
    char arenas[16] = "no limit"; /* the meaning of 0 */
    if (most > 0) {
        snprintf(arenas, sizeof arenas, "%u", most);
    }
    printf("| %-15s | %-9s | %8s | %8.1f | %13.1f | %11.1f |\n", allocanary_variant(), label, arenas, start, after,
           resident_mib());
    return 0;
}
