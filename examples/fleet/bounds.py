#!/usr/bin/env python3
"""Whether a restart with a remedy's lines ever saves more than the agent has told.

Usage: examples/fleet/bounds.py [COMMAND [SECONDS]]   (as root, with control groups that may be written)

The programs of truth.py, and nine more with threads, bursts or mimalloc, are started in control groups with a quota of half a processor, and the agent reads them once after SECONDS
(30). Each remedy with an upper bound that is taken by a restart with other variables is then tried: three new replicas without its lines and
three with them, all under the same load for SECONDS. A bound is broken if the replicas with the lines have less resident memory than those without,
median by median, by more than the largest bound that was told of one of those. Exit code 1 if one is broken.
"""
import importlib.util, itertools, json, os, re, shlex, shutil, statistics, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import truth
from truth import COMMAND, FOLDER, MIB, Program

spec = importlib.util.spec_from_file_location("trial", os.path.join(HERE, "try.py"))
trial = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trial)

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 30
LIBMIMALLOC = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"
REPLICAS = 3
# Threads that are started, fill up, and wait: what they let go of stays in their arenas.
RUBY_FILLED = "6.times.map { Thread.new { a = Array.new(4000) { 'x' * (200 + rand(9000)) }; 4000.times { |i| a[i] = nil if i % 3 > 0 }; GC.start; sleep } }.each(&:join)"

def programs():
    """name: (command, standard input, variables, allocator), as in truth.py."""
    python = lambda text: [trial.PYTHON, "-c", text]
    more = {name: (of(0), "", variables, "") for name, (of, variables, _, _) in trial.programs().items()
            if name.endswith(("-threads", "-bursts")) or name.startswith("perl")}
    more["ruby-filled"] = (["ruby", "-e", RUBY_FILLED], "", {}, "")
    for name, text in (("mimalloc-threads", trial.PYTHON_THREADS), ("mimalloc-steady", trial.PYTHON_STEADY)):
        more[name] = (python(text), "", {"PYTHONMALLOC": "malloc", "LD_PRELOAD": LIBMIMALLOC}, "")
    return {**truth.programs(), **{f"try-{name}": one for name, one in more.items()}}

STARTED, NUMBERS = [], itertools.count()

def start(name, replica, one, lines):
    """A replica. Its ports are its own, and its variables those of the program with the lines."""
    command, text, variables, allocator = one
    number = next(NUMBERS)
    command = [re.sub(r"^739(\d)$", lambda port: str(10000 + 10 * number + int(port[1])), word) for word in command]
    variables = {**variables, **lines}
    if "LD_PRELOAD" in lines:
        variables["LD_PRELOAD"] = ":".join(filter(None, [lines["LD_PRELOAD"], one[2].get("LD_PRELOAD")]))
    # A number that three divides has a quota.
    program = Program(f"{name}-{replica}", 3 * number, command, text, variables, allocator)
    STARTED.append(program)
    for port in [int(word) for word in command if word.isdigit() and "redis" in command[0]]:
        threading.Thread(target=lambda: (time.sleep(3), truth.load(port, time.time() + SECONDS, 30000)), daemon=True).start()
    return program

def told(replicas):
    """The report's rows, by the name of the replica."""
    out = subprocess.run([COMMAND, "node", "--once", "--json", "--kubelet", truth.kubelet(replicas)], capture_output=True, text=True, check=True)
    rows = {row["pod"]: row for row in json.loads(out.stdout)["rows"]}
    return {one.name: rows.get(f"{one.name}-7d9f8-x", {"reclaimable": []}) for one in replicas}

def lines_of(replica, remedy):
    """The variables of a remedy; None if it is not taken by variables."""
    pid = max(replica.pids(), key=lambda pid: int(open(f"/proc/{pid}/statm").read().split()[1]))
    out = subprocess.run([COMMAND, str(pid), "--json"], capture_output=True, text=True)
    for one in json.loads(out.stdout or "{}").get("remedies", []):
        if one["id"] == remedy:
            texts = [line["text"] for line in one["lines"] if line["place"] == "environment"]
            if remedy == "thread_idle":
                library = subprocess.run([COMMAND, "preload", "system", "--settings", "thread_idle=100ms"], capture_output=True, text=True).stdout
                texts = next(line for line in library.splitlines() if line.endswith(" PROGRAM")).split()[:-1]
            pairs = [text.removeprefix("export ").split("=", 1) for text in texts]
            return {name: shlex.split(value)[0] for name, value in pairs} or None
    return None

def alive(replicas):
    return [one for one in replicas if one.process.poll() is None]

def main():
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-pthread", "-o", truth.PRELOAD, os.path.join(HERE, "own_counters.c"), "-ldl"], check=True)
    truth.write_files()
    all_, broken, tried, without = programs(), 0, [], []
    try:
        first = {name: start(name, 0, one, {}) for name, one in all_.items()}
        time.sleep(SECONDS)
        rows = told(alive(first.values()))
        wanted = []
        for name, replica in first.items():
            for bound in rows.get(replica.name, {"reclaimable": []})["reclaimable"]:
                if bound["remedy"] == "give-back":
                    continue
                lines = lines_of(replica, bound["remedy"])
                (wanted if lines else without).append((name, bound["remedy"], lines))
        for one in STARTED:
            one.end()
        print("not tried, since they are no variables:", ", ".join(f"{name} {remedy}" for name, remedy, _ in without) or "none", flush=True)
        print(f"\n{'program':<24}{'remedy':<26}{'without':>8}{'with':>8}{'saved':>8}{'at most':>8}  MiB")
        for name, remedy, lines in wanted:
            STARTED.clear()
            plain = [start(name, number, all_[name], {}) for number in range(REPLICAS)]
            changed = [start(name, REPLICAS + number, all_[name], lines) for number in range(REPLICAS)]
            time.sleep(SECONDS)
            if len(alive(plain + changed)) < 2 * REPLICAS:
                print(f"{name:<24}{remedy:<26}a replica has ended")
                continue
            rows = told(plain)
            bounds = [bound["reclaimable_bytes"] for one in plain for bound in rows[one.name]["reclaimable"] if bound["remedy"] == remedy]
            before, after = [statistics.median(one.resident() for one in all_of) for all_of in (plain, changed)]
            for one in plain + changed:
                one.end()
            if not bounds:
                print(f"{name:<24}{remedy:<26}not told of these replicas")
                continue
            is_broken = before - after > max(bounds)
            tried.append(before - after)
            broken += is_broken
            figures = "".join(f"{value / MIB:8.1f}" for value in (before, after, before - after, max(bounds)))
            print(f"{name:<24}{remedy:<26}{figures}{'  BROKEN' if is_broken else ''}", flush=True)
    finally:
        for one in alive(STARTED):
            one.end()
        for folder in (FOLDER, trial.FOLDER):
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(tried)} tried, {broken} broken; {sum(saved > MIB for saved in tried)} saved more than 1 MiB")
    sys.exit(broken > 0 or not tried)

if __name__ == "__main__":
    main()
