// A Go program whose work a service in Rust does, through cgo.
// In: a label, the number of threads, the number of requests for each; or `stats`. Out: one row of the table, or
// statistics in words.
//
// Go manages its own memory. The library counts and tunes the memory of the Rust code, and in the shared-heap variants
// also that of C.
package main

// The library itself is in CGO_LDFLAGS, which names the variant's archive (see the Makefile).

// #cgo CFLAGS: -I${SRCDIR}/..
// #include "allocanary.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"
)

// done is nil, or the message of the library's last error. The message belongs to the thread of the failed call, and
// the goroutine must still be on this thread. So main locks its thread.
func done(code C.AllocanaryCode) error {
	if code == C.ALLOCANARY_CODE_OK {
		return nil
	}
	var words [1024]byte
	C.allocanary_last_error((*C.char)(unsafe.Pointer(&words[0])), C.size_t(len(words)))
	return fmt.Errorf("code %d: %s", code, C.GoString((*C.char)(unsafe.Pointer(&words[0]))))
}

func statistics() (found C.AllocanaryStatistics, err error) {
	err = done(C.allocanary_statistics(&found))
	return found, err
}

func metrics() (string, error) {
	page := make([]byte, 4096)
	var length C.size_t
	err := done(C.allocanary_metrics((*C.char)(unsafe.Pointer(&page[0])), C.size_t(len(page)), &length))
	if err != nil {
		return "", err
	}
	return string(page[:length]), nil
}

func mib(bytes C.uint64_t) float64 { return float64(bytes) / (1 << 20) }

func number(at int, otherwise int) (int, error) {
	if len(os.Args) <= at {
		return otherwise, nil
	}
	return strconv.Atoi(os.Args[at])
}

// row runs the service. It prints the resident memory before, after, and after a purge.
func row() error {
	threads, err := number(2, 32)
	if err != nil {
		return err
	}
	requests, err := number(3, 500)
	if err != nil {
		return err
	}
	start, err := statistics()
	if err != nil {
		return err
	}
	if err := done(C.allocanary_service(C.uint32_t(threads), C.uint32_t(requests))); err != nil {
		return err
	}
	after, err := statistics()
	if err != nil {
		return err
	}
	if err := done(C.allocanary_purge()); err != nil {
		return err
	}
	purged, err := statistics()
	if err != nil {
		return err
	}
	var most C.uint32_t
	if err := done(C.allocanary_most_arenas(&most)); err != nil {
		return err
	}
	arenas := "no limit" // the meaning of 0
	if most > 0 {
		arenas = strconv.Itoa(int(most))
	}
	fmt.Printf("| %-15s | %-9s | %8s | %8.1f | %13.1f | %11.1f |\n", C.GoString(C.allocanary_variant()), os.Args[1], arenas,
		mib(start.resident_bytes), mib(after.resident_bytes), mib(purged.resident_bytes))
	return nil
}

// describe prints the metrics page while it holds a block. It checks that the block is counted, and that a wrong
// argument is reported.
func describe() error {
	block := C.allocanary_calloc(1000, 1000)
	if held := C.allocanary_requested_bytes(); held != 1000000 {
		return fmt.Errorf("1000000 bytes are held, and %d counted", held)
	}
	page, err := metrics()
	if err != nil {
		return err
	}
	fmt.Print(page)
	if err := done(C.allocanary_free(block)); err != nil {
		return err
	}
	if err := done(C.allocanary_set_decay(7, 0)); err == nil || err.Error() != "code 2: pages: wanted 0 or 1, found 7" {
		return fmt.Errorf("the error of a wrong argument is %v", err)
	}
	return done(C.allocanary_purge())
}

func main() {
	runtime.LockOSThread()
	work := row
	if len(os.Args) < 2 || os.Args[1] == "stats" {
		work = describe
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
