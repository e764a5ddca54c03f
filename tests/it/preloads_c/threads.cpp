// Threads that pass blocks to each other, exceptions, and libraries that are opened and closed. Prints a sum.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static std::condition_variable changed;
static std::deque<std::unique_ptr<std::string>> queue;
static bool ended;

struct alignas(256) Wide { char bytes[256]; };

int main() {
    std::vector<std::thread> threads;
    long sum[4] = {};
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([i, &sum] {
            for (;;) {
                std::unique_lock<std::mutex> held(lock);
                changed.wait(held, [] { return ended || !queue.empty(); });
                if (queue.empty()) return;
                auto text = std::move(queue.front());
                queue.pop_front();
                held.unlock();
                try {
                    std::map<int, std::string> copies;
                    for (int c = 0; c < 10; c++) copies[c] = *text + std::to_string(c);
                    if (text->size() % 3 == 0) throw std::runtime_error(*text);
                    sum[i] += text->size();
                } catch (const std::runtime_error &error) {
                    sum[i] += std::string(error.what()).size();
                }
            }
        });
    }
    for (int i = 0; i < 20000; i++) {
        auto text = std::make_unique<std::string>(i % 500 + 1, 'x');
        std::lock_guard<std::mutex> held(lock);
        queue.push_back(std::move(text));
        changed.notify_one();
    }
    // A child of a process with threads. It allocates and exits at once, because other threads of the parent may have
    // held the C library's own locks.
    for (int n = 0; n < 20; n++) {
        pid_t child = fork();
        if (child == 0) {
            std::vector<std::string> texts(1000, std::string(100 + n, 'y'));
            _exit(texts.size() == 1000 ? 0 : 1);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    {
        std::lock_guard<std::mutex> held(lock);
        ended = true;
    }
    changed.notify_all();
    for (auto &thread : threads) thread.join();
    for (int n = 0; n < 3; n++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (!library || dlclose(library)) return 3;
    }
    pid_t child = fork();
    if (child == 0) exit(0);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 4;
    auto wide = std::make_unique<Wide[]>(10);
    if (reinterpret_cast<uintptr_t>(wide.get()) % 256) return 2;
    printf("%ld\n", sum[0] + sum[1] + sum[2] + sum[3]);
}
