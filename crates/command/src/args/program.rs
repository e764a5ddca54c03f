//! The flags of a program, and of `run`. In: what the user typed. Out: the fields of a study file, and of its program.

use std::path::PathBuf;

use clap::Args;

use super::http::{self, Http};
use super::measure::{RepeatFlags, RowsFlags, RunFlags};
use super::output::TableFlags;
use allocanary_rows::program::Program;
use allocanary_study::session::StudyFile;

/// How a program is started, loaded and stopped: flags of `run`, of `tune` and of `record`.
#[derive(Args, Clone, Default)]
pub struct ServiceFlags {
    /// The file that the program reads as standard input [default: empty].
    #[arg(long, value_name = "FILE")]
    stdin: Option<String>,
    /// Shell command before the program [default: none].
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,
    /// Shell command after the program [default: none].
    #[arg(long, value_name = "COMMAND")]
    after: Option<String>,
    /// When a service is ready: tcp:PORT, http://..., line:TEXT or a command.
    #[arg(long, value_name = "CONDITION")]
    ready: Option<String>,
    /// Shell command that loads the service.
    #[arg(long, value_name = "COMMAND")]
    load: Option<String>,
    /// Time for which a service is idle before its memory is read [default: 5s].
    #[arg(long, value_name = "TIME")]
    settle: Option<String>,
    /// Signal that ends a service [default: SIGTERM; after 10s SIGKILL].
    #[arg(long, value_name = "SIGNAL")]
    stop: Option<String>,
}

impl ServiceFlags {
    /// The program of `file`, changed by each flag that was given.
    pub fn over(&self, file: Program) -> Program {
        Program {
            stdin: self.stdin.clone().or(file.stdin),
            before: self.before.clone().or(file.before),
            after: self.after.clone().or(file.after),
            ready: self.ready.clone().or(file.ready),
            load: self.load.clone().or(file.load),
            settle: self.settle.clone().or(file.settle),
            stop: self.stop.clone().or(file.stop),
            ..file
        }
    }
}

/// A program that runs instead of a workload.
#[derive(Args, Clone, Default)]
pub struct ProgramFlags {
    /// The program and its arguments, after `--`.
    ///
    /// {port} is a free TCP port and {dir} an empty folder, new for each process; also in --ready, --load, --before and --after.
    ///
    /// A program that ends before its memory can be read runs once more, for its peak alone, unless it has --before or --after.
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    pub program: Vec<String>,
    /// The name of the program in rows and reports [default: its command line].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A service from one flag: it is ready when the URL answers, and oha, wrk or hey loads it for 5 s [default: none].
    ///
    /// The first of these that is installed reads throughput and p99. --ready, --load and --metric take the place of its parts.
    #[arg(long, value_name = "URL", value_parser = http::parse)]
    http: Option<Http>,
    /// How it is started, loaded and stopped.
    #[command(flatten)]
    service: ServiceFlags,
    /// Shell command that must succeed on the program's standard output [default: none].
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Accept an output that differs from candidate to candidate [default: off].
    #[arg(long)]
    any_output: bool,
    /// Figure from the output of the load or the program: NAME[:UNIT]=REGEX; may be repeated.
    ///
    /// The first group is the number, a second one its unit; the last match counts. Names with a meaning: throughput, p50,
    /// p99, p999. NAME:higher or NAME:lower says which is better [default: lower, for rates higher].
    #[arg(long, value_name = "NAME=REGEX")]
    metric: Vec<String>,
    /// Memory limit of each process's control group, such as 256MiB [default: none].
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// CPU limit of each process's control group, such as 0.5 [default: none].
    #[arg(long, value_name = "CPUS")]
    cpu_limit: Option<String>,
}

impl ProgramFlags {
    /// The program of `file`, changed by each flag that was given.
    pub fn over(&self, file: Program) -> Program {
        let file = self.service.over(file);
        let mut metric = file.metric;
        for text in &self.metric {
            let (name, expression) = text.split_once('=').unwrap_or((text, ""));
            metric.insert(name.to_string(), expression.to_string());
        }
        let program = Program {
            command: if self.program.is_empty() { file.command } else { self.program.clone() },
            name: self.name.clone().or(file.name),
            check: self.check.clone().or(file.check),
            any_output: self.any_output || file.any_output,
            metric,
            memory_limit: self.memory_limit.clone().or(file.memory_limit),
            cpu_limit: self.cpu_limit.clone().or(file.cpu_limit),
            ..file
        };
        self.http.as_ref().map_or(program.clone(), |http| http.over(program))
    }
}

/// Flags of `run`.
#[derive(Args, Clone, Default)]
pub struct ProgramStudyFlags {
    /// The program.
    #[command(flatten)]
    pub program: ProgramFlags,
    /// Allocators with settings, such as own system:arena_max=1 jemalloc:narenas=1 [default: eight].
    ///
    /// `own` is the unchanged program, and own:KEY=VALUE changes a setting of its allocator. `system`, `jemalloc`
    /// and `mimalloc` are preloaded. `preload=/path/lib.so,env.NAME=VALUE` is any other library. The first candidate is the
    /// baseline.
    #[arg(long, value_name = "CANDIDATE", num_args = 1..)]
    candidates: Option<Vec<String>>,
    /// A TOML file with a [program] table; flags replace its values.
    #[arg(long = "program", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Numbers of CPUs that the program sees under a preload; `own` sees this host's [default: this host's].
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    emulate_cpus: Option<Vec<u32>>,
    /// What the best candidate may cost in other metrics: throughput=5%,p99=10%; others are not limited [default: throughput, p99 and cpu not surely more than 10 % worse].
    #[arg(long, value_name = "METRIC=PERCENT", value_delimiter = ',')]
    tolerance: Vec<String>,
    /// How often, and how long.
    #[command(flatten)]
    repeats: RepeatFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
    /// Where to write rows alone.
    #[command(flatten)]
    pub rows: RowsFlags,
    /// Continue an interrupted run: its folder is --out-dir [default: off].
    #[arg(long)]
    pub resume: bool,
    /// What is printed.
    #[command(flatten)]
    pub tables: TableFlags,
}

impl ProgramStudyFlags {
    /// The flags as the fields of a study file.
    pub fn study(&self) -> StudyFile {
        StudyFile {
            candidates: self.candidates.clone(),
            emulate_cpus: self.emulate_cpus.clone(),
            program: Some(self.over(Program::default())),
            ..self.repeats.file()
        }
    }

    /// The program of `file`, changed by each flag that was given.
    pub fn over(&self, file: Program) -> Program {
        let program = self.program.over(file);
        match self.tolerance.is_empty() {
            true => program,
            false => Program { tolerance: self.tolerance.clone(), ..program },
        }
    }
}
