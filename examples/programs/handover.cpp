// A C++ service of 8 threads. Each keeps strings, and hands every third one to its neighbour, which frees it. When it is
// done it keeps a third of them, and waits. c++ -O2 -pthread handover.cpp -o handover-cpp
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static const int THREADS = 8, KEPT = 6000, STEPS = 200000;
static std::mutex locks[THREADS];
static std::vector<std::string> inboxes[THREADS];
static std::atomic<bool> over{false};

static void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

static void work(int self, std::atomic<int> &left) {
    std::vector<std::string> kept(KEPT);
    unsigned state = self * 2654435761u + 1;
    for (int step = 0; step < STEPS; step++) {
        state = state * 1664525u + 1013904223u;
        std::string fresh(16 + (state >> 8) % ((state >> 4) % 16 == 0 ? 6000 : 500), 'x');
        kept[(state >> 12) % KEPT].swap(fresh);
        if (step % 3) continue;
        int next = (self + 1) % THREADS;
        {
            // A neighbour that is behind gets no more: the memory would depend on the scheduler.
            std::lock_guard<std::mutex> guard(locks[next]);
            if (inboxes[next].size() < 500) inboxes[next].push_back(std::move(fresh));
        }
        std::vector<std::string> mine;
        if (step % 300 == 0) {
            std::lock_guard<std::mutex> guard(locks[self]);
            mine.swap(inboxes[self]);
        }
    }
    kept.resize(KEPT / 3);
    left--;
    while (!over) rest();
}

int main(int, char **words) {
    std::filesystem::path folder(words[1]);
    std::signal(SIGTERM, [](int) { over = true; });
    std::puts("ready");
    std::fflush(stdout);
    while (!over && !std::filesystem::exists(folder / "go")) rest();
    std::atomic<int> left{THREADS};
    std::vector<std::thread> threads;
    for (int self = 0; self < THREADS; self++) threads.emplace_back(work, self, std::ref(left));
    while (!over && left > 0) rest();
    std::ofstream(folder / "done") << "\n";
    for (auto &thread : threads) thread.join();
}
