// cell-go: Go's own memory management as a candidate of allocanary's studies. In: a verb, and a cell on standard input.
// Out: one line of JSON on standard output.
//
// It has the two verbs of every cell. `describe` prints its description. `run` runs the cell on standard input and
// prints a sample. Phases, readings and parameters have the names that allocanary's own cells give them, so that Go's
// rows are in one table with theirs.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// protocol is the version of the messages and of the rows.
const protocol = 1

// The fields of a cell that this program reads. The row contains the cell unchanged.
type cell struct {
	Settings map[string]string `json:"settings"`
	Workload string            `json:"workload"`
	Threads  int               `json:"threads"`
	Seed     uint64            `json:"seed"`
}

type sample struct {
	Schema     int             `json:"schema"`
	Cell       json.RawMessage `json:"cell"`
	Measured   *measured       `json:"measured,omitempty"`
	Error      *failure        `json:"error,omitempty"`
	Provenance provenance      `json:"provenance"`
}

type measured struct {
	Version        string              `json:"version"`
	Found          map[string]string   `json:"found,omitempty"`
	Moments        []string            `json:"moments"`
	RequestedBytes []uint64            `json:"requested_bytes"`
	Readings       map[string][]*int64 `json:"readings"`
	Operations     uint64              `json:"operations"`
	ActiveNs       int64               `json:"active_ns"`
	WorkerUs       int64               `json:"worker_us"`
	Latency        *quantiles          `json:"latency,omitempty"`
	Verified       uint64              `json:"verified"`
	Notes          map[string]uint64   `json:"notes,omitempty"`
}

type failure struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

func main() {
	board := newBoard()
	board.mark("start", 0)
	started := time.Now()
	verb := ""
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	var line []byte
	var err error
	switch verb {
	case "describe":
		line, err = json.Marshal(describe())
	case "run":
		dieWithParent()
		var text []byte
		if text, err = io.ReadAll(os.Stdin); err == nil {
			line, err = run(board, text, started)
		}
	default:
		err = fmt.Errorf("cell-go is run by allocanary; its verbs are `describe` and `run`")
	}
	if err == nil {
		_, err = fmt.Printf("%s\n", line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// run runs the cell. An error becomes the sample's error.
func run(board *board, text []byte, started time.Time) ([]byte, error) {
	var asked cell
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, fmt.Errorf("the cell on standard input: %w", err)
	}
	row := sample{Schema: protocol, Cell: text}
	load, parameters, err := find(asked.Workload)
	if err == nil && asked.Threads < 1 {
		err = fmt.Errorf("threads: wanted 1 or more, found %d", asked.Threads)
	}
	if err == nil {
		err = holdBallast(asked.Settings)
	}
	if err == nil {
		setup := &setup{threads: asked.Threads, seed: asked.Seed, parameters: parameters, board: board}
		var done outcome
		if done, err = load.run(setup); err == nil {
			found := settingsFound(asked.Settings)
			row.Error = mismatch(asked.Settings, found)
			row.Measured = board.measured(done, setup, found)
			runtime.KeepAlive(ballast)
			row.Measured.WorkerUs = time.Since(started).Microseconds()
		}
	}
	if err != nil {
		row.Error = &failure{"refused", err.Error()}
	}
	row.Provenance = here() // last, because it reads the whole executable
	return json.Marshal(row)
}

func (board *board) measured(done outcome, setup *setup, found map[string]string) *measured {
	return &measured{
		Version:        runtime.Version(),
		Found:          found,
		Moments:        board.moments,
		RequestedBytes: board.live,
		Readings:       board.byName(),
		Operations:     done.operations,
		ActiveNs:       done.active.Nanoseconds(),
		Latency:        setup.laps.quantiles(done.timedEvery),
		Verified:       done.verified,
		Notes:          done.notes,
	}
}
