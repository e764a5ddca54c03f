// A C++ program of many threads: each allocates, keeps and frees strings. c++ -O2 -pthread threads.cpp -o threads-cpp
// Arguments: threads (32 unless given), and the strings of each (20,000).
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

static size_t work(int seed, int strings) {
    std::map<int, std::string> kept;
    size_t total = 0;
    unsigned state = seed * 2654435761u + 1;
    for (int i = 0; i < strings; i++) {
        state = state * 1664525u + 1013904223u;
        kept[state % 2000] = std::string(16 + state % 500, 'x');
        total += kept[state % 2000].size();
    }
    return total;
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 32, strings = argc > 2 ? std::atoi(argv[2]) : 20000;
    std::vector<std::thread> threads;
    std::vector<size_t> totals(count);
    for (int i = 0; i < count; i++) threads.emplace_back([i, strings, &totals] { totals[i] = work(i, strings); });
    size_t sum = 0;
    for (int i = 0; i < count; i++) threads[i].join(), sum += totals[i];
    std::printf("%zu\n", sum);
}
