// Goroutines that call C and keep a thread each, as cgo calls with a state do. Each gives its thread's memory in C back before a long wait.
// In: the number of goroutines; ALLOCANARY_THREADS_GIVE_BACK=false turns the hook off. Out: requests per second, and resident MiB when
// idle.
package main

// #cgo CFLAGS: -I${SRCDIR}/../..
// #include <string.h>
// #include "allocanary.h"
//
// static int request(unsigned seed) {
//     void *blocks[32];
//     for (int at = 0; at < 32; at++) {
//         seed = seed * 1664525u + 1013904223u;
//         size_t size = (size_t)16 << (seed >> 16) % 12;
//         if ((blocks[at] = allocanary_calloc(1, size)) == NULL) return 1;
//         memset(blocks[at], at + 1, size);
//     }
//     for (int at = 0; at < 32; at++) {
//         if (*(char *)blocks[at] != at + 1 || allocanary_free(blocks[at]) != ALLOCANARY_CODE_OK) return 1;
//     }
//     return 0;
// }
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

const load = time.Second

// next waits for a request, at first for 100 ms. Then it gives the thread's memory back, and waits until a request comes.
func next(requests <-chan uint32) (uint32, bool) {
	short := time.NewTimer(100 * time.Millisecond)
	defer short.Stop()
	select {
	case number, ok := <-requests:
		return number, ok
	case <-short.C:
		C.allocanary_thread_idle(nil) // the hook
		number, ok := <-requests
		return number, ok
	}
}

func main() {
	workers := 32
	if len(os.Args) > 1 {
		number, err := strconv.Atoi(os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		workers = number
	}
	requests := make(chan uint32)
	var served atomic.Uint64
	for worker := 0; worker < workers; worker++ {
		go func() {
			runtime.LockOSThread()
			for {
				number, ok := next(requests)
				if !ok {
					return
				}
				if C.request(C.uint(number)) != 0 {
					panic("a block was lost or overwritten")
				}
				served.Add(1)
			}
		}()
	}
	until := time.Now().Add(load)
	for number := uint32(0); time.Now().Before(until); number++ {
		requests <- number
	}
	count := served.Load()
	time.Sleep(time.Second)
	var found C.AllocanaryStatistics
	if C.allocanary_statistics(&found) != C.ALLOCANARY_CODE_OK {
		os.Exit(1)
	}
	fmt.Printf("%d %.1f\n", count, float64(found.resident_bytes)/(1<<20))
}
