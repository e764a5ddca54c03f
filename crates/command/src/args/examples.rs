//! Defaults and examples, printed at the end of each help text. In: nothing. Out: texts of at most 80 columns.

/// What the user can do. The command prints it if it is started without an argument.
pub const OVERVIEW: &str = "\
allocanary PROCESS                what its memory is, and what to do
allocanary heap PROCESS           all parts of it; --contents: objects and leaks
allocanary give-back PROCESS      free memory goes back, without a restart
allocanary -- COMMAND             for a program to start: which verb to use
allocanary run -- COMMAND         your program under each allocator, compared
allocanary tune -- COMMAND        the best settings for it, measured, to paste
allocanary record -- COMMAND      its allocations, for `who` and `replay`
allocanary preload ALLOCATOR      the lines that put an allocator into it
allocanary study                  compare allocators here, in two minutes
allocanary doctor                 what settings do on this host
PROCESS is a process ID or a name. Nothing is sent anywhere.
All verbs and flags: allocanary --help
";

/// Examples of the command without a verb.
const EXAMPLES: &str = "\
Examples:
  allocanary 4242                   a process: what it keeps, and what to do
  allocanary redis-server --json    the same by its name, for a script
  allocanary -- ./service --port 1  a program that does not run yet
  allocanary study                  compare all allocators, in two minutes
  allocanary --repeats 10           measure this build's allocator
  _RJEM_MALLOC_CONF=narenas:1 allocanary --repeats 10   jemalloc with one arena

Defaults of a measurement without a verb:
  workload server, threads 1,4,16,64, repeats 10, seed 1, no time budget, and a
  run timeout of 60s. Results go to a new folder, allocanary-out/here-1 the
  first time.

Exit codes: 0 success; 1 a process failed, or a gate failed; 2 the command could
not run; 130 interrupted, and every finished row is saved.";

/// The meaning of the words in all outputs, printed at the end of the long help.
pub const GLOSSARY: &str = "\
Words:
  candidate     an allocator with settings, such as jemalloc:narenas=1
  own           your unchanged program; own:NAME=VALUE is a setting of the
                allocator that it has
  baseline      the first candidate. All others are compared with it
  cell          a process that measures one candidate
  preload       a library that LD_PRELOAD puts into a program
  n             the number of runs behind a figure. Each is a fresh process
  moment        when memory is read: start, ready, filled, peak, idle, released,
                purged
  resident      memory that is in RAM: live + overhead + outside + unknown. For
                a run, memory when it is idle
  peak_resident the highest resident memory until a run is idle
  peak_anonymous for a replay: the highest resident memory without files
  overhead      memory that an allocator has beyond live blocks: cached,
                fragmentation, free_pages, lazy_free, metadata and padding
  outside       memory of no allocator: runtime, own_mappings, stacks, files and
                shared
  live          resident, in blocks that the program has allocated and not freed
  cached        in freed blocks that the cache of a thread or of a CPU keeps
  fragmentation free, in a page that also has a live or cached block
  free_pages    whole pages without a block, which the allocator keeps
  lazy_free     given back with MADV_FREE, and not yet taken by the kernel
  metadata      the allocator's own tables
  padding       never used by the program: the kernel filled a huge page with it
  runtime       the heap and the code of a language runtime
  own_mappings  memory that the program mapped itself, without an allocator
  stacks        stacks of threads
  files         pages of files, and the data of programs and libraries
  shared        shared memory
  unknown       not analysed, not read yet, or of an unknown owner
  reclaimable   memory that a call can give back. Its bound is exact, at_most or
                unknown
  requested     bytes that the program has asked for and not freed
  anonymous     resident memory that no file backs
  charged       memory that the kernel charges to a control group
  pinned        in who: free bytes in pages that have a live block
  empty         in who: pages without a live block
  allocator_    begins the name of an allocator's own counter: allocated,
                active, mapped and others count addresses, resident or not
  arena         a heap with a lock. glibc and jemalloc have several, so that
                threads wait less for each other
  thread cache  freed blocks that an allocator keeps for one thread
  page fault    the first use of a page, at which the kernel gives it to the
                process
  interval      [a, b]: the true value lies in it in 19 of 20 cases
  undecided     neither clearly different nor equal (within 2 %): the runs
                differ too much, or there are too few
  gate          a limit of `compare`. It fails if a metric clearly got worse by
                more";

