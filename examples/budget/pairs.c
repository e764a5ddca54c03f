// Pairs of malloc and free of 16 to 1024 bytes, for counting instructions:
//
//   pairs NUMBER
#include <stdlib.h>

int main(int count, char **words) {
    static void *volatile block;
    unsigned seed = 1;
    for (long pairs = count > 1 ? atol(words[1]) : 0; pairs > 0; pairs--) {
        seed = seed * 1664525u + 1013904223u;
        block = malloc(16 + (seed >> 16) % 1009);
        free(block);
    }
    return 0;
}
