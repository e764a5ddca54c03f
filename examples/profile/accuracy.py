#!/usr/bin/env python3
"""The tables of docs/lab/profile.md of how right a profile is: six programs, three allocators, twenty runs of each, against the exact trace of
the same program. A run draws its samples anew. The first five sites of the trace are looked for in each profile.
The known programs are those by which the intervals were made. The fresh ones were chosen after that: they test the intervals.
Usage: examples/profile/accuracy.py [FOLDER of allocanary] [RUNS] [MEAN] [known | fresh]. Needs a C++ compiler; for the known programs
python3, perl and sqlite3; for the fresh ones lua5.4, gawk, ruby, php and jq."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

built = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release")
runs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
mean = sys.argv[3] if len(sys.argv) > 3 else "512KiB"
here = os.path.dirname(os.path.abspath(__file__))
folder = tempfile.mkdtemp()
subprocess.run(["c++", "-O2", "-g", "-pthread", "-o", f"{folder}/threads", f"{here}/threads.cpp"], check=True)
subprocess.run(["cc", "-O2", "-g", "-o", f"{folder}/sites", f"{here}/sites.c"], check=True)
subprocess.run(["c++", "-O2", "-g", "-o", f"{folder}/growing", f"{here}/growing.cpp"], check=True)

PYTHON = """
import sys, signal
names = {i: 'name %d of a row' % i for i in range(200000)}
rows = [[i, str(i), (i, i + 1)] for i in range(150000)]
texts = ['x' * (i % 3000) for i in range(15000)]
del rows[::2]
print('ready', flush=True)
signal.pause()
"""
PERL = """
$| = 1;
my %h; $h{"key $_"} = "value of $_" for 1..200000;
my @a = map { [$_, "row $_"] } 1..100000;
delete $h{"key $_"} for 1..50000;
print "ready\\n"; sleep 10000;
"""
SQL = """create table t(a integer primary key, b text, c blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) insert into t select i, 'row ' || i, randomblob(100) from n;
create index bs on t(b);
delete from t where a % 3 = 0;
select 'ready';
"""
ORDERED = """
import signal, collections
tree = collections.OrderedDict((str(i), {'id': i, 'tags': ['a', str(i)]}) for i in range(60000))
buffers = [bytearray(i % 50000) for i in range(1200)]
print('ready', flush=True)
signal.pause()
"""
python = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
PROGRAMS = [
    ("C, six sites", [f"{folder}/sites"], {}, None),
    ("C++, eight threads", [f"{folder}/threads"], {}, None),
    ("python3, rows", ["/usr/bin/python3", "-c", PYTHON], python, None),
    ("python3, documents", ["/usr/bin/python3", "-c", ORDERED], python, None),
    ("perl, hashes", ["/usr/bin/perl", "-e", PERL], {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}, None),
    ("sqlite3, in memory", ["/usr/bin/sqlite3", ":memory:"], {}, SQL),
]
LUA = """
local t, q = {}, {}
for i = 1, 200000 do t[i] = {id = i, name = 'name ' .. i} end
for i = 1, 20000 do q[i] = string.rep('x', i % 2000) end
for i = 1, 200000, 3 do t[i] = false end
collectgarbage()
print('ready') io.stdout:flush() io.read()
"""
AWK = """BEGIN {
    for (i = 0; i < 200000; i++) { a[i] = "value " i; b["key " i] = i }
    for (i = 0; i < 3000; i++) c[i] = sprintf("%*s", i, "x")
    for (i = 0; i < 200000; i += 2) delete a[i]
    print "ready"; fflush(); getline < "-"
}"""
RUBY = """
GC.disable
h = {}
100000.times { |i| h["key #{i}"] = [i, "a value that is longer than what fits into an object #{i}"] }
b = Array.new(2000) { |i| 'x' * (i * 20) }
puts 'ready'; $stdout.flush; gets
"""
PHP = """
for ($i = 0; $i < 150000; $i++) $a["key $i"] = ['id' => $i, 'text' => str_repeat('y', $i % 300)];
for ($i = 0; $i < 150000; $i += 4) unset($a["key $i"]);
echo "ready\\n"; fgets(STDIN);
"""
JQ = '[range(100000) | {id: ., name: "a name that is long \\(.)", tags: [., "t"]}] as $all | "ready", (input | $all | length)'
FRESH = [
    ("lua, tables", ["/usr/bin/lua5.4", "-e", LUA], {}, None),
    ("gawk, arrays", ["/usr/bin/gawk", AWK], {}, None),
    ("ruby, a hash of arrays", ["/usr/bin/ruby", "-e", RUBY], {}, None),
    ("php, a hash of hashes", ["/usr/bin/php", "-r", PHP], {"USE_ZEND_ALLOC": "0"}, None),
    ("jq, an array of objects", ["/usr/bin/jq", "-n", "--unbuffered", "-r", JQ], {}, None),
    ("C++, containers that grow", [f"{folder}/growing"], {}, None),
]
if sys.argv[4:] == ["fresh"]:
    PROGRAMS = FRESH
ALLOCATORS = ["system", "jemalloc", "mimalloc"]


def started(command, variables, stdin):
    """The program, when it is at rest."""
    child = subprocess.Popen(command, env={**os.environ, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if stdin:
        child.stdin.write(stdin.encode())
        child.stdin.flush()
    line = child.stdout.readline()
    assert line == b"ready\n", (command, line)
    return child


def ended(child):
    child.send_signal(signal.SIGKILL)
    child.wait()


def by_site(sites):
    """Sites by name and module. A trace has the name by which a library was asked for, a process that of its file."""
    plain = lambda text: re.sub(r"\.so[.0-9]*", ".so", text or "")
    return {(plain(site["name"]), plain(site["module"])): site for site in sites}


def who(*arguments):
    done = subprocess.run([f"{built}/allocanary", "who", *arguments, "--json", "--no-fold"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return by_site(json.loads(done.stdout)["sites"])


def exact(command, variables, stdin, allocator):
    """Live bytes of each site at rest, by a trace with all stacks."""
    with tempfile.TemporaryDirectory() as traces:
        preload = {"LD_PRELOAD": f"{built}/preload-record {built}/preload-{allocator}", "ALLOCANARY_RECORD": traces,
                   "ALLOCANARY_RECORD_STACK_SAMPLE": "1", "ALLOCANARY_RECORD_MAX": str(4 << 30)}
        child = started(command, {**variables, **preload}, stdin)
        ended(child)
        [trace] = [name for name in os.listdir(traces) if f"-{child.pid}-" in name]
        return {key: site["requested_bytes"] for key, site in who(f"{traces}/{trace}", "--at", "24h", "--sort", "requested").items()}


print(f"| program | allocator | live MiB | inside, of first five | sum of {runs} runs / truth | all inside |")
print("|---|---|--:|--:|--:|--:|")
hits = tries = 0
for name, command, variables, stdin in PROGRAMS:
    for allocator in ALLOCATORS:
        truth = exact(command, variables, stdin, allocator)
        total = sum(truth.values())
        first = sorted(truth, key=truth.get, reverse=True)[:5]
        inside = of = whole = 0
        estimates = []
        for _ in range(runs):
            preload = {"LD_PRELOAD": f"{built}/preload-{allocator}", "ALLOCANARY_PRELOAD": f"profile={mean}"}
            child = started(command, {**variables, **preload}, stdin)
            done = subprocess.run([f"{built}/allocanary", "who", str(child.pid), "--json", "--no-fold"], capture_output=True)
            ended(child)
            assert done.returncode == 0, done.stderr.decode()
            found = json.loads(done.stdout)
            sites = by_site(found["sites"])
            answer = found["answers"][0]
            estimates.append(answer["requested_bytes"])
            whole += answer["requested_low_bytes"] <= total <= answer["requested_high_bytes"]
            for key in first:
                site = sites.get(key)
                # A site without a sample is missing: it is inside if that little may be.
                low, high = (site["requested_low_bytes"], site["requested_high_bytes"]) if site else (0, 3.689 * answer["mean_distance_bytes"])
                inside += low <= truth[key] <= high
                of += 1
        hits, tries = hits + inside, tries + of
        print(f"| {name} | {allocator} | {total / 2**20:.1f} | {inside} of {of} | {sum(estimates) / runs / total:.3f} | {whole} of {runs} |", flush=True)
print(f"\n{hits} of {tries} inside: {100 * hits / tries:.1f} %")
