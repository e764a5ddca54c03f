// Pairs of malloc and free of 16 to 271 bytes at random places of a table: what one costs, in processor time.
//   cc -O2 pairs.c -o pairs && ./pairs 5000000
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PLACES = 4096 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int count, char **words) {
    long pairs = count > 1 ? atol(words[1]) : 5000000;
    void **places = calloc(PLACES, sizeof *places);
    unsigned random = 1;
    double begin = now();
    for (long at = 0; at < pairs; at++) {
        random = random * 1664525 + 1013904223;
        unsigned place = random >> 20 & (PLACES - 1);
        free(places[place]);
        places[place] = malloc(16 + (random >> 12 & 255));
    }
    printf("%.1f\n", (now() - begin) / pairs);
    return 0;
}
