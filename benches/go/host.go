// The origin of the numbers: this build and this host, in the fields that every row has. In: the running executable,
// and /proc. Out: a value in every row.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/bits"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

type provenance struct {
	Build object `json:"build"`
	Host  object `json:"host"`
}

func here() provenance { return provenance{thisBuild(), thisHost()} }

func thisBuild() object {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
				revision = setting.Value[:12]
			}
		}
	}
	// The hash of the executable. Two hashes are equal only if sources, compiler and flags are equal.
	id := "unknown"
	if file, err := os.Open("/proc/self/exe"); err == nil {
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err == nil {
			id = hex.EncodeToString(sum.Sum(nil)[:8])
		}
	}
	return object{
		"package": "cell-go", "version": runtime.Version(), "revision": revision, "id": id,
		"rustc": "go " + runtime.Version(), "profile": "go build -trimpath",
		"target": runtime.GOOS + "/" + runtime.GOARCH,
	}
}

func thisHost() object {
	memory := map[string]int64{}
	fields(memory, "/proc/meminfo", map[string]string{"MemTotal:": "total"})
	thp := "unknown"
	if _, rest, found := strings.Cut(text("/sys/kernel/mm/transparent_hugepage/enabled"), "["); found {
		thp, _, _ = strings.Cut(rest, "]")
	}
	model := "unknown"
	for _, line := range strings.Split(text("/proc/cpuinfo"), "\n") {
		if name, value, found := strings.Cut(line, ": "); found && strings.HasPrefix(name, "model name") {
			model = value
			break
		}
	}
	affinity := affinity()
	return object{
		"name": line("/proc/sys/kernel/hostname"), "kernel": line("/proc/sys/kernel/osrelease"), "cpu": model,
		"cores": countList(line("/sys/devices/system/cpu/online")), "affinity": affinity,
		"parallelism": runtime.GOMAXPROCS(0), "memory_bytes": memory["total"], "page_bytes": os.Getpagesize(), "thp": thp,
	}
}

func text(path string) string {
	bytes, _ := os.ReadFile(path)
	return string(bytes)
}

func line(path string) string {
	first, _, _ := strings.Cut(text(path), "\n")
	if first == "" {
		return "unknown"
	}
	return first
}

// affinity is the number of processors on which the scheduler lets this process run.
func affinity() int {
	var mask [128]uint64
	_, _, errno := syscall.RawSyscall(
		syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)),
	)
	count := 0
	for _, word := range mask {
		count += bits.OnesCount64(word)
	}
	if errno != 0 || count == 0 {
		return 1
	}
	return count
}

// countList is the number of numbers in a kernel list such as `0-3,8`; at least 1.
func countList(list string) int {
	count := 0
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(first)
		high := low
		if isRange && err == nil {
			high, err = strconv.Atoi(last)
		}
		if err == nil && high >= low {
			count += high - low + 1
		}
	}
	if count == 0 {
		return 1
	}
	return count
}

// dieWithParent asks the kernel to kill this process when its parent dies.
func dieWithParent() {
	const setDeathSignal = 1 // PR_SET_PDEATHSIG
	runtime.LockOSThread()   // the kernel watches the thread that makes the request
	syscall.RawSyscall(syscall.SYS_PRCTL, setDeathSignal, uintptr(syscall.SIGKILL), 0)
}
