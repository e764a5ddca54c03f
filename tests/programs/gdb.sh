# gdb with its Python: symbols, a breakpoint, frames and values of a program with threads.
packages="gdb gcc libc6-dev"
program() { readlink -f "$(command -v gdb)"; }
version() { gdb --version | awk 'NR == 1 { print $NF }'; }
run() {
    cat > all.c << 'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
struct node { int value; struct node *next; };
static int deep(struct node *list, int left) {
    if (left == 0) return list->value;
    return deep(list->next, left - 1) + 1;
}
static void *work(void *place) { return place; }
int main(void) {
    struct node *list = NULL;
    for (int i = 0; i < 50; i++) {
        struct node *more = malloc(sizeof *more);
        more->value = i;
        more->next = list;
        list = more;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    printf("%d\n", deep(list, 5));
    return 9;
}
C
    cat > script << 'GDB'
set pagination off
set confirm off
set debuginfod enabled off
set print thread-events off
break deep if left == 0
run > inferior.out
backtrace -frame-arguments none
print list->value
ptype struct node
up 2
info locals
python
frame = gdb.newest_frame()
depth = 0
while frame:
    depth, frame = depth + 1, frame.older()
print("depth", depth, sum(len(str(number)) for number in range(20000)))
end
continue
print $_exitcode
quit 5
GDB
    gcc -g -O0 -pthread all.c -o all
    gdb -q -nx -batch -x script ./all 2> gdb.log | grep -E '^(#|\$|depth|type|    |No|}|\[Inferior)' | sed 's/0x[0-9a-f]*/ADDRESS/g; s/process [0-9]*/process/'
    echo "gdb ${PIPESTATUS[0]}"
    cat inferior.out
}
