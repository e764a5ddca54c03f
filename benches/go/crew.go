// Code that workloads share: parameters, threads that stop together, random numbers, durations. In: a cell's settings.
// Out: marks, and the time between them.
package main

import (
	"fmt"
	"math/bits"
	"sync"
	"time"
)

type setup struct {
	threads    int
	seed       uint64
	parameters map[string]string
	board      *board
	laps       histogram
}

type outcome struct {
	operations uint64
	active     time.Duration
	timedEvery int
	verified   uint64
	notes      map[string]uint64
}

// number is a parameter that is a count, or a size in bytes.
func (setup *setup) number(name string) int {
	value, err := parseSize(setup.parameters[name])
	if err != nil {
		// The panic's text becomes the row's error.
		panic(fmt.Sprintf("parameter `%s`: %v", name, err))
	}
	return value
}

// time is a parameter such as 50ms.
func (setup *setup) time(name string) time.Duration {
	value, err := time.ParseDuration(setup.parameters[name])
	if err != nil {
		panic(fmt.Sprintf("parameter `%s`: %v", name, err))
	}
	return value
}

// crew runs work on as many goroutines as the cell has threads, and waits for all of them.
func (setup *setup) crew(work func(worker int)) time.Duration {
	started := time.Now()
	if setup.threads == 1 {
		work(0)
		return time.Since(started)
	}
	var all sync.WaitGroup
	for worker := 0; worker < setup.threads; worker++ {
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			work(worker)
		}(worker)
	}
	all.Wait()
	return time.Since(started)
}

// share is the part of count for this worker.
func (setup *setup) share(count, worker int) int {
	part := count / setup.threads
	if worker < count%setup.threads {
		part++
	}
	return part
}

// rng is SplitMix64, like allocanary's: the same seed gives the same blocks.
type rng uint64

func partOf(seed, part uint64) rng {
	mixed := rng(seed ^ part*0x9e3779b97f4a7c15)
	mixed.next()
	return mixed
}

func (state *rng) next() uint64 {
	*state += 0x9e3779b97f4a7c15
	word := uint64(*state)
	word = (word ^ word>>30) * 0xbf58476d1ce4e5b9
	word = (word ^ word>>27) * 0x94d049bb133111eb
	return word ^ word>>31
}

func (state *rng) below(bound int) int {
	high, _ := bits.Mul64(state.next(), uint64(bound))
	return int(high)
}

// histogram records durations to within 1 %: 128 steps for each power of two.
type histogram struct {
	lock   sync.Mutex
	counts [64 * 128]uint64
	total  uint64
	most   uint64
}

// stopwatch takes the durations of one worker and passes them on in batches.
type stopwatch struct {
	setup  *setup
	laps   [64]uint64
	filled int
}

func (watch *stopwatch) lap(started time.Time) {
	watch.laps[watch.filled] = uint64(time.Since(started))
	if watch.filled++; watch.filled == len(watch.laps) {
		watch.handOn()
	}
}

func (watch *stopwatch) handOn() {
	watch.setup.laps.record(watch.laps[:watch.filled])
	watch.filled = 0
}

type quantiles struct {
	Timed uint64 `json:"timed"`
	Every int    `json:"every"`
	P50   uint64 `json:"p50_ns"`
	P99   uint64 `json:"p99_ns"`
	P999  uint64 `json:"p999_ns"`
	Max   uint64 `json:"max_ns"`
}

func (laps *histogram) record(durations []uint64) {
	laps.lock.Lock()
	defer laps.lock.Unlock()
	for _, nanos := range durations {
		laps.counts[bucket(nanos)]++
		laps.total++
		if nanos > laps.most {
			laps.most = nanos
		}
	}
}

func bucket(nanos uint64) int {
	if nanos < 128 {
		return int(nanos)
	}
	shift := bits.Len64(nanos) - 8
	return (shift+1)*128 + int(nanos>>shift&127)
}

// value is the largest duration of a bucket.
func value(bucket int) uint64 {
	if bucket < 128 {
		return uint64(bucket)
	}
	shift := bucket/128 - 1
	return (uint64(128+bucket%128)+1)<<shift - 1
}

func (laps *histogram) quantiles(every int) *quantiles {
	if laps.total == 0 {
		return nil
	}
	at := func(quantile float64) uint64 {
		wanted := uint64(quantile*float64(laps.total) + 0.999999)
		var seen uint64
		for at, count := range laps.counts {
			if seen += count; seen >= wanted && count > 0 {
				return min(value(at), laps.most)
			}
		}
		return laps.most
	}
	return &quantiles{laps.total, every, at(0.5), at(0.99), at(0.999), laps.most}
}

// rest sleeps for the time of a parameter and marks the process as idle.
func (setup *setup) rest(parameter string, live uint64) {
	time.Sleep(setup.time(parameter))
	setup.board.mark("idle", live)
}
