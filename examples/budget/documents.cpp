// A pool of threads indexes documents, one after the other: each makes a map from words to their places, counts, and drops the map.
// One map is alive at any time.
//
//   documents [WORDS of a document] [DOCUMENTS] [THREADS]
//
// Prints a sum that is the same under each allocator.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static unsigned long index_of(unsigned seed, int words) {
    std::map<std::string, std::vector<int>> places;
    for (int at = 0; at < words; at++) {
        seed = seed * 1664525u + 1013904223u;
        std::string word = "a word that is long enough not to be stored within the string itself " + std::to_string(seed % 1000000);
        places[word].push_back(at);
    }
    unsigned long sum = 0;
    for (auto &[word, found] : places) sum += word.size() * found.size();
    return sum;
}

int main(int count, char **arguments) {
    int words = count > 1 ? std::atoi(arguments[1]) : 60000;
    int documents = count > 2 ? std::atoi(arguments[2]) : 8;
    int threads = count > 3 ? std::atoi(arguments[3]) : 8;
    std::mutex lock;
    std::condition_variable next;
    int turn = 0;
    unsigned long sum = 0;
    std::vector<std::thread> pool;
    for (int me = 0; me < threads; me++)
        pool.emplace_back([&, me] {
            std::unique_lock<std::mutex> held(lock);
            for (;;) {
                next.wait(held, [&] { return turn >= documents || turn % threads == me; });
                if (turn >= documents) return;
                sum += index_of(static_cast<unsigned>(turn) + 1, words);
                turn++;
                next.notify_all();
            }
        });
    for (auto &thread : pool) thread.join();
    std::printf("%lu\n", sum);
}
