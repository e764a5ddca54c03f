// Containers that grow and shrink, for accuracy.py: what is left is the same in every run.
#include <cstdio>
#include <deque>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

[[gnu::noinline]] static void numbers(std::vector<std::vector<long>> &all) {
    for (int at = 0; at < 3000; at++) {
        all.emplace_back();
        for (int number = 0; number < at % 700; number++) all.back().push_back(number);
    }
}
[[gnu::noinline]] static void words(std::set<std::string> &all) {
    for (int at = 0; at < 120000; at++) all.insert("a word that is not short " + std::to_string(at));
    for (int at = 0; at < 120000; at += 5) all.erase("a word that is not short " + std::to_string(at));
}
[[gnu::noinline]] static void events(std::deque<std::unique_ptr<int[]>> &all) {
    for (int at = 0; at < 40000; at++) {
        all.push_back(std::make_unique<int[]>(20 + at % 200));
        if (at % 3 == 0) all.pop_front();
    }
}
[[gnu::noinline]] static void chain(std::list<double> &all) { all.assign(250000, 0.5); }

int main() {
    std::vector<std::vector<long>> vectors;
    std::set<std::string> set;
    std::deque<std::unique_ptr<int[]>> deque;
    std::list<double> list;
    numbers(vectors), words(set), events(deque), chain(list);
    std::puts("ready");
    std::fflush(stdout);
    pause();
}
