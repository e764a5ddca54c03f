// Ways to lose a block, to hold one, and to hide one. Each way has its own size of blocks, and prints it: size, count, what is true, and the
// way. Waits until its input ends; with an argument it ends at once, for tools that look for leaks at the end.
// Needs libway.so beside it (way_library.c): its path is the variable WAY_LIBRARY.
#include <any>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <obstack.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>
#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
#define APART __attribute__((noinline))

static size_t number = 20, size;

static APART void way(const char *truth, int count, const char *name) {
    size = 16 * ++number + 8;
    printf("%zu %d %s %s\n", size, count, truth, name);
}

static APART void *block() { return memset(malloc(size), 0x11, size); }

struct Node {
    Node *next, *before;
};

static APART Node *node(Node *next = nullptr, Node *before = nullptr) { return new (block()) Node{next, before}; }

// A page of memory of the program's own.
static void **page(int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1) {
    return (void **)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, flags, file, 0);
}

static void fill(void **words, int count) {
    for (int at = 0; at < count; at++) words[at] = block();
}

static int file(const char *name) {
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 8192)) exit(2);
    unlink(name);
    return file;
}

// ---- lost

static APART void lists() {
    way("lost", 1000, "heads of 20 lists of 50");
    for (int list = 0; list < 20; list++) {
        Node *head = nullptr;
        for (int at = 0; at < 50; at++) head = node(head);
    }
}

static APART void circles() {
    way("lost", 200, "100 circles of two");
    for (int at = 0; at < 100; at++) {
        Node *one = node();
        one->next = node(one);
    }
    way("lost", 50, "blocks that point to themselves");
    for (int at = 0; at < 50; at++) {
        Node *one = node();
        one->next = one;
    }
    way("lost", 100, "rings whose links point into blocks");
    for (int at = 0; at < 50; at++) {
        char *one = (char *)block(), *other = (char *)block();
        for (int link : {16, 24}) *(void **)(one + link) = other + 16, *(void **)(other + link) = one + 16;
    }
}

static APART Node *tree(int depth) {
    return depth ? node(tree(depth - 1), tree(depth - 1)) : nullptr;
}

static APART void freed() {
    way("lost", 127, "a tree");
    tree(7);
    way("lost", 50, "pointers in a freed block");
    void **words = (void **)malloc(2000);
    fill(words + 100, 50);
    free(words);
    free(malloc(8000));
}

static pthread_key_t key, keys[60];
static __thread void *volatile own[64];
static thread_local std::vector<void *> own_vector;

static void run(void *(*work)(void *), int times) {
    for (int at = 0; at < times; at++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, work, nullptr);
        pthread_join(thread, nullptr);
    }
}

static APART void ended() {
    way("lost", 50, "variables of ended threads");
    run([](void *) -> void * { fill((void **)own, 10); return nullptr; }, 5);
    way("lost", 20, "keys without destructor of ended threads");
    run([](void *) -> void * { pthread_setspecific(key, block()); return nullptr; }, 20);
    way("lost", 100, "stacks of ended threads");
    run([](void *) -> void * { void *volatile words[20]; fill((void **)words, 20); return words[3] ? nullptr : words[0]; }, 5);
}

static APART void gone() {
    way("lost", 50, "pointers in a mapping that was removed");
    void **words = page();
    fill(words, 50);
    munmap(words, 4096);
    way("lost", 50, "pointers in pages that were given back");
    static void **given;
    fill(given = page(), 50);
    madvise(given, 4096, MADV_DONTNEED);
    way("lost", 30, "variables of a library that was closed");
    void *library = dlopen(getenv("WAY_LIBRARY"), RTLD_NOW);
    if (!library) exit(2);
    fill((void **)dlsym(library, "way_global"), 30);
    dlclose(library);
}

static APART void texts() {
    way("lost", 40, "texts of strdup");
    std::string text(size - 1, 'x');
    for (int at = 0; at < 40; at++) strdup(text.c_str());
    way("lost", 30, "words of a vector after clear()");
    static std::vector<void *> words;
    for (int at = 0; at < 30; at++) words.push_back(block());
    words.clear();
    way("lost", 30, "words that a text has overwritten up to them");
    static std::string old(320, 'x');
    fill((void **)(old.data() + 16), 30);
    old.resize(5);
    way("lost", 100, "words of the buffer of a stream before it was one");
    void **buffer = (void **)malloc(1024);
    fill(buffer, 100);
    static FILE *stream = fopen("/dev/null", "w");
    setvbuf(stream, (char *)buffer, _IOFBF, 1024);
    fputs("text", stream);
}

// ---- held

