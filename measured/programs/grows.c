// Arguments: BASE RATE. Allocates BASE MiB in blocks of 1000 bytes, prints a line, and then allocates RATE MiB more each
// second.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void block(void) {
    memset(malloc(1000), 1, 1000);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    for (long at = atol(words[1]) * 1048; at > 0; at--) {
        block();
    }
    puts("ready");
    fflush(stdout);
    double began = now(), rate = atof(words[2]) * 1048;
    // Allocates in small steps, so that the data segment grows at times that are independent of readings. The program
    // ends by itself if nobody ends it.
    for (long made = 0; made < rate * 600; made++) {
        block();
        while (made > (now() - began) * rate) {
            usleep(500);
        }
    }
    return 0;
}
