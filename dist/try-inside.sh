# Uses an installed allocanary in the current folder, in a clean system. One line for each step on standard output: its name and `yes`,
# with what this system leaves out, or `no` with the last line of what the command said. dist/try.sh runs it by sh, which may be dash.

try() { # NAME COMMAND...
    name=$1
    shift
    if said=$("$@" 2>&1); then
        echo "$name yes$(echo "$said" | sed -n 's/^but: /, /p')"
    else
        # What cannot be read is named before the parts.
        why=$(echo "$said" | tr '\n' ' ' | grep -o 'not analysed: [^.;]*' | head -n 1)
        [ -n "$why" ] || why=$(echo "$said" | grep . | tail -n 1)
        echo "$name no: $(echo "$why" | tr '|' '/' | cut -c 1-200)"
    fi
    echo "== $name: $said" >&2
}

# A service that keeps memory: of 300,000 objects the last one and every fifth of the first 200,000 are left, and it waits.
python3 -c '
import time
kept = [bytes(700) for _ in range(300000)]
last = kept[-1]
kept = kept[:200000:5]
print("ready", flush=True)
time.sleep(600)' >ready &
service=$!
while ! grep -q ready ready; do sleep 0.1; done

program='print(sum(len(str(n)) for n in range(200000)))'
version() { allocanary --version && allocanary doctor >/dev/null && kubectl-allocanary --help >/dev/null; }
runs() { allocanary run --repeats 2 --candidates own system jemalloc mimalloc --out-dir run -- python3 -c "$program"; }
heap() { allocanary heap "$service"; }
contents() { allocanary heap "$service" --contents; }
gives_back() { allocanary give-back --yes "$service" | grep "given back: [0-9.]* MiB"; }
preloads() {
    for allocator in system jemalloc mimalloc; do
        library=$(allocanary preload "$allocator" | sed -n 's/^library *//p')
        ALLOCANARY_PROOF=$PWD/$allocator LD_PRELOAD=$library python3 -c "$program" || return 1
        grep -q "\"$allocator\"" "$allocator" || { echo "no proof of $allocator in $(cat "$allocator")"; return 1; }
    done
}
records() {
    told=$(allocanary record -o traces -- python3 -c "$program" 2>&1) || { echo "$told"; return 1; }
    case $told in
    *"no stacks: they need x86-64 or aarch64, and a C library with _dl_find_object"*)
        echo "but: no stacks"
        allocanary who traces/*.trace --by thread
        ;;
    *) allocanary who traces/*.trace ;;
    esac
}
# A service that is sampled: `who` asks it from outside who holds its heap.
profiles() {
    library=$(allocanary preload profile | sed -n 's/^library *//p')
    : >sampled
    PYTHONMALLOC=malloc LD_PRELOAD=$library python3 -c '
import time
kept = [bytes(700) for _ in range(100000)]
print("ready", flush=True)
time.sleep(600)' >sampled &
    sampled=$!
    while ! grep -q ready sampled; do kill -0 "$sampled" || return 1; sleep 0.1; done
    told=$(allocanary who "$sampled" 2>&1)
    code=$?
    kill "$sampled"
    case $told in *"samples have no stack"*) echo "but: no stacks" ;; esac
    echo "$told"
    return "$code"
}
# A service that runs already is recorded for some seconds. It makes blocks after `ready`.
attaches() {
    : >running
    PYTHONMALLOC=malloc python3 -c '
import time
print("ready", flush=True)
kept = []
while True:
    kept = kept[-1000:] + [bytes(700) for _ in range(100)]
    time.sleep(0.01)' >running &
    running=$!
    while ! grep -q ready running; do kill -0 "$running" || return 1; sleep 0.1; done
    code=0
    told=$(allocanary record --attach "$running" --for 3s -o attached 2>&1) || code=$?
    if [ "$code" = 0 ]; then
        told=$(allocanary who attached/*.trace 2>&1) || code=$?
        case $told in
        *"this trace has no stacks"*)
            code=0
            told="but: no stacks
$(allocanary who attached/*.trace --by thread 2>&1)" || code=$?
            ;;
        esac
    fi
    kill "$running"
    echo "$told"
    return "$code"
}
# The agent of a node, once, and the table of many nodes made of what it says. It has read the service.
nodes() {
    allocanary node --once --json >node.json && allocanary fleet node.json || return 1
    grep -q '"live":[1-9]' node.json || { echo "no live bytes in $(head -c 300 node.json)"; return 1; }
    grep -q '"allocator":"glibc' node.json || echo "but: allocator not named"
}
replays() { allocanary replay traces/*.trace --candidates system jemalloc --repeats 2 --out-dir replay; }
studies() {
    if ! told=$(allocanary study --time-budget 60s --threads 4 --repeats 3 --out-dir study 2>&1); then
        # glibc before 2.33 has no list of its settings.
        other=$(echo "$told" | grep '^failed: ' | grep -v 'arena_max: wanted 1, and the allocator does not say what it took' || true)
        [ -z "$other" ] || { echo "$told"; return 1; }
        echo "but: no system:arena_max"
    fi
    allocanary report study --format html --output study.html
}

try version version
try heap heap
try contents contents
try give-back gives_back
try run runs
try preload preloads
try record records
try profile profiles
try attach attaches
try node nodes
try replay replays
try study studies
kill "$service"
