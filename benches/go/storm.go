// `storm`: an API's front end under bursts of twenty times its load, as in allocanary's workload of that name, with the
// same sizes in the same order. In: loads, and a ballast. Out: a mark after each burst, the time of each request in a
// burst.
package main

import (
	"fmt"
	"runtime"
	"time"
)

var storm = workload{
	name:      "storm",
	about:     "an API's front end: normal load, bursts of 20 times as many requests in flight, rests",
	operation: "request in a burst",
	parameters: []parameter{
		{"live", size(1 << 16), "8388608", "bytes of state, whatever the threads"},
		{"load", count, "8", "requests in flight at normal load"},
		{"in_flight", count, "160", "requests in flight in a burst"},
		{"steady", count, "400", "requests at normal load before each burst"},
		{"requests", count, "800", "requests in each burst"},
		{"bursts", number(1, 27), "5", "bursts, each with an `idle` after it"},
		{"settle", wait, "100ms", "rest after each burst, before `idle` is read"},
		{"ballast", size(0), "0", "bytes of a slice that is held and never touched, as Twitch had it"},
	},
	seconds:   0.7,
	growsWith: []string{"steady+requests", "bursts"},
	rests:     "bursts",
	run:       runStorm,
}

// block is a slice that is filled with one word, its tag.
type block struct {
	words []uint64
	tag   uint64
}

func newBlock(bytes int, tag uint64) block {
	words := make([]uint64, max((bytes+7)/8, 1))
	for at := range words {
		words[at] = tag
	}
	return block{words, tag}
}

func (block block) bytes() int { return 8 * len(block.words) }

// check panics if the content is not what was written. The panic's text becomes the row's error.
func (block block) check() {
	var difference uint64
	for _, word := range block.words {
		difference |= word ^ block.tag
	}
	if difference != 0 {
		panic(fmt.Sprintf("a block of %d bytes, tag %#x, was overwritten", block.bytes(), block.tag))
	}
}

// mixedSize is a random size from least up to the end of the last doubling. Each doubling has the same probability.
func mixedSize(state *rng, least, doublings int) int {
	floor := least << state.below(doublings)
	return floor + state.below(floor)
}

// front is one worker: its part of the state, and its requests in flight, oldest first.
type front struct {
	state    []block
	inFlight [][]block
	verified uint64
	rng      rng
}

func (front *front) begin() {
	request := make([]block, 3+front.rng.below(4))
	for at := range request {
		bytes := mixedSize(&front.rng, 1<<10, 8)
		request[at] = newBlock(bytes, front.rng.next())
	}
	front.inFlight = append(front.inFlight, request)
	if len(front.state) > 0 {
		slot := front.rng.below(len(front.state))
		old := front.state[slot]
		front.state[slot] = newBlock(old.bytes(), front.rng.next())
		front.drop(old)
	}
}

func (front *front) end() {
	for _, block := range front.inFlight[0] {
		front.drop(block)
	}
	front.inFlight[0] = nil
	front.inFlight = front.inFlight[1:]
}

func (front *front) drop(block block) {
	block.check()
	front.verified++
}

func (front *front) serve(most int) {
	if len(front.inFlight) >= most {
		front.end()
	}
	front.begin()
}

func (front *front) bytes() uint64 {
	bytes := 0
	for _, block := range front.state {
		bytes += block.bytes()
	}
	for _, request := range front.inFlight {
		for _, block := range request {
			bytes += block.bytes()
		}
	}
	return uint64(bytes)
}

func runStorm(setup *setup) (outcome, error) {
	live, load, inFlight := setup.number("live"), setup.number("load"), setup.number("in_flight")
	steady, requests, bursts := setup.number("steady"), setup.number("requests"), setup.number("bursts")
	if load > inFlight {
		return outcome{}, fmt.Errorf("parameter `load`: wanted at most `in_flight`, %d, found %d", inFlight, load)
	}
	ballast := make([]byte, setup.number("ballast"))
	fronts := make([]front, setup.threads)
	mine := func(whole, worker int) int {
		return whole*(worker+1)/setup.threads - whole*worker/setup.threads
	}
	held := func() (bytes uint64) {
		for at := range fronts {
			bytes += fronts[at].bytes()
		}
		return bytes
	}
	setup.crew(func(worker int) {
		front := &fronts[worker]
		front.rng = partOf(setup.seed, uint64(worker))
		for left := mine(live, worker); left > 0; {
			bytes := min(mixedSize(&front.rng, 16, 11), left)
			front.state = append(front.state, newBlock(bytes, front.rng.next()))
			left -= bytes
		}
	})
	setup.board.mark("filled", held())
	var active time.Duration
	for burst := 0; burst < bursts; burst++ {
		setup.crew(func(worker int) {
			for at := 0; at < mine(steady, worker); at++ {
				fronts[worker].serve(max(mine(load, worker), 1))
			}
		})
		active += setup.crew(func(worker int) {
			laps := stopwatch{setup: setup}
			for at := 0; at < mine(requests, worker); at++ {
				started := time.Now()
				fronts[worker].serve(max(mine(inFlight, worker), 1))
				laps.lap(started)
			}
			laps.handOn()
		})
		if burst == 0 {
			setup.board.mark("peak", held())
		}
		setup.crew(func(worker int) {
			for len(fronts[worker].inFlight) > 0 {
				fronts[worker].end()
			}
		})
		setup.rest("settle", held())
	}
	var verified uint64
	for at := range fronts {
		for _, block := range fronts[at].state {
			fronts[at].drop(block)
		}
		verified += fronts[at].verified
	}
	clear(fronts)
	setup.board.mark("released", 0)
	runtime.KeepAlive(ballast)
	ballast = nil
	setup.board.mark("purged", 0)
	return outcome{operations: uint64(requests * bursts), active: active, timedEvery: 1, verified: verified}, nil
}
