// A service that forgets its jobs, beside a table of names that does not grow after 5,000.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace app {
struct Job {
    virtual ~Job() {}
    char body[100];
};
struct Mail : Job {
    std::string to;
};
}

std::map<int, std::string> g_recent;

int main() {
    std::vector<std::unique_ptr<app::Job>> queue;
    for (int number = 1;; number++) {
        queue.emplace_back(new app::Job);
        if (queue.size() > 100) {
            queue.front().release(); // forgotten
            queue.erase(queue.begin());
        }
        g_recent[number % 5000] = "a recent name that is long enough for a block of its own " + std::to_string(number);
        if (number % 3 == 0) {
            auto mail = std::make_unique<app::Mail>();
            mail->to = std::string(60, 'x');
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}
