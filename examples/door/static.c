// A service in C with a thread for each connection, for a static program on musl. Of the blocks of a request one in 1,000 stays.
// Usage: static PORT

#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *kept[100000];
static unsigned next_kept;

static size_t work(size_t size, unsigned seed) {
    size_t count = 0, room = size / 32 + 1;
    void **blocks = malloc(room * sizeof *blocks);
    for (size_t taken = 0; taken < size && count < room; count++) {
        size_t bytes = (size_t)32 << rand_r(&seed) % 11;
        bytes += rand_r(&seed) % bytes;
        blocks[count] = malloc(bytes);
        memset(blocks[count], 'x', bytes);
        taken += bytes;
    }
    usleep(20000);
    for (size_t i = 0; i < count; i++)
        if (rand_r(&seed) % 1000)
            free(blocks[i]);
        else
            kept[__atomic_fetch_add(&next_kept, 1, __ATOMIC_RELAXED) % 100000] = blocks[i];
    free(blocks);
    return count;
}

static void *serve(void *argument) {
    int connection = (intptr_t)argument;
    char text[4096], answer[200];
    for (ssize_t length; (length = read(connection, text, sizeof text - 1)) > 0;) {
        text[length] = 0;
        char *size = strstr(text, "size="), *seed = strstr(text, "seed=");
        if (!size || !seed)
            break;
        char body[32];
        int bytes = snprintf(body, sizeof body, "%zu", work(strtoul(size + 5, NULL, 10), strtoul(seed + 5, NULL, 10)));
        int all = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", bytes, body);
        if (write(connection, answer, all) < 0)
            break;
    }
    close(connection);
    return NULL;
}

int main(int count, char **arguments) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[count - 1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 256))
        return perror("the port is not free"), 1;
    for (int connection; (connection = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, serve, (void *)(intptr_t)connection))
            pthread_detach(thread);
    }
}
