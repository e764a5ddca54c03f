//! The instructions that a program executes: the same number in every run, however busy the machine is. In: a command.
//! Out: callgrind's count, from valgrind.

use std::process::Command;

/// Whether valgrind is installed. Says on standard output what is missing if it is not.
pub fn is_here() -> bool {
    let here = Command::new("valgrind").arg("--version").output().is_ok();
    if !here {
        println!("instructions: skipped, valgrind is not installed (apt-get install valgrind)");
    }
    here
}

/// The instructions that the command's program executes with its arguments and variables.
///
/// jemalloc purges by the clock, and a busy machine would be in the count: it runs without decay.
///
/// # Panics
///
/// If valgrind cannot be started or gives no count: with what it said.
pub fn instructions(command: &Command) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => valgrind.env(name, value),
            None => valgrind.env_remove(name),
        };
    }
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = valgrind.arg(command.get_program()).args(command.get_args()).output().expect("valgrind starts");
    let text = String::from_utf8_lossy(&output.stderr);
    // ==123== Collected : 1234567
    let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.unwrap_or_else(|| panic!("no count in what valgrind said of {command:?}: {text}"))
}

/// Instructions of one repetition: `command` makes the command of so many. The difference of two counts leaves out what a
/// process costs by itself.
pub fn each(few: u64, many: u64, command: impl Fn(u64) -> Command) -> f64 {
    (instructions(&command(many)) - instructions(&command(few))) as f64 / (many - few) as f64
}