static APART void pointers() {
    static void *inside[100], *last[100];
    static uintptr_t low[100], high[100], boxed[100];
    way("held", 100, "pointers to the middle");
    for (auto &one : inside) one = (char *)block() + size / 2;
    way("held", 100, "pointers to the last byte");
    for (auto &one : last) one = (char *)block() + size - 1;
    way("held", 100, "tags in the lowest bits");
    for (auto &one : low) one = (uintptr_t)block() | 3;
    way("held", 100, "tags in the highest 16 bits");
    uintptr_t tag = 0;
    for (auto &one : high) one = (uintptr_t)block() | (tag += 601) << 48;
    way("held", 100, "boxed as a NaN");
    for (auto &one : boxed) one = (uintptr_t)block() | 0xfffeull << 48;
}

static APART void mappings() {
    static void **maps[9];
    way("held", 100, "private mapping");
    fill(maps[0] = page(), 100);
    way("held", 100, "private mapping to which nothing points");
    fill(page(), 100);
    way("held", 100, "shared mapping");
    fill(maps[1] = page(MAP_SHARED | MAP_ANONYMOUS), 100);
    int memory = memfd_create("words", 0), other = memfd_create("more", 0);
    if (ftruncate(memory, 4096) || ftruncate(other, 4096)) exit(2);
    way("held", 100, "memfd");
    fill(maps[2] = page(MAP_SHARED, memory), 100);
    way("held", 100, "private mapping of a file");
    fill(maps[3] = page(MAP_PRIVATE, file("private")), 100);
    way("held", 100, "private mapping of a file, now read-only");
    fill(maps[4] = page(MAP_PRIVATE, file("private")), 100);
    mprotect(maps[4], 4096, PROT_READ);
    way("held", 100, "shared mapping of a file");
    fill(maps[5] = page(MAP_SHARED, file("shared")), 100);
    way("held", 100, "mapping that is read-only now");
    fill(maps[6] = page(), 100);
    mprotect(maps[6], 4096, PROT_READ);
    way("held", 100, "mapping without any right now");
    fill(maps[7] = page(), 100);
    mprotect(maps[7], 4096, PROT_NONE);
    way("held", 100, "memfd that is mapped read-only");
    maps[8] = (void **)mmap(nullptr, 4096, PROT_READ, MAP_SHARED, other, 0);
    void **written = page(MAP_SHARED, other);
    fill(written, 100);
    munmap(written, 4096);
    way("held", 100, "compiled code");
    static unsigned char *code;
    code = (unsigned char *)page();
    for (int at = 0; at < 100; at++) {
        void *one = block();
        memcpy(code + at * 11, "\x48\xb8", 2);
        memcpy(code + at * 11 + 2, &one, sizeof one);
    }
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    way("held", 50, "the middle of a large block");
    static void **large = (void **)malloc(300000);
    fill(large + 20000, 50);
}

static volatile int stage;

static void start(void *(*work)(void *)) {
    pthread_t thread;
    stage = 0;
    pthread_create(&thread, nullptr, work, nullptr);
    while (!stage) usleep(1000);
}

static APART void threads() {
    way("held", 50, "variables of the first thread");
    fill((void **)own, 50);
    way("held", 50, "vector of the first thread");
    for (int at = 0; at < 50; at++) own_vector.push_back(block());
    way("held", 60, "60 keys of the first thread");
    for (auto &one : keys) pthread_key_create(&one, nullptr), pthread_setspecific(one, block());
    way("held", 30, "variables of a thread, of a library that was opened");
    void *library = dlopen(getenv("WAY_LIBRARY"), RTLD_NOW);
    fill(((void **(*)())dlsym(library, "way_own"))(), 30);
    way("held", 20, "stack of a thread that waits");
    start([](void *) -> void * {
        void *volatile words[20];
        fill((void **)words, 20);
        for (stage = 1;;) pause();
        return words[0];
    });
    way("held", 42, "variables, a vector and keys of another thread");
    start([](void *) -> void * {
        fill((void **)own, 20);
        for (int at = 0; at < 20; at++) own_vector.push_back(block());
        pthread_setspecific(keys[5], block()), pthread_setspecific(keys[50], block());
        for (stage = 1;;) pause();
    });
    way("held", 10, "values of ended threads that nobody joined");
    static pthread_t all[10];
    for (auto &one : all) pthread_create(&one, nullptr, [](void *) { return block(); }, nullptr);
    usleep(300000);
}

static void *volatile given;

static APART void registers() {
    way("register", 5, "a register of a thread that waits");
    for (int at = 0; at < 5; at++) {
        pthread_t thread;
        given = block();
        pthread_create(&thread, nullptr, [](void *) -> void * {
            asm volatile("mov %0,%%r12\n movq $0,%0\n xor %%rdi,%%rdi\n 1: mov $34,%%eax\n syscall\n jmp 1b" : "+m"(given)::"r12", "rdi", "rax", "rcx", "r11", "memory");
            return nullptr;
        }, nullptr);
        while (given) usleep(1000);
    }
}