/// The examples of the command, and the glossary.
pub fn with_glossary() -> String {
    format!("{EXAMPLES}\n\n{GLOSSARY}")
}

/// The help of `glossary`: it has the glossary itself, so that `allocanary help glossary` explains the words too.
pub fn glossary_with_examples() -> String {
    format!("{GLOSSARY}\n\n{GLOSSARY_EXAMPLES}")
}

const GLOSSARY_EXAMPLES: &str = "\
Examples:
  allocanary glossary
  allocanary help glossary";

/// Defaults and examples of `study`.
pub const STUDY_EXAMPLES: &str = "\
Defaults:
  The study `default` runs, with a time budget of 105s. A flag replaces the
  value in the study's file. A file without a value gets workload server,
  threads 1,4,16,64, repeats 10, seed 1, no time budget, and a run timeout of
  60s.
  --candidates without a study uses these values too.
  The answer takes no candidate whose throughput, p99 or CPU time is surely more
  than 10 % worse. One with less memory at a higher cost is named after it.

Examples:
  allocanary study                  run the default study, in two minutes
  allocanary study cores   run a shipped study (see `allocanary list studies`)
  allocanary study cases   measure six published cases, in three minutes
  allocanary study sort --full      run one of these cases at its large sizes
  allocanary study my.toml --repeats 20
      run a study file with another number of repeats
  allocanary study --candidates jemalloc jemalloc:narenas=2 --threads 32
  allocanary study --workloads server:live=64MiB,settle=3s --time-budget 5m
  allocanary study cores --plan     only print what would run, and how long
  allocanary study --resume --out-dir allocanary-out/default-1

A group such as `cases` applies each flag to each of its studies: --time-budget
is per study. A group refuses --workloads.";

/// Defaults and examples of `run`.
pub const RUN_EXAMPLES: &str = "\
Defaults:
  Candidates: own system system:arena_max=1 jemalloc jemalloc:narenas=1
  jemalloc:narenas=1,tcache=false mimalloc mimalloc:allow_thp=0. If no library
  can be preloaded into the program, only candidates with `own` run.
  10 repeats, and a run timeout of 60s. A first run is not measured.
  Without --tolerance, the answer takes no candidate whose throughput, p99 or
  CPU time is surely more than 10 % worse.
  A program with --ready or --load is a service. It runs until it is stopped.

Examples:
  allocanary run -- python3 script.py
  allocanary run --candidates own jemalloc:narenas=1 -- ./service --once
  allocanary run --stdin input.json --repeats 20 -- jq .
  allocanary run --candidates own preload=/usr/lib/libtcmalloc.so.4 -- ./job
  allocanary run --ready tcp:{port} \\
    --load 'redis-benchmark -p {port} -t get -q' \\
    --metric 'throughput=([0-9.]+) requests' -- \\
    redis-server --port {port} --dir {dir} --save ''
  allocanary run --memory-limit 256MiB --cpu-limit 0.5 --tolerance wall=5% \\
    -- ./batch-job
  allocanary run --program service.toml
  allocanary run --http 'http://localhost:{port}/' -- ./service --port {port}
  allocanary run --write-for kubernetes -- python3 script.py
  allocanary compare main-out branch-out --gate peak_resident=5%

Exit codes: 0 success; 1 a process failed; 2 the unchanged program could not
run, or bad input; 130 interrupted. Then no process of the program is left, and
every finished row is saved.";

