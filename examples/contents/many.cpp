// Five blocks for each of N entries (default 400,000): a map of texts, a hash table of vectors, a list. 5,000 blocks are lost.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

std::map<long, std::string> g_texts;
std::unordered_map<long, std::vector<long>> g_vectors;
std::list<long> g_list;

__attribute__((noinline)) void lose() {
    for (int at = 0; at < 5000; at++) {
        char *block = new char[48];
        memset(block, at, 48);
        __asm__ volatile("" ::"r"(block));
    }
}

__attribute__((noinline)) void clear() {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof stack);
}

int main(int count, char **words) {
    long entries = count > 1 ? atol(words[1]) : 400000;
    for (long at = 0; at < entries; at++) {
        g_texts[at * 7919 % entries] = "the value of key " + std::to_string(at);
        g_vectors[at] = std::vector<long>(4, at);
        g_list.push_back(at);
    }
    lose();
    clear();
    puts("lost=5000");
    fflush(stdout);
    return getchar() == 0;
}
