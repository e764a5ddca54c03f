// An HTTP service in Go whose requests work in C, as those do that call a database's or an image library's C code.
//
// Usage: door PORT [trim]. /free calls debug.FreeOSMemory; trim calls malloc_trim every 5 s.
package main

/*
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Blocks of random sizes that have `size` bytes in all, held for 20 ms. One of 2,000 stays. Returns how many there were.
static long work(long size, unsigned long random) {
	long most = size / 32 + 1, count = 0;
	char **blocks = malloc(most * sizeof *blocks);
	random = random * 2 + 1;
#define NEXT() (random = random * 6364136223846793005UL + 1442695040888963407UL, random >> 33)
	for (long taken = 0; taken < size; count++) {
		long bytes = 32L << NEXT() % 11;
		bytes += NEXT() % bytes;
		blocks[count] = malloc(bytes);
		memset(blocks[count], 1, bytes);
		taken += bytes;
	}
	usleep(20000);
	for (long i = 0; i < count; i++)
		if (NEXT() % 2000)
			free(blocks[i]);
	free(blocks);
	return count;
}
*/
import "C"

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

func main() {
	http.HandleFunc("/request", func(answer http.ResponseWriter, request *http.Request) {
		size, _ := strconv.Atoi(request.FormValue("size"))
		seed, _ := strconv.Atoi(request.FormValue("seed"))
		// A little work in Go as well.
		text := make([]byte, size/16)
		count := C.work(C.long(size), C.ulong(seed))
		fmt.Fprintln(answer, int(count)+len(text))
	})
	http.HandleFunc("/free", func(answer http.ResponseWriter, request *http.Request) {
		debug.FreeOSMemory()
	})
	if len(os.Args) > 2 && os.Args[2] == "trim" {
		go func() {
			for range time.Tick(5 * time.Second) {
				C.malloc_trim(0)
			}
		}()
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