/// Defaults and examples of `list`.
pub const LIST_EXAMPLES: &str = "\
Examples:
  allocanary list                   list everything, after a summary
  allocanary list settings | grep decay
      settings, their values here, what they do
  allocanary list workloads         workloads and their parameters";

/// Defaults and examples of `report`.
pub const REPORT_EXAMPLES: &str = "\
Examples:
  allocanary report allocanary-out/default-1
  allocanary report allocanary-out/default-1 --metrics all
  allocanary report node-*.jsonl --output fleet.html
  allocanary report traces/service-812-0.trace   a summary of a trace
  allocanary report service.trace --output service.html
  kubectl logs -l app=allocanary --tail=-1 | allocanary report -";

/// Defaults and examples of `compare`.
pub const COMPARE_EXAMPLES: &str = "\
Examples:
  allocanary compare main.jsonl branch.jsonl
  allocanary compare main.jsonl branch.jsonl --gate resident=5% \\
    --gate throughput=10%
  allocanary compare main.jsonl branch.jsonl --gate peak_resident=5% \\
    --gate peak_resident.p90=10%

Verdicts:
  better, worse   a statistically significant difference of more than 2 %
  equal           the whole 95 % interval of the ratio lies within the margin,
                  and no spikes
  different       one side has spikes: runs far beyond all of the other side's
  undecided       all other cases, and fewer than five samples
The margin is 2 %, or the gate of the metric. `compare` prints how many repeats
would decide.

A gate fails, with exit code 1, if
  - the metric clearly got worse by more than the gate: the whole interval lies
  beyond it,
  - the interval leaves this open (--undecided pass accepts it),
  - one side has no value of the metric, or only the new side has fewer than
  five,
  - a side is not finished,
  - or a candidate is missing from NEW, or has more failed processes there.
A gate on peak_resident compares the median runs. A gate on peak_resident.p90
compares what 90 % of the runs stay within, and needs 36 repeats.";

/// Defaults and examples of `doctor`.
pub const DOCTOR_EXAMPLES: &str = "\
Default: diagnose this host, for a program that is started from here.

Examples:
  allocanary doctor                 diagnose this host
  MALLOC_CONF=narenas:1 allocanary doctor
      check a variable: who reads it, what is wrong in it
  allocanary doctor 4242            inspect a running process, by its process ID
  allocanary doctor redis-server    by its name
  docker run --cpus 0.5 IMAGE allocanary doctor
      see the effect of a quota of half a CPU
  kubectl exec POD -- allocanary doctor 1

Exit codes: 0 whatever was found; 2 if the process does not exist or may not be
read.";

/// Defaults and examples of `node`.
pub const NODE_EXAMPLES: &str = "\
Defaults: the agent uses 1 % of one core. It counts all processes each minute,
and reads one heap at a time. It stops no process, loads nothing into one, and
changes no pod.

Examples:
  allocanary node --listen 127.0.0.1:9912   run the agent
  allocanary node --once                    read once, print the metrics
  allocanary node --once --json > node.json   a file for `allocanary fleet`
  allocanary node --listen 0.0.0.0:9912 --kubelet https://127.0.0.1:10250/pods
      with the names of pods
  allocanary node --listen 127.0.0.1:9912 --profiles
      also profiles, for `go tool pprof` (docs/fleet.md)
  allocanary node --listen 0.0.0.0:9912 --auth kubernetes \\
      --tls-certificate tls.crt --tls-key tls.key
      in a pod: for those of whom the API server says that they may
      (docs/fleet-security.md)

Exit codes: 0 success; 2 the port is taken, or --once cannot ask the kubelet.";

/// Defaults and examples of `fleet`.
pub const FLEET_EXAMPLES: &str = "\
Default: a table of all workloads. The workload with the most overhead is first.
Replicas on unlike nodes have separate rows.

Examples:
  allocanary fleet http://10.0.0.1:9912 http://10.0.0.2:9912
  allocanary fleet node-*.json --price 3.50     one GiB costs 3.50 for a month
  allocanary fleet node-*.json --output fleet.html  a page with a map
  allocanary fleet node-*.json --json           for a script

