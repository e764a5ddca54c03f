// Six sites with known shapes, for accuracy.py: lists of small blocks, buffers of many sizes, blocks that grow, and garbage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long state = 1;
static unsigned long next(void) { return state = state * 6364136223846793005UL + 1442695040888963407UL, state >> 33; }

struct link { struct link *next; char body[40]; };
static struct link *head;

__attribute__((noinline)) static void small(int count) {
    for (int at = 0; at < count; at++) {
        struct link *one = malloc(sizeof *one);
        one->next = head, head = one;
    }
}
__attribute__((noinline)) static void names(char **to, int count) {
    for (int at = 0; at < count; at++) memset(to[at] = malloc(20 + next() % 200), 'x', 20);
}
__attribute__((noinline)) static void buffers(char **to, int count) {
    for (int at = 0; at < count; at++) to[at] = calloc(1, 1000 + next() % 60000);
}
__attribute__((noinline)) static void large(char **to, int count) {
    for (int at = 0; at < count; at++) memset(to[at] = malloc(1000000 + next() % 2000000), 1, 4096);
}
__attribute__((noinline)) static char *growing(int times) {
    char *block = NULL;
    for (int at = 1; at <= times; at++) block = realloc(block, at * 1000);
    return block;
}
__attribute__((noinline)) static void garbage(int count) {
    for (int at = 0; at < count; at++) free(malloc(16 + next() % 500));
}

static char *kept[400000];

int main(void) {
    small(300000);
    garbage(500000);
    names(kept, 150000);
    buffers(kept + 150000, 800);
    large(kept + 160000, 6);
    for (int at = 0; at < 20; at++) kept[170000 + at] = growing(200);
    // Every second name goes: what is freed must leave the table.
    for (int at = 0; at < 150000; at += 2) free(kept[at]);
    garbage(500000);
    puts("ready");
    fflush(stdout);
    pause();
}
