// Whatever could harm who looks into it: a circle of a million blocks, a class with a name of 100 kB, objects whose type information is
// written and leads astray, and tables with lengths that cannot be. Waits until its input ends.
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Node {
    Node *next;
    long value;
};
static Node *circle;
static long words[1 << 16];
static void *keep[1 << 12];

int main() {
    Node *first = new Node{nullptr, 0};
    circle = first;
    for (long at = 1; at < 1000000; at++) circle = new Node{circle, at};
    first->next = circle;
    static char name[100001];
    memset(name, 'A', 100000);
    // Type information in memory that can be written, which points to itself and to the long name.
    static void *information[4], *table[4];
    information[0] = &table[1];
    information[1] = name;
    table[0] = information;
    for (long at = 0; at < 1 << 12; at++) {
        void **object = (void **)malloc(64);
        for (int word = 0; word < 8; word++) object[word] = word % 2 ? (void *)&table[1] : (void *)~0ul;
        object[0] = &table[1];
        keep[at] = object;
    }
    // Owners that lie: lengths without end, next to pointers to blocks.
    for (long at = 0; at + 8 < 1 << 16; at += 8) {
        words[at] = (long)keep[at % (1 << 12)];
        words[at + 1] = at % 3 ? -1 : 1l << 40;
        words[at + 2] = at % 5 ? -1 : 1l << 62;
        words[at + 3] = 1000000;
        words[at + 4] = 0x3f800000;
    }
    puts("blocks=1004096");
    fflush(stdout);
    return getchar() == 0;
}