Exit codes: 0 success; 1 a node did not answer; 2 no node answered.";

/// Defaults and examples of `kube`.
pub const KUBE_EXAMPLES: &str = "\
`kubectl allocanary` does the same, if the script kubectl-allocanary is on PATH.
kubectl reaches the agents through the API server, with your rights. `top` needs
the right to get pods/proxy in the agents' namespace. `why` and `lines` need the
right to create pods/exec there.

Examples:
  allocanary kube top                       all workloads
  allocanary kube why web-5d8f9 -n shop     what its memory is, and what to do
  allocanary kube lines web-5d8f9 -n shop   the lines to paste
  allocanary kube debug web-5d8f9 -n shop   the commands, where no agent runs

Exit codes: 0 success; 1 an agent did not answer, or no remedy has lines; 2 no
agent answered.";

/// Defaults and examples of `try`.
pub const TRY_EXAMPLES: &str = "\
Default: while no replica has the variables, `try` prints the commands that give
them to one replica. It runs none of them. Once a replica has the variables,
`try` prints the verdict. Replicas are compared at the same age. So begin after
a rollout, or wait until the changed replica is half as old as the others.

Examples:
  allocanary try deployment/web --env MALLOC_ARENA_MAX=2 http://10.0.0.1:9912
      print the commands; the same line prints the verdict an hour later
  allocanary try deployment/web --env MALLOC_ARENA_MAX=2 --for 1h \\
      --out-dir readings http://10.0.0.1:9912  read for an hour, and judge
  allocanary try statefulset/db --env MALLOC_ARENA_MAX=2 --changed db-2 readings
      judge by the readings in this folder

Exit codes: 0 a verdict, or the commands; 1 undecided; 2 no node answers.";

/// Defaults and examples of `heap`.
pub const HEAP_EXAMPLES: &str = "\
Defaults: one process is read once, and the output is text. The process is not
stopped, and nothing is loaded into it.

Examples:
  allocanary heap 4242              by its process ID
  allocanary heap redis-server      by its name
  allocanary heap 4242 --output memory.html   a page with a map of the memory
  allocanary heap 4242 --every 5s   parts over time, until it ends
  allocanary heap 4242 --save before.json
      save a reading, and compare with a later one
  allocanary heap diff before.json after.json   what grew: live, or overhead
  allocanary heap show before.json   show a saved reading
  allocanary heap 4242 --contents
      kinds of objects, who holds them, what is leaked
  allocanary heap 4242 --tree   with all its children; shared pages count once
  sudo allocanary heap --all        every process, one line each
  allocanary heap 4242 --json | jq '.heaps[0].parts_bytes'

You need the same user and kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE
(docs/heap.md).

Exit codes: 0 success; 1 a heap was found and could not be analysed; 2 no such
process, several processes of that name, no right to read it, or bad input.";

/// Defaults and examples of `give-back`.
pub const GIVE_BACK_EXAMPLES: &str = "\
Defaults: the command prints how much memory can go, asks, and makes one call.
A thread of the process that waits in a system call calls malloc_trim(0)
(glibc), arena.4096.purge (jemalloc), mi_collect(true) (mimalloc) or
MallocExtension_ReleaseFreeMemory() (tcmalloc). Then it waits again. The other
threads are not stopped.

Examples:
  allocanary give-back 4242 --dry-run   only print how much can go
  sudo allocanary give-back 4242    the same, then a question, then the call
  allocanary give-back redis-server --yes   without a question, for a script
  allocanary give-back 4242 --yes --every 10m --while 'free_pages > 200MiB'
  allocanary give-back 4242 --yes --settings dirty_decay_ms=1000

You need the same user and kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE
(docs/give-back.md).