static ucontext_t outside, contexts[2];

static void suspended() {
    void *volatile words[20];
    fill((void **)words, 20);
    swapcontext(&contexts[stage], &outside);
    asm volatile("" ::"r"(words) : "memory");
}

static APART void suspend(int which, void *stack) {
    stage = which;
    getcontext(&contexts[which]);
    contexts[which].uc_stack.ss_sp = stack, contexts[which].uc_stack.ss_size = 65536;
    makecontext(&contexts[which], suspended, 0);
    swapcontext(&outside, &contexts[which]);
}

static APART void coroutines() {
    way("held", 20, "stack of a coroutine, in a mapping");
    suspend(0, mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    way("held", 20, "stack of a coroutine, in a block");
    suspend(1, malloc(65536));
}

static APART void containers() {
    static std::vector<std::function<void *()>> functions;
    static std::unordered_map<int, void *> table;
    static std::map<std::string, void *> tree;
    static std::any any;
    way("held", 50, "captures of std::function");
    for (int at = 0; at < 50; at++) functions.push_back([one = block(), text = std::string(40, 's')] { return one; });
    way("held", 150, "unordered_map, map, any");
    for (int at = 0; at < 50; at++) table[at] = block(), tree[std::string(30, 'k') + std::to_string(at)] = block();
    std::vector<void *> words;
    for (int at = 0; at < 50; at++) words.push_back(block());
    any = words;
    way("held", 100, "tree of tsearch");
    static void *root;
    for (int at = 0; at < 100; at++) tsearch(block(), &root, [](const void *one, const void *other) { return one < other ? -1 : one > other; });
    way("held", 50, "list with its links inside of the blocks");
    static Node head{&head, &head};
    for (int at = 0; at < 50; at++) {
        Node *one = (Node *)((char *)block() + 24);
        *one = {head.next, &head};
        head.next = head.next->before = one;
    }
    way("held", 50, "objects of an obstack");
    static obstack stack;
    obstack_init(&stack);
    for (int at = 0; at < 50; at++) *(void **)obstack_alloc(&stack, 200) = block();
    way("held", 50, "the program's own sbrk");
    fill((void **)sbrk(65536), 50);
    way("held", 10, "arguments of on_exit");
    for (int at = 0; at < 10; at++) on_exit([](int, void *) {}, block());
}

static APART void kernel() {
    way("held", 50, "data of epoll");
    int epoll = epoll_create1(0);
    for (int at = 0; at < 50; at++) {
        epoll_event event{EPOLLIN, {block()}};
        epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(0, 0), &event);
    }
    way("held", 20, "values of timers");
    for (int at = 0; at < 20; at++) {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = SIGUSR1, event.sigev_value.sival_ptr = block();
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
    }
}

// ---- hidden: held, and nobody can see it

static APART void hidden() {
    static uintptr_t shifted[100], inverted[100], mixed[100];
    static uint32_t short_ones[100];
    static struct __attribute__((packed)) { char tag; void *one; } packed[100];
    static void *before[50];
    way("hidden", 100, "shifted by 16 bits");
    for (auto &one : shifted) one = (uintptr_t)block() << 16 | 7;
    way("hidden", 100, "inverted");
    for (auto &one : inverted) one = ~(uintptr_t)block();
    way("hidden", 100, "combined by XOR");
    for (auto &one : mixed) one = (uintptr_t)block() ^ 0x5a5a5a5a5a5a5a5aull;
    way("hidden", 100, "shortened to 32 bits");
    for (auto &one : short_ones) one = (uintptr_t)block() >> 4;
    way("hidden", 88, "of 100 in packed structures, 88 are not aligned");
    for (auto &one : packed) one.one = block();
    way("hidden", 50, "pointers before the block");
    for (auto &one : before) one = (char *)block() - 64;
    way("hidden", 20, "in a pipe");
    int ends[2];
    if (pipe(ends)) exit(2);
    for (int at = 0; at < 20; at++) {
        void *one = block();
        if (write(ends[1], &one, sizeof one) < 0) exit(2);
    }
    size = 16384 + 8;
    printf("%zu 1 hidden stack of signal handlers\n", size);
    stack_t stack{block(), 0, 16384};
    sigaltstack(&stack, nullptr);
}

// What a function leaves on the stack can hold a block.
static APART void clear() {
    volatile char stack[400000];
    memset((char *)stack, 0, sizeof stack);
}

int main(int count, char **) {
    pthread_key_create(&key, nullptr);
    for (auto step : {lists, circles, freed, ended, gone, texts, pointers, mappings, threads, registers, coroutines, containers, kernel, hidden}) step();
    clear();
    puts("end");
    fflush(stdout);
    if (count > 1) return 0;
    return getchar() == 0;
}
