//! The examples that stand under each help text. In: nothing. Out: texts of at most 100 columns.

/// Of the command without a verb.
pub const EXAMPLES: &str = "\
Examples:
  allocanary                                     this build's allocator, 1 to 64 threads
  _RJEM_MALLOC_CONF=narenas:1 allocanary         the same, with one arena
  allocanary study                               every allocator, two minutes
  allocanary study cores                         memory by the host's cores, as in 2018
  allocanary study --candidates system jemalloc jemalloc:narenas=1 --threads 32
  allocanary report allocanary-out/default-1 --format markdown
  allocanary compare old.jsonl new.jsonl --gate rss=5%
  allocanary doctor                              what this host makes of allocators, what to change

Exit codes: 0 all went well; 1 a cell failed or a gate was broken; 2 the command could not be
carried out; 130 interrupted, with every finished row kept.";

/// Of `study`.
pub const STUDY_EXAMPLES: &str = "\
Examples:
  allocanary study                               the default study, in two minutes
  allocanary study cores                         a shipped study (`allocanary list studies`)
  allocanary study cases                         what others published, and what it is here, in three minutes
  allocanary study sort --full                   one of those cases, at the published sizes
  allocanary study my.toml --repeats 20          a file, with one thing changed
  allocanary study --candidates jemalloc:narenas=2 jemalloc:narenas=256 --threads 32
  allocanary study --workloads server:live=64MiB,idle=3000 --budget 5m
  allocanary study --resume --out allocanary-out/default-1

In a group such as `cases` the flags hold for each of its studies, --budget too; --workloads is refused.";

/// Of `plan`.
pub const PLAN_EXAMPLES: &str = "\
Examples:
  allocanary plan                                the default study's cells
  allocanary plan cores --repeats 30 | tail -1   how long would that take?";

/// Of `list`.
pub const LIST_EXAMPLES: &str = "\
Examples:
  allocanary list                                everything
  allocanary list settings | grep decay          what can be set, its value here, what it does
  allocanary list workloads";

/// Of `report`.
pub const REPORT_EXAMPLES: &str = "\
Examples:
  allocanary report allocanary-out/default-1
  allocanary report node-*.jsonl --format html --to fleet.html
  kubectl logs -l app=allocanary --tail=-1 | allocanary report -";

/// Of `compare`.
pub const COMPARE_EXAMPLES: &str = "\
Examples:
  allocanary compare main.jsonl branch.jsonl
  allocanary compare main.jsonl branch.jsonl --gate rss=5% --gate throughput=10%

Verdicts: better; worse; equal (the whole 95 % interval lies within the gate, or 2 % without one);
undecided (anything else). A gate fails, and the exit code is 1, where the metric got worse for sure
and by more than the gate, where the samples leave that open (--undecided pass lets this through),
and where one side has no figure. It says how many repeats would decide.";

/// Of `doctor`.
pub const DOCTOR_EXAMPLES: &str = "\
Examples:
  allocanary doctor                              what a program started from here would get
  MALLOC_CONF=narenas:1 allocanary doctor        whether a variable is read, by whom, and what is wrong in it
  allocanary doctor --pid 4242                   which allocator a process has, its memory and its environment
  docker run --cpus 0.5 IMAGE allocanary doctor  what a quota of half a CPU makes of it
  kubectl exec POD -- allocanary doctor --pid 1

Exit codes: 0 whatever was found; 2 where the process is not there or may not be read.";
