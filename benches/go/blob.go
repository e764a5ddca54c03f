// `blob`: builds the trees of large values, as allocanary's workload of that name does. The buffers are new for each value, new for each
// node, or never new. In: sizes. Out: marks, the time of each blob, the numbers of allocated objects and bytes.
package main

import (
	"fmt"
	"runtime/metrics"
	"time"
)

var blob = workload{
	name:      "blob",
	about:     "builds hashed trees of large values, buffers anew for each, partly kept, or all kept",
	operation: "blob",
	parameters: []parameter{
		{"variant", choice("naive", "reuse", "ours"), "ours", "naive: all buffers anew; reuse: one for each node; ours: none"},
		{"size", size(1), "100000", "bytes of a blob"},
		{"blobs", count, "1000", "blobs built in all, shared among the threads"},
		{"input", choice("repeating", "random"), "repeating", "repeating: byte i is i mod 256; random: by the seed"},
		{"settle", wait, "50ms", "rest before `idle` is read"},
	},
	seconds:   0.25,
	growsWith: []string{"size", "blobs"},
	run:       runBlob,
}

func input(kind string, size int, seed uint64) []byte {
	data, state := make([]byte, size), rng(seed)
	for at := range data {
		data[at] = byte(at)
		if kind == "random" {
			data[at] = byte(state.next())
		}
	}
	return data
}

func (tree *builder) heldBytes() uint64 {
	held := cap(tree.message)
	for _, level := range tree.levels {
		held += cap(level.addresses) + 8*cap(level.counts)
	}
	return uint64(held)
}

// allocated is how many objects and bytes the runtime has allocated so far.
func allocated() (objects, bytes uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

func runBlob(setup *setup) (outcome, error) {
	size, variant := setup.number("size"), setup.parameters["variant"]
	share := max(setup.number("blobs")/setup.threads, 1)
	data := input(setup.parameters["input"], size, setup.seed)
	wanted := (&builder{keepMessage: true}).build(data)
	kept := make([]*builder, setup.threads)
	wrong := make([]int, setup.threads)
	one := func(worker int) {
		tree := kept[worker]
		if tree == nil {
			tree = &builder{}
		}
		if tree.build(data) != wanted {
			wrong[worker]++
		}
	}
	setup.crew(func(worker int) {
		if variant != "naive" {
			kept[worker] = &builder{keepMessage: variant == "ours"}
		}
		one(worker)
	})
	live := uint64(size)
	for _, tree := range kept {
		if tree != nil {
			live += tree.heldBytes()
		}
	}
	setup.board.mark("filled", live)
	objects, bytes := allocated()
	active := setup.crew(func(worker int) {
		laps := stopwatch{setup: setup}
		for at := 0; at < share; at++ {
			started := time.Now()
			one(worker)
			laps.lap(started)
		}
		laps.handOn()
	})
	objectsNow, bytesNow := allocated()
	for _, count := range wrong {
		if count > 0 {
			return outcome{}, fmt.Errorf("the root of a blob built from the same bytes: %d differ", count)
		}
	}
	setup.board.mark("peak", live)
	setup.rest("settle", live)
	data, kept = nil, nil
	setup.board.mark("released", 0)
	setup.board.mark("purged", 0)
	operations := uint64(share * setup.threads)
	notes := map[string]uint64{"work_allocations": objectsNow - objects, "work_allocated_bytes": bytesNow - bytes}
	return outcome{operations: operations, active: active, timedEvery: 1, verified: operations, notes: notes}, nil
}
