// Makes objects and containers, loses some, and knows how many of each. Waits until its input ends.
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace app {
struct Shape {
    virtual ~Shape() {}
    double x = 1;
};
struct Circle : Shape {
    double r = 2;
    char pad[16];
};
struct Square : Shape {
    double a = 3;
};
struct Peer {
    std::shared_ptr<Peer> other;
    long data[4];
};
}  // namespace app

std::unordered_map<long, std::unique_ptr<app::Circle>> g_cache;
std::map<int, std::string> g_map;
std::set<long> g_set;
std::list<long> g_list;
std::deque<long> g_deque;
// Without a destructor, after which its shapes would be lost as well, for who looks at the end of the program.
std::vector<app::Shape *> &g_shapes = *new std::vector<app::Shape *>;
std::vector<std::vector<long>> g_vectors;

#define LOSE(pointer) __asm__ volatile("" ::"r"(pointer))

__attribute__((noinline)) void lose() {
    for (int at = 0; at < 3000; at++) {
        auto one = std::make_shared<app::Peer>(), other = std::make_shared<app::Peer>();
        one->other = other;
        other->other = one;
    }
    for (int at = 0; at < 500; at++) LOSE(new app::Square[4]);
    for (int at = 0; at < 2500; at++) LOSE(new app::Circle);
    for (int at = 0; at < 2500; at++) LOSE(new std::string(40, 'x'));
}

__attribute__((noinline)) void clear() {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main() {
    for (long at = 0; at < 20000; at++) g_cache[at] = std::make_unique<app::Circle>();
    for (int at = 0; at < 50000; at++) g_map[at] = "the text of number " + std::to_string(1000000 + at);
    for (long at = 0; at < 40000; at++) g_set.insert(at);
    for (long at = 0; at < 40000; at++) g_list.push_back(at);
    for (long at = 0; at < 64000; at++) g_deque.push_back(at);
    for (int at = 0; at < 1000; at++) g_shapes.push_back(new app::Square);
    for (int at = 0; at < 2000; at++) g_vectors.emplace_back(30, at);
    lose();
    clear();
    puts("lost=14000 peers=6000 arrays=500 circles=22500 lost_circles=2500 nodes=90000 list=40000 hash=20000 squares=1000 strings=52500");
    fflush(stdout);
    return getchar() == 0;
}
