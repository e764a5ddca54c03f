// `list`: a linked list of many small nodes, with an allocation for each node or in an arena. In: nodes. Out: marks, and
// the time for building, walking and freeing it.
package main

import (
	"fmt"
	"runtime"
	"time"
)

var list = workload{
	name:      "list",
	about:     "each thread builds, walks and frees a linked list of nodes of 16 bytes",
	operation: "node",
	parameters: []parameter{
		{"variant", choice("boxes", "arena"), "boxes", "boxes: new(node) for each; arena: nodes cut from slices"},
		{"nodes", count, "2000001", "nodes in all, shared among the threads"},
		{"settle", wait, "50ms", "rest before `idle` is read"},
	},
	seconds:   0.2,
	growsWith: []string{"nodes"},
	run:       runList,
}

// node is 16 bytes, as in the published demo.
type node struct {
	value uint64
	next  *node
}

// arena hands out nodes from slices whose size doubles, as with Go's append, but it copies no nodes.
type arena struct {
	chunk []node
	next  int
}

func (arena *arena) node() *node {
	if len(arena.chunk) == cap(arena.chunk) {
		arena.next = min(max(arena.next*2, 1024), 1<<20)
		arena.chunk = make([]node, 0, arena.next)
	}
	arena.chunk = arena.chunk[:len(arena.chunk)+1]
	return &arena.chunk[len(arena.chunk)-1]
}

func runList(setup *setup) (outcome, error) {
	nodes, variant := setup.number("nodes"), setup.parameters["variant"]
	roots := make([]*node, setup.threads)
	wrong := make([]bool, setup.threads)
	live := uint64(nodes) * 16
	active := setup.crew(func(worker int) {
		var arena arena
		var tail *node
		laps := stopwatch{setup: setup}
		for at := 0; at < setup.share(nodes, worker); at++ {
			started, timed := time.Time{}, at%timedEvery == 0
			if timed {
				started = time.Now()
			}
			var next *node
			if variant == "arena" {
				next = arena.node()
			} else {
				next = new(node)
			}
			next.value = uint64(at)
			if tail == nil {
				roots[worker] = next
			} else {
				tail.next = next
			}
			tail = next
			if timed {
				laps.lap(started)
			}
		}
		laps.handOn()
	})
	setup.board.mark("filled", live)
	active += setup.crew(func(worker int) {
		var walked, sum uint64
		for node := roots[worker]; node != nil; node = node.next {
			walked, sum = walked+1, sum+node.value
		}
		// The values are 0, 1, 2 and so on. If a node is lost, doubled or overwritten, their sum is wrong.
		count := uint64(setup.share(nodes, worker))
		wrong[worker] = walked != count || count > 0 && sum != count*(count-1)/2
	})
	setup.board.mark("peak", live)
	for worker, wrong := range wrong {
		if wrong {
			return outcome{}, fmt.Errorf("list %d was overwritten", worker)
		}
	}
	setup.rest("settle", live)
	// To free the list here means to drop it and to have it collected. allocanary's own lists are timed until their last node is freed.
	freeing := time.Now()
	clear(roots)
	runtime.GC()
	active += time.Since(freeing)
	setup.board.mark("released", 0)
	setup.board.mark("purged", 0)
	return outcome{operations: uint64(nodes), active: active, timedEvery: timedEvery, verified: uint64(nodes)}, nil
}

// One operation in this many is timed, because reading the clock costs more than the operation.
const timedEvery = 64
