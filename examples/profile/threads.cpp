// Eight threads that make blocks which others free, for accuracy.py: what is left is the same in every run.
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

struct Cache { std::unordered_map<int, std::string> entries; };
static Cache caches[8];
static std::vector<std::map<int, std::vector<char>>> queues(8);

[[gnu::noinline]] static void fill(int of) {
    for (int at = 0; at < 40000; at++) caches[of].entries[at] = std::string(30 + at % 100, 'v');
}
[[gnu::noinline]] static void enqueue(int of) {
    for (int at = 0; at < 6000; at++) queues[of][at] = std::vector<char>(100 + at % 3000);
}
[[gnu::noinline]] static void drain(int of) {
    auto &queue = queues[(of + 1) % 8];
    for (int at = 0; at < 6000; at += 3) queue.erase(at);
}

template <class F> static void all(F work) {
    std::vector<std::thread> threads;
    for (int of = 0; of < 8; of++) threads.emplace_back(work, of);
    for (auto &thread : threads) thread.join();
}

int main() {
    all(fill);
    all(enqueue);
    all(drain);
    std::puts("ready");
    std::fflush(stdout);
    pause();
}