Exit codes: 0 memory was given back, or there was nothing to give; 1 the command
refused, knew no call, or the call failed (it prints the reason); 2 no such
process, several processes of that name, no right to read it, or bad input.";

/// Defaults and examples of `preload`.
pub const PRELOAD_EXAMPLES: &str = "\
Default: no settings. The allocator's own variables take precedence over
--settings.

Examples:
  allocanary preload jemalloc   where the library is, and how a program gets it
  allocanary preload jemalloc --settings 'narenas=per_cpu(1),tcache=false'
  allocanary preload system --settings tuned
      the set for a small service in a container
  allocanary preload system --settings 'arena_max=per_cpu(1),thread_idle=100ms'
  allocanary preload jemalloc | sed -n 's/^library *//p'
      the path alone, for a script

Settings:
  Those of install! (`allocanary list settings`). per_cpu(N) means N for each
  CPU of the container.
  tuned        the allocator's set for a small service. A setting beside it
               replaces the one of the set. It starts no thread, so it does not
               have jemalloc's background_thread, which install!'s set has
  thread_idle=100ms
               a thread that has waited for 100 ms gives back the memory that
               it keeps";

/// Defaults and examples of `tune`.
pub const TUNE_EXAMPLES: &str = "\
Defaults:
  Workload server, 16 threads, seed 1, 10 new rows for each finalist
  (--repeats).
  Time budget: 5m, or twice the time of the first race and the smallest proof,
  if that is more.
  Results go to a new folder, allocanary-out/tune-1 the first time.
  The memory that counts is resident memory when idle. For a program that ends,
  it is the peak. For a trace, it is resident memory without files.
  If the metric of a default limit is not measured, the limit is left out, and a
  line says so.

Examples:
  allocanary tune -- python3 script.py   a program that ends: its peak
  allocanary tune --ready 'tcp:{port}' --load 'redis-benchmark -p {port}' \\
    --metric 'throughput=([0-9.]+) requests' -- \\
    redis-server --port '{port}' --save ''
  allocanary tune examples/programs/redis.toml
      a study file with a [program] table
  allocanary tune service.trace --pace 1
      a trace of `allocanary record`; decay acts by time
  allocanary tune --workloads server --emulate-cpus 40
      a built-in workload on a host of 40 CPUs
  allocanary tune --workloads handoff --objective cpu --tolerance resident=10%
  allocanary tune --candidates jemalloc --present jemalloc:narenas=2 \\
    --time-budget 2m
  allocanary tune --resume --out-dir allocanary-out/tune-1 -- python3 script.py

\"Keep what you have\" is a result. Races choose the finalists, and all figures
come from new rows of the finalists.

Exit codes: 0 success, also if nothing better was found; 2 the search could not
run; 130 interrupted, and every finished row is saved.";

/// Defaults and examples of `completions`.
pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  allocanary completions bash > /etc/bash_completion.d/allocanary
  allocanary completions fish > ~/.config/fish/completions/allocanary.fish";

/// Defaults and examples of `man`.
pub const MAN_EXAMPLES: &str = "\
Examples:
  allocanary man > allocanary.1 && man ./allocanary.1
  allocanary man study | man -l -   read the page of `study`
  allocanary man --out-dir /usr/local/share/man/man1
      install the pages of the command and of all verbs";

/// Defaults and examples of `build`.
pub const BUILD_EXAMPLES: &str = "\
Defaults: each library is built once, with your cargo and C compiler, into the
user's cache. A build takes 30 s to 2 min. Before a library is kept, a test
checks threads, a fork, alignment and the version.

Examples:
  allocanary build                  what can be built, and what has been
  allocanary build mimalloc@2.2 jemalloc@5.3.0   the newest 2.2, and 5.3.0
  allocanary build snmalloc --offline
      from crates that cargo has downloaded before
  allocanary build --prune          remove all

Exit codes: 0 success; 2 no such version, or the build failed. Then its last
lines are printed.";

