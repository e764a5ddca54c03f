// A service that knows who points to its blocks. It prints a line for each block that it asks about, with tabs between its words: what it is, its
// address, the variable that holds it, how many blocks and bytes only this block leads to (with itself), and the places of the pointers
// to it. Then it waits until its input ends.
#include <cstdio>
#include <cstring>
#include <malloc.h>
#include <map>
#include <string>
#include <vector>

struct Peer {
    virtual ~Peer() = default;
    long number = 0;
};

struct Session {
    virtual ~Session() = default;
    std::string name = "the name of a session, which is long";
    char *buffer = nullptr;
    Peer *peer = nullptr;
};

struct Link {
    Link *next;
    long number;
};

std::map<int, Session *> g_sessions;
Link *g_chain;
static thread_local Link *own;
char *g_middle;
std::vector<Peer *> g_peers;

static size_t size_of(const void *block) { return malloc_usable_size(const_cast<void *>(block)); }

static void line(const char *what, const void *block, const char *holder, size_t blocks, size_t bytes, std::vector<const void *> places) {
    printf("%s\t%p\t%s\t%zu\t%zu\t", what, block, holder, blocks, bytes);
    for (auto place : places) printf("%p ", place);
    puts("");
}

static size_t bytes_of(const Session *one) { return size_of(one) + size_of(one->name.data()) + size_of(one->buffer); }

static size_t bytes_of(const Link *from) {
    size_t sum = 0;
    for (; from; from = from->next) sum += size_of(from);
    return sum;
}

static Link *chain(int count) {
    Link *head = nullptr;
    for (int at = 0; at < count; at++) head = new Link{head, at};
    return head;
}

__attribute__((noinline)) static void fill() {
    for (int at = 0; at < 1000; at++) {
        auto one = new Session;
        // Each buffer is larger than the one before it.
        size_t size = 100 + at * 16;
        memset(one->buffer = (char *)malloc(size), 'x', size);
        g_sessions[at] = one;
    }
    for (int at = 0; at < 10; at++) g_peers.push_back(new Peer);
    g_sessions[3]->peer = g_sessions[4]->peer = g_peers[7];
    g_chain = chain(100);
    own = chain(30);
    g_middle = (char *)memset(malloc(5000), 'x', 5000) + 2000;
}

__attribute__((noinline)) static void tell() {
    auto node = g_sessions.find(500);
    line("a session", node->second, "g_sessions", 3, bytes_of(node->second), {&node->second});
    line("its buffer", node->second->buffer, "g_sessions", 1, size_of(node->second->buffer), {&node->second->buffer});
    line("a peer of two sessions and a list", g_peers[7], "g_peers", 1, size_of(g_peers[7]),
         {&g_peers[7], &g_sessions[3]->peer, &g_sessions[4]->peer});
    line("the first of 100 links", g_chain, "g_chain", 100, bytes_of(g_chain), {&g_chain});
    Link *before = g_chain;
    for (int at = 0; at < 49; at++) before = before->next;
    line("the 51st of them", before->next, "g_chain", 50, bytes_of(before->next), {&before->next});
    line("the first of 30 links of a thread", own, "thread", 30, bytes_of(own), {&own});
    line("a block to whose middle a variable points", g_middle - 2000, "g_middle", 1, size_of(g_middle - 2000), {&g_middle});
    for (int at = 999; at > 994; at--) {
        auto one = g_sessions.find(at);
        line("kind Session", one->second, "g_sessions", 3, bytes_of(one->second), {&one->second});
    }
    puts("end");
    fflush(stdout);
}

// What a function leaves on the stack can point to a block.
__attribute__((noinline)) static void clear() {
    volatile char stack[65536];
    memset((char *)stack, 0, sizeof stack);
}

int main() {
    fill();
    tell();
    clear();
    return getchar() == 0;
}
