// BASE RATE: has BASE MiB in blocks of 1000 bytes, and from then on RATE MiB more each second. Tells when the base is there.
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
    // The data segment grows now and then, and not in steps of a reading. It ends by itself where nobody ends it.
    for (long made = 0; made < rate * 600; made++) {
        block();
        while (made > (now() - began) * rate) {
            usleep(500);
        }
    }
    return 0;
}
