/* Moves itself to processors: to one that the host may not have, to the one that it runs on, and to both. Its argument is the
   number of the first. Prints each call's answer, and how many processors it may use, in the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cpu_set_t set_of(int one, int other) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(one, &set);
    CPU_SET(other, &set);
    return set;
}

static void say(const char *name, int answer) {
    printf("%s: %s\n", name, answer == 0 ? "moved" : strerror(answer == -1 ? errno : answer));
}

int main(int count, char **words) {
    int there = atoi(words[count - 1]), here = sched_getcpu();
    cpu_set_t only_there = set_of(there, there), only_here = set_of(here, here), both = set_of(there, here), seen;
    say("there", sched_setaffinity(0, sizeof seen, &only_there));
    say("a thread there", pthread_setaffinity_np(pthread_self(), sizeof seen, &only_there));
    say("both", sched_setaffinity(0, sizeof seen, &both));
    say("here", sched_setaffinity(0, sizeof seen, &only_here));
    printf("runs here: %d\n", sched_getcpu() == here);
    if (sched_getaffinity(0, sizeof seen, &seen)) return 1;
    printf("sees %d\n", CPU_COUNT(&seen));
    return 0;
}
