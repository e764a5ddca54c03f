// Loses blocks, and knows how many: 1,000 lists of 5 blocks, 400 blocks of 100 bytes and more, and a circle of 1,000 with one block more:
// 6,401, of which 1,401 are direct. 5,010 blocks are held, by a global variable and by one of the thread. Waits until its input ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *next; void *more; long value[2]; };
static struct node *keep;
static __thread struct node *mine;
// The compiler must not know that a block is lost.
#define LOSE(pointer) __asm__ volatile("" ::"r"(pointer))

static struct node *push(struct node *next, long value) {
    struct node *node = calloc(1, sizeof *node);
    node->next = next;
    node->value[0] = value;
    return node;
}

static void __attribute__((noinline)) lose(void) {
    for (int list = 0; list < 1000; list++) {
        struct node *head = 0;
        for (int at = 0; at < 5; at++) head = push(head, at);
        LOSE(head);
    }
    for (int at = 0; at < 400; at++) {
        char *block = malloc(100 + at);
        memset(block, 'x', 100 + at);
        LOSE(block);
    }
    struct node *first = push(0, 7), *last = first;
    for (int at = 1; at < 1000; at++) last = push(last, at);
    first->next = last;
    first->more = calloc(1, 77);
    LOSE(last);
}

// What a function leaves on the stack can hold a block.
static void __attribute__((noinline)) clear(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main(void) {
    for (int at = 0; at < 5000; at++) keep = push(keep, at);
    for (int at = 0; at < 10; at++) mine = push(mine, at);
    lose();
    clear();
    puts("lost=6401 direct=1401");
    fflush(stdout);
    return getchar() == 0;
}
