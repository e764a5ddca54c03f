// The board records the readings of all moments, under the names that allocanary's meters give them. In: this process.
// Out: a column for each reading.
package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"syscall"
)

type board struct {
	moments  []string
	live     []uint64
	readings []map[string]int64
	heap     []metrics.Sample
}

func newBoard() *board {
	names := []string{
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes",
		"/memory/classes/heap/released:bytes", "/memory/classes/metadata/mcache/inuse:bytes",
		"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/other:bytes",
		"/gc/cycles/total:gc-cycles",
	}
	board := &board{}
	for _, name := range names {
		board.heap = append(board.heap, metrics.Sample{Name: name})
	}
	return board
}

// mark reads all meters. Before the moment `purged` the runtime collects and gives back all memory that it can.
func (board *board) mark(moment string, liveBytes uint64) {
	if moment == "purged" {
		debug.FreeOSMemory()
	}
	readings := map[string]int64{}
	fields(readings, "/proc/self/status", map[string]string{
		"VmRSS:": "resident_bytes", "VmHWM:": "peak_resident_bytes", "RssAnon:": "anonymous_bytes", "VmSize:": "vsz_bytes",
		"Threads:": "threads",
	})
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		readings["minor_faults"], readings["major_faults"] = usage.Minflt, usage.Majflt
		readings["user_us"], readings["system_us"] = usage.Utime.Nano()/1000, usage.Stime.Nano()/1000
	}
	board.readHeap(readings)
	fields(readings, "/proc/self/smaps_rollup", map[string]string{
		"Rss:": "smaps_resident_bytes", "Pss:": "pss_bytes", "LazyFree:": "lazy_free_bytes", "AnonHugePages:": "anonymous_huge_bytes",
	})
	board.moments = append(board.moments, moment)
	board.live = append(board.live, liveBytes)
	board.readings = append(board.readings, readings)
}

// readHeap records where the runtime's memory is, as the runtime reports it. Unlike ReadMemStats, it does not stop the
// world.
func (board *board) readHeap(readings map[string]int64) {
	metrics.Read(board.heap)
	value := func(at int) int64 {
		if board.heap[at].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return int64(board.heap[at].Value.Uint64())
	}
	objects, unused, free, released := value(0), value(1), value(2), value(3)
	readings["allocator_allocated_bytes"] = objects
	readings["allocator_active_bytes"] = objects + unused
	readings["allocator_resident_bytes"] = objects + unused + free
	readings["allocator_retained_bytes"] = released
	readings["allocator_metadata_bytes"] = value(4) + value(5) + value(6)
	readings["gc_cycles"] = value(7)
}

// fields records the numbers of a /proc file under their names. It converts kB to bytes.
func fields(readings map[string]int64, path string, names map[string]string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for _, line := range bytes.Split(text, []byte{'\n'}) {
		words := bytes.Fields(line)
		if len(words) < 2 {
			continue
		}
		name, wanted := names[string(words[0])]
		number, err := strconv.ParseInt(string(words[1]), 10, 64)
		if !wanted || err != nil {
			continue
		}
		if len(words) > 2 {
			number *= 1024
		}
		readings[name] = number
	}
}

// byName returns a column for each reading that any moment has. A value is null if the meter had none.
func (board *board) byName() map[string][]*int64 {
	columns := map[string][]*int64{}
	for at, readings := range board.readings {
		for name, value := range readings {
			if columns[name] == nil {
				columns[name] = make([]*int64, len(board.readings))
			}
			value := value
			columns[name][at] = &value
		}
	}
	return columns
}
