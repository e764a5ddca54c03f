// Prints its own resident memory in KiB: all of it, and the part without a file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *name = strdup("/proc/self/smaps_rollup"), line[256];
    FILE *file = fopen(name, "r");
    if (!file) return 1;
    long resident = 0, anonymous = 0;
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "Rss: %ld", &resident);
        sscanf(line, "Anonymous: %ld", &anonymous);
    }
    fclose(file);
    free(name);
    printf("%ld %ld\n", resident, anonymous);
    return 0;
}