/// Defaults and examples of `record`.
pub const RECORD_EXAMPLES: &str = "\
Environment, for a program that is started in another way:
  LD_PRELOAD=/path/to/preload-record ALLOCANARY_RECORD=/folder PROGRAM
  ALLOCANARY_RECORD_MAX=BYTES        the largest trace
  ALLOCANARY_RECORD_WINDOW=MS        the length of a window, in milliseconds
  ALLOCANARY_RECORD_SAMPLE=N         record one block of N
  ALLOCANARY_RECORD_STACK_SAMPLE=N   record the stack of one allocation of N.
                                     1 is all, and 0, the default, is none

Examples:
  allocanary record -o traces -- ./service   until it ends; Ctrl-C ends it
  allocanary record -o traces --max-size 256MiB -- python3 service.py
  allocanary record --ready tcp:{port} --load 'redis-benchmark -p {port}' \\
    -- redis-server --port {port}
  allocanary record --program examples/programs/redis.toml
      a [program] table, as `run` takes it
  allocanary record --window 60s -- ./service   the last minute of a long run
  allocanary record --window 60s --stack-sample all -- ./service
      also the stacks, for `who`. After Ctrl-C or SIGTERM the command reads the
      memory, and then ends the program
  allocanary record --stack-sample 1/10 -- ./service
      the stack of one allocation in ten, which slows the program down less
  allocanary record --stack-sample off -- ./service   no stacks, for replays
  allocanary record --verify --candidates system mimalloc -- ./batch-job
      is a replay like the program?
  PYTHONMALLOC=malloc allocanary record -- python3 service.py
      see Python's small objects too

The command prints the names of the traces. A trace has the name of the
executable that really runs: Debian's redis-server is a link, and its trace is
redis-check-rdb-PID-0.trace.

With a flag of a service, or --before, --after or --stdin, the program runs as
in `run`, and its outputs are kept next to the traces. Otherwise it has this
terminal, and the exit code is the program's. With --verify the exit code is 0
if program and replay were measured under every candidate, otherwise 1.";

/// Defaults and examples of `trace`.
pub const TRACE_EXAMPLES: &str = "\
Examples:
  allocanary trace check traces/service-812-0.trace
  allocanary trace export traces/service-812-0.trace --format json
  allocanary trace export traces/service-812-0.trace > live.csv

`allocanary record` prints the name of each trace. Exit codes: 0 success; 1
`check` found damage; 2 the file is no trace.";

/// Defaults and examples of `who`.
pub const WHO_EXAMPLES: &str = "\
Defaults: the moment is `idle`, if the trace has this mark. Else it is the end,
if the recording was ended from outside, or else the peak of live bytes. Sites
are functions. A time such as 12s counts from the start of the trace, or of its
window.

Examples:
  allocanary record -o traces --stack-sample all -- ./service
  allocanary who traces/service-812-0.trace
      who pins pages, and what the allocator keeps
  allocanary who service.trace --by line --at peak
  allocanary who service.trace --at 12s --top 40
  allocanary who service.trace --sort grows   those that grow fastest first
  allocanary who service.trace --callers sdsnew
      who calls this function on the way to malloc
  allocanary who service.trace --skip 'sds*'   their callers are the sites
  allocanary who service.trace --under jemalloc:narenas=1
  allocanary who service.trace --what-if cacheInsert --under jemalloc
  allocanary who service.trace --json | jq '.sites[0]'
  allocanary who service.trace --format pprof --output who.pb.gz
  go tool pprof -top who.pb.gz
  allocanary who service.trace --format flamegraph --sort requested \\
    --output who.svg
  allocanary who new.trace --against old.trace --gate site=5%
  allocanary who 812
      a running process with a profile (`allocanary preload profile`)
  allocanary who 812 --format pprof --output heap.pb.gz

