// A coroutine with a stack of 8 KiB that calls each function of the malloc family; the first one is the program's first. argument: bytes.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096 };
static ucontext_t first, other;

static void allocates(void) {
    for (int at = 0; at < 2000; at++) {
        char *volatile block = malloc(at * 13 + 1);
        block[0] = 1;
        block = realloc(block, at * 17 + 1);
        free(block);
        block = calloc(1, at * 3 + 1);
        free(block);
        void *aligned = NULL;
        if (posix_memalign(&aligned, 64, at + 1)) exit(1);
        free(aligned);
    }
}

int main(int count, char **words) {
    size_t size = count > 1 ? strtoul(words[1], NULL, 10) : 2 * PAGE;
    char *stack = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack, PAGE, PROT_NONE);
    getcontext(&other);
    other.uc_stack.ss_sp = stack + PAGE;
    other.uc_stack.ss_size = size;
    other.uc_link = &first;
    makecontext(&other, allocates, 0);
    swapcontext(&first, &other);
    puts("ok");
    return 0;
}
