// The buffer of the standard output had 128 pointers to strings before, of which nobody else knows: all are lost. The text that is written
// covers the first ones. Waits until its input ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((noinline)) lose(void) {
    char **words = malloc(1024);
    for (int at = 0; at < 128; at++) words[at] = strdup("a string of forty bytes, which is lost.");
    setvbuf(stdout, (char *)words, _IOFBF, 1024);
}

// What a function leaves on the stack can hold a block.
static void __attribute__((noinline)) clear(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main(void) {
    lose();
    clear();
    puts("lost=128 of=128");
    fflush(stdout);
    return getchar() == 0;
}