Columns:
  pinned       free bytes in pages that have a live block. All sites with live
               blocks in a page get equal shares
  alone        the share of pinned in pages where only this site has live blocks
  short        the share of its blocks that lived for at most 1 ms
  a minute     how fast its live bytes grow, from the mark `ready` until the end
               of the load. Without these marks, from the first quarter until
               the last tenth. A terminal of 110 columns or more shows it
  grows        its live bytes grow by 1 % or more of all live bytes, and do not
               stop. Not known for a trace of --window, or for less than 5 s
               without the mark `ready`
  no callers   the site's code has no unwinding tables: its stacks end there
docs/who.md explains these words.

Exit codes: 0 success; 1 a gate failed; 2 the trace has no stacks, or bad
input.";

/// Defaults and examples of `replay`.
pub const REPLAY_EXAMPLES: &str = "\
Examples:
  allocanary replay traces/service-812-0.trace
  allocanary replay service.trace --candidates system jemalloc \\
    --emulate-cpus 4,40
  allocanary replay service.trace --mark-at 12s,20s
      look for the peak until 12 s, read idle at 20 s
  allocanary replay service.trace --pace 1   keep idle gaps: decay acts by time

The figures are anonymous and peak_anonymous: resident memory that no file
backs, when idle and at its highest. Most of it is the allocator's, and a small
part is the replay's (METHOD.md).

The first replay writes the file .NAME.HASH.replay next to the trace, 16 bytes
for each call. Later replays read this file. You can delete it. If that folder
cannot be written, the file is in ~/.cache/allocanary.

A study can use the trace as well:
--workloads replay:trace=/path/to/service.trace,pace=1";

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part and each sum of the memory is explained by its key.
    #[test]
    fn the_glossary_has_every_part_and_sum() {
        let keys = allocanary_text::parts::PARTS.map(|part| part.key());
        for key in keys.into_iter().chain(["resident", "overhead", "outside"]) {
            assert!(GLOSSARY.contains(&format!("\n  {key:<13} ")), "{key}");
        }
    }

    /// clap breaks a wider line anywhere, and a test of what it prints cannot see that.
    #[test]
    fn no_text_is_wider_than_80_columns() {
        const ALL: &[&str] = &[
            OVERVIEW,
            EXAMPLES,
            GLOSSARY,
            GLOSSARY_EXAMPLES,
            STUDY_EXAMPLES,
            RUN_EXAMPLES,
            LIST_EXAMPLES,
            REPORT_EXAMPLES,
            COMPARE_EXAMPLES,
            DOCTOR_EXAMPLES,
            NODE_EXAMPLES,
            FLEET_EXAMPLES,
            KUBE_EXAMPLES,
            TRY_EXAMPLES,
            HEAP_EXAMPLES,
            GIVE_BACK_EXAMPLES,
            PRELOAD_EXAMPLES,
            TUNE_EXAMPLES,
            COMPLETIONS_EXAMPLES,
            MAN_EXAMPLES,
            BUILD_EXAMPLES,
            RECORD_EXAMPLES,
            TRACE_EXAMPLES,
            WHO_EXAMPLES,
            REPLAY_EXAMPLES,
        ];
        for line in ALL.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// The glossary in the help and the table of words in the documentation are the same.
    #[test]
    fn the_glossary_is_that_of_the_documentation() {
        let page = include_str!("../../../../docs/answers.md");
        let rows =
            page.split_once("\n## Words\n").expect("the section").1.lines().filter(|line| line.starts_with("| "));
        let rows = rows.skip(1).map(|row| {
            let (word, meaning) = row.trim_matches([' ', '|']).split_once(" | ").expect("two cells");
            format!("  {word:<13} {}", meaning.replace('`', ""))
        });
        // Joins the lines of one meaning: a continuation line is indented to the column of the meanings.
        let joined = GLOSSARY.replace(&format!("\n{:16}", ""), " ");
        let words = joined.lines().skip(1).map(|line| line.replace('`', ""));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            words.collect::<Vec<_>>(),
            "docs/answers.md and crates/command/src/args/examples.rs"
        );
    }
}
