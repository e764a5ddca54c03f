// A C++ program of many threads: each allocates, keeps and frees strings. c++ -O2 -pthread threads.cpp -o threads-cpp
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

static size_t work(int seed) {
    std::map<int, std::string> kept;
    size_t total = 0;
    unsigned state = seed * 2654435761u + 1;
    for (int i = 0; i < 20000; i++) {
        state = state * 1664525u + 1013904223u;
        kept[state % 2000] = std::string(16 + state % 500, 'x');
        total += kept[state % 2000].size();
    }
    return total;
}

int main() {
    std::vector<std::thread> threads;
    std::vector<size_t> totals(32);
    for (int i = 0; i < 32; i++) threads.emplace_back([i, &totals] { totals[i] = work(i); });
    size_t sum = 0;
    for (int i = 0; i < 32; i++) threads[i].join(), sum += totals[i];
    std::printf("%zu\n", sum);
}
