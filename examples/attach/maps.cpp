// Four threads fill maps of strings and check them; exceptions are thrown. The first thread prints a line each second.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

static std::atomic<long> rounds, wrong;

static void works(unsigned seed) {
    std::map<unsigned, std::string> kept;
    for (;;) {
        unsigned key = (seed = seed * 1103515245u + 12345u) >> 16 & 1023;
        std::string wanted = std::to_string(key) + std::string(key % 300, 'x');
        try {
            auto found = kept.find(key);
            if (found == kept.end()) throw std::runtime_error(wanted);
            if (found->second != wanted) wrong++;
            kept.erase(found);
        } catch (const std::runtime_error &error) {
            kept[key] = error.what();
        }
        if (++rounds % 1024 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

int main() {
    for (unsigned seed = 1; seed <= 4; seed++) std::thread(works, seed).detach();
    for (;;) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        std::printf("rounds=%ld wrong=%ld\n", rounds.load(), wrong.load());
        std::fflush(stdout);
    }
}
