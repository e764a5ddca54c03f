// A server's threads: each handles requests with strings and maps, then waits for the next in poll. Prints a sum and the
// anonymous resident memory in KiB some time after the last request. Arguments: the threads, 8 by default, and that time in
// milliseconds, 1500 by default.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

static long handle(int request) {
    std::map<std::string, std::vector<char>> table;
    for (int i = 0; i < 400; i++) table["key " + std::to_string(request * 31 + i)] = std::vector<char>(64 + i * 37 % 6000, 'x');
    long sum = 0;
    for (auto &entry : table) sum += entry.first.size() + entry.second.size();
    return sum;
}

int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 8, pause = count > 2 ? atoi(words[2]) : 1500;
    std::vector<std::thread> running;
    std::vector<int> ours;
    std::vector<long> sums(threads);
    for (int t = 0; t < threads; t++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
        ours.push_back(ends[0]);
        running.emplace_back([t, end = ends[1], &sums] {
            char request;
            for (;;) {
                pollfd file{end, POLLIN, 0};
                if (poll(&file, 1, -1) != 1 || read(end, &request, 1) != 1 || request == 'q') return;
                sums[t] += handle(request);
                if (write(end, "a", 1) != 1) return;
            }
        });
    }
    for (int round = 0; round < 50; round++) {
        char request = char(round), answer;
        for (int end : ours) if (write(end, &request, 1) != 1) return 1;
        for (int end : ours) if (read(end, &answer, 1) != 1) return 1;
    }
    usleep(pause * 1000);
    long kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "RssAnon: %ld", &kib);
    for (int end : ours) if (write(end, "q", 1) != 1) return 1;
    for (auto &thread : running) thread.join();
    long sum = 0;
    for (long part : sums) sum += part;
    printf("%ld %ld\n", sum, kib);
}
