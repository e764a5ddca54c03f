// This cell's description of itself: settings, workloads and parameters. The parent makes its plan from it.
package main

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
)

type object = map[string]any

// The Go runtime reads the first two from its environment at start. Their prefix is empty, because the variable has the setting's name in
// capitals. The ballast is this program's own setting: a slice that is kept during the work and never touched.
var settings = []object{
	setting("gogc", number(-1, math.MaxInt32), "growth of the heap in % before the next collection; -1 never collects"),
	setting("gomemlimit", size(1), "soft limit of the memory that the runtime manages"),
	setting("ballast", size(0), "bytes of a slice that is held and never touched, as Twitch had it: the collector counts them as live"),
}

func setting(name string, kind object, about string) object {
	return object{"name": name, "kind": kind, "about": about}
}

func number(min, max int64) object { return object{"type": "number", "min": min, "max": max} }
func size(min int64) object        { return object{"type": "size", "min": min, "max": int64(math.MaxInt64)} }

var count = number(0, 1_000_000_000)

// wait is a time: its bounds are milliseconds, and its values have a unit.
var wait = object{"type": "time", "min": 0, "max": 1_000_000_000}

func choice(names ...string) object {
	return object{"type": "choice", "names": names}
}

// A parameter of a workload, with its default in canonical spelling.
type parameter struct {
	name    string
	kind    object
	initial string
	about   string
}

// A workload: how it uses memory.
type workload struct {
	name       string
	about      string
	operation  string
	parameters []parameter
	// seconds is how long one cell takes with the defaults, without its idle moments. The field after it names the
	// parameter, or the sum of parameters, with which this time grows. rests names the parameter that is the number of
	// idle moments.
	seconds   float64
	growsWith []string
	rests     string
	run       func(*setup) (outcome, error)
}

func workloads() []workload { return []workload{list, blob, storm} }

func describe() object {
	var loads []object
	for _, load := range workloads() {
		parameters := []object{}
		for _, one := range load.parameters {
			described := setting(one.name, one.kind, one.about)
			described["default"] = one.initial
			parameters = append(parameters, described)
		}
		described := object{
			"name": load.name, "about": load.about, "operation": load.operation,
			"parameters": parameters, "seconds": load.seconds, "grows_with": load.growsWith,
		}
		if load.rests != "" {
			described["rests"] = load.rests
		}
		loads = append(loads, described)
	}
	return object{
		"protocol":    protocol,
		"build":       thisBuild(),
		"allocator":   "go",
		"version":     runtime.Version(),
		"settings":    settings,
		"effective":   effective(),
		"environment": object{"type": "each", "prefix": ""},
		"workloads":   loads,
	}
}

// find parses `name:key=value,key=value` and adds the defaults. The parent has checked the names. Values are as the
// user wrote them, so sizes may have a unit.
func find(text string) (workload, map[string]string, error) {
	name, rest, _ := strings.Cut(text, ":")
	for _, load := range workloads() {
		if load.name != name {
			continue
		}
		values := map[string]string{}
		for _, one := range load.parameters {
			values[one.name] = one.initial
		}
		for _, pair := range strings.Split(rest, ",") {
			key, value, found := strings.Cut(pair, "=")
			if !found {
				continue
			}
			if _, known := values[key]; !known {
				return load, nil, fmt.Errorf("workload `%s` has no parameter `%s`", name, key)
			}
			values[key] = value
		}
		return load, values, nil
	}
	return workload{}, nil, fmt.Errorf("cell-go has no workload `%s`", name)
}

// parseSize parses 65536, 64K, 64KB or 64KiB: all are binary, as in allocanary.
func parseSize(text string) (int, error) {
	digits := strings.TrimRight(text, "kKmMgGtTiIbB ")
	unit := strings.ToLower(strings.TrimSpace(text[len(digits):]))
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	shift, known := map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit]
	value, err := strconv.ParseFloat(digits, 64)
	bytes := value * float64(uint64(1)<<shift)
	if !known || err != nil || bytes < 0 || bytes != math.Trunc(bytes) {
		return 0, fmt.Errorf("wanted a size such as 65536 or 64KiB, found `%s`", text)
	}
	return int(bytes), nil
}

// effective reads the settings back from the runtime, in the form in which a user writes them.
func effective() map[string]string {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(samples)
	values := map[string]string{"ballast": strconv.Itoa(len(ballast))}
	for at, name := range []string{"gogc", "gomemlimit"} {
		if samples[at].Value.Kind() == metrics.KindUint64 {
			// "off" is read back as the largest number, because it is a percentage of -1.
			values[name] = strconv.FormatInt(int64(samples[at].Value.Uint64()), 10)
		}
	}
	return values
}

// ballast is memory that the process keeps and never touches.
var ballast []byte

// holdBallast allocates the ballast that the settings request.
func holdBallast(settings map[string]string) error {
	text, asked := settings["ballast"]
	if !asked {
		return nil
	}
	bytes, err := parseSize(text)
	if err != nil {
		return fmt.Errorf("ballast: %w", err)
	}
	ballast = make([]byte, bytes)
	return nil
}

func settingsFound(wanted map[string]string) map[string]string {
	found := map[string]string{}
	for name, value := range effective() {
		if _, asked := wanted[name]; asked {
			found[name] = value
		}
	}
	return found
}

// mismatch is the first setting that is not in force.
func mismatch(wanted, found map[string]string) *failure {
	for name, value := range wanted {
		if found[name] != value {
			return &failure{"setting", fmt.Sprintf("%s: wanted %s, found %s", name, value, found[name])}
		}
	}
	return nil
}
