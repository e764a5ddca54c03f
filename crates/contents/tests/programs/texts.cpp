// Old bytes hold nothing. 1,000 strings are where lists were before, and the addresses of the nodes of another list, which is lost, are in what
// the strings do not use. Waits until its input ends.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

struct Node {
    Node *next;
    long value[7];
};

static std::vector<std::string> texts;

static void __attribute__((noinline)) make(void) {
    Node *list = nullptr;
    for (int at = 0; at < 1000; at++) list = new Node{list, {at}};
    texts.reserve(1000);
    for (Node *node = list; node; node = node->next) {
        std::string text(100, 'x');
        texts.push_back(std::move(text));
        // The text becomes short, and the rest of its memory is that of somebody before.
        std::string &own = texts.back();
        memcpy(own.data() + 64, &node, sizeof node);
        own.resize(10);
    }
}

// What a function leaves on the stack can hold a block.
static void __attribute__((noinline)) clear(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main() {
    make();
    clear();
    puts("texts=1000 alike=1000");
    fflush(stdout);
    return getchar() == 0;
}
