//! Counts the instructions that a program executes, with callgrind of valgrind. The count is the same in every run, however busy the
//! machine is.

use std::process::Command;

/// Whether valgrind is installed. If not, it prints on standard output what is missing.
pub fn is_here() -> bool {
    let here = Command::new("valgrind").arg("--version").output().is_ok();
    if !here {
        println!("instructions: skipped, valgrind is not installed (apt-get install valgrind)");
    }
    here
}

/// The number of instructions that the command's program executes, with the command's arguments and variables.
///
/// jemalloc runs without decay: it purges by the clock, so otherwise the count would depend on how busy the machine is.
///
/// # Panics
///
/// If valgrind cannot be started or prints no count. The message contains valgrind's output.
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

/// The instructions of one repetition, from the counts of a run with `few` and a run with `many` repetitions. `command` makes the command
/// for a number of repetitions. The difference of the two counts leaves out the start and end of the process.
pub fn each(few: u64, many: u64, command: impl Fn(u64) -> Command) -> f64 {
    (instructions(&command(many)) - instructions(&command(few))) as f64 / (many - few) as f64
}
