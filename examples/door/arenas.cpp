// A service with a thread for each connection: threads come and go, and each uses one of glibc's arenas (at most eight for each processor).
// Each request allocates blocks of random sizes, and one of 1,000 stays, as a session does.
//
// Usage: arenas PORT [trim]: trim calls malloc_trim every 5 s.

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <mutex>
#include <random>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::mutex lock;
static std::vector<std::string> sessions;

static size_t work(size_t size, unsigned long seed) {
    std::mt19937_64 random(seed);
    std::vector<std::string> blocks;
    for (size_t taken = 0; taken < size; taken += blocks.back().size()) {
        size_t bytes = size_t(32) << random() % 11;
        blocks.emplace_back(bytes + random() % bytes, 'x');
    }
    usleep(20000);
    for (auto &block : blocks) {
        if (random() % 1000 == 0) {
            std::lock_guard<std::mutex> guard(lock);
            sessions.push_back(std::move(block));
        }
    }
    return blocks.size();
}

static void serve(int connection) {
    char text[4096];
    for (ssize_t length; (length = read(connection, text, sizeof text - 1)) > 0;) {
        text[length] = 0;
        const char *size = strstr(text, "size="), *seed = strstr(text, "seed=");
        if (!size || !seed)
            break;
        std::string body = std::to_string(work(strtoul(size + 5, nullptr, 10), strtoul(seed + 5, nullptr, 10)));
        std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
        if (write(connection, answer.data(), answer.size()) < 0)
            break;
    }
    close(connection);
}

int main(int count, char **arguments) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(arguments[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) || listen(listener, 256))
        return perror("the port is not free"), 1;
    if (count > 2 && !strcmp(arguments[2], "trim"))
        std::thread([] {
            for (;; malloc_trim(0))
                sleep(5);
        }).detach();
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;)
        std::thread(serve, connection).detach();
}
