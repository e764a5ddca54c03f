# The C++ compiler, its assembler and linker, and the program that they make: templates, exceptions, threads.
packages="g++"
program() { "$(readlink -f "$(command -v g++)")" -print-prog-name=cc1plus; }
version() { g++ -dumpfullversion; }
run() {
    cat > all.cpp << 'CPP'
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

template <int N> struct Sum { static constexpr long value = N + Sum<N - 1>::value; };
template <> struct Sum<0> { static constexpr long value = 0; };

struct alignas(64) Line { char bytes[64]; };

static long work(int n) {
    std::map<std::string, std::shared_ptr<std::vector<int>>> all;
    for (int i = 0; i < 5000; i++) {
        auto &place = all["key" + std::to_string(i * n % 977)];
        if (!place) place = std::make_shared<std::vector<int>>();
        place->push_back(i);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::vector<std::unique_ptr<Line>> lines;
    for (int i = 0; i < 500; i++) lines.push_back(std::make_unique<Line>());
    long sum = 0;
    for (auto &[key, value] : all) sum += key.size() * value->size();
    for (auto &line : lines) sum += reinterpret_cast<unsigned long>(line.get()) % 64;
    try {
        if (n % 2) throw std::runtime_error("odd " + std::to_string(n));
    } catch (const std::exception &error) { sum += std::string(error.what()).size(); }
    return sum;
}

int main() {
    std::vector<std::future<long>> sums;
    for (int n = 1; n <= 16; n++) sums.push_back(std::async(std::launch::async, work, n));
    for (auto &sum : sums) std::cout << sum.get() << ' ';
    std::string text = "a1b22c333";
    std::regex digits("[0-9]+");
    std::cout << std::regex_replace(text, digits, "#") << ' ' << Sum<400>::value << '\n';
    return 3;
}
CPP
    g++ -std=c++17 -O1 -g -pthread -S all.cpp -o all.s
    echo "compiled $?"
    cksum < all.s
    g++ -pthread all.s -o all
    ./all
    echo "ran $?"
    echo 'int main() { return x; }' > wrong.cpp
    g++ -c wrong.cpp 2>&1 | grep -c "not declared"
}
