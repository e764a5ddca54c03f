#!/usr/bin/env python3
"""The table of docs/lab/profile.md of what a profile costs redis under redis-benchmark: instructions of a request by callgrind, and processor time
and requests per second without callgrind, in interleaved pairs of runs, against the same server without a profile. jemalloc's own profile
(prof:true, at the same mean distance) and heaptrack stand beside it.
Usage: examples/profile/services.py [FOLDER of allocanary] [PAIRS] [REQUESTS] [WAY]; WAY is a part of a name. Needs redis-server, redis-tools and valgrind; heaptrack is
left out where it is missing."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

built = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release")
pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 9
requests = int(sys.argv[3]) if len(sys.argv) > 3 else 200000
folder = tempfile.mkdtemp()
port = 17000 + os.getpid() % 20000
found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
debian = re.search(r"libjemalloc\.so\.2 .*=> (\S+)", found)[1]

# What is compared: the name, the variables without, the variables with, and a command before redis-server.
WAYS = [
    ("preload-profile, on Debian's jemalloc", {}, {"LD_PRELOAD": f"{built}/preload-profile"}, []),
    ("preload-system", {"LD_PRELOAD": f"{built}/preload-system"}, {"ALLOCANARY_PRELOAD": "profile=512KiB"}, []),
    ("preload-jemalloc", {"LD_PRELOAD": f"{built}/preload-jemalloc"}, {"ALLOCANARY_PRELOAD": "profile=512KiB"}, []),
    ("preload-mimalloc", {"LD_PRELOAD": f"{built}/preload-mimalloc"}, {"ALLOCANARY_PRELOAD": "profile=512KiB"}, []),
    ("Debian's jemalloc, prof:true", {"LD_PRELOAD": debian}, {"MALLOC_CONF": "prof:true,lg_prof_sample:19"}, []),
]
if shutil.which("heaptrack"):
    WAYS.append(("heaptrack, on Debian's jemalloc", {}, {}, ["heaptrack", "-o", f"{folder}/heaptrack"]))


def benchmark(count):
    """SET and GET, half of them each: keys of 20,000, values of 200 bytes."""
    line = ["redis-benchmark", "-p", str(port), "-t", "set,get", "-n", str(count // 2), "-r", "20000", "-d", "200", "-P", "16", "-q"]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


def server(variables, before):
    """A server that answers, and the number of its process."""
    line = [*before, "redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder, "--loglevel", "warning",
            # What it does at times, and not for requests, counts for less.
            "--hz", "1", "--dynamic-hz", "no"]
    child = subprocess.Popen(line, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        said = subprocess.run(["redis-cli", "-p", str(port), "info", "server"], capture_output=True, text=True).stdout
        if pid := re.search(r"process_id:(\d+)", said):
            return child, int(pid[1])
        time.sleep(0.1)
    raise SystemExit(f"redis-server has not answered within 60 s: {line}")


def ended(child):
    subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], capture_output=True)
    child.wait()


def instructions(variables, before):
    """Instructions of a request: the difference of two runs leaves out what a server costs by itself."""
    sums = []
    for count in (4000, 24000):
        out = f"{folder}/callgrind"
        child, _ = server(variables, [*before, "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"])
        benchmark(count)
        ended(child)
        with open(out) as file:
            sums.append(int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M)[1]))
    return (sums[1] - sums[0]) / 20000


def run(variables, before):
    """Processor seconds of the server, and requests per second."""
    child, pid = server(variables, before)
    benchmark(20000)
    ticks = lambda: sum(map(int, open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))
    start, began = ticks(), time.monotonic()
    benchmark(requests)
    seconds, used = time.monotonic() - began, ticks() - start
    ended(child)
    return used / os.sysconf("SC_CLK_TCK"), requests / seconds


print("| redis under | instructions a request, without | with | ratio | processor time, ratio (least, most) | requests per second, ratio |")
print("|---|--:|--:|--:|--:|--:|")
for name, without, added, before in WAYS:
    if sys.argv[4:] and sys.argv[4] not in name:
        continue
    counted = ["-", "-", "-"]
    # heaptrack and callgrind cannot observe one process.
    if not before:
        none, some = instructions(without, []), instructions({**without, **added}, [])
        counted = [f"{none:.0f}", f"{some:.0f}", f"{some / none:.4f}"]
    times, rates = [], []
    for pair in range(pairs):
        runs = [({**without, **added}, before), (without, [])]
        results = [run(*one) for one in (runs if pair % 2 else runs[::-1])]
        (used, rate), (used_none, rate_none) = results if pair % 2 else results[::-1]
        times.append(used / used_none)
        rates.append(rate / rate_none)
    print(f"| {name} | {' | '.join(counted)} | {statistics.median(times):.3f} ({min(times):.3f}, {max(times):.3f}) | "
          f"{statistics.median(rates):.3f} |", flush=True)
shutil.rmtree(folder)
