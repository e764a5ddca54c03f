//! How long a process waits for `mmap` while its memory is read. The control is a read of its `smaps`, during which the kernel lets no
//! thread of the process map memory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::Place;
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "reading",
    works: "the longest `mmap` of a process under `heap` and `doctor` takes less than a quarter of the longest while its smaps is read",
    broken: "it takes more than a quarter",
    limit: 0.25,
    begin,
};

/// The program's mapped memory: the kernel takes some 50 ms for its `smaps`.
const MIB: &str = "1024";
/// Readings of each kind for a pair, in turns. On a busy machine the process also waits for a processor. A reader that holds the lock for
/// long does so each time, so the shortest of our readings counts. During a read of `smaps` the process may not have tried to map, so the
/// longest of those counts.
const TURNS: usize = 3;

/// A program that prints the time of its longest `mmap`.
struct Maps {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Maps {
    /// The longest `mmap` since the last call, in nanoseconds.
    fn longest(&mut self) -> Result<f64, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::Failed(format!("the program that maps: {why}"));
        let input = self.child.stdin.as_mut().ok_or_else(|| failed(&"it has no input"))?;
        input.write_all(b"\n").map_err(|error| failed(&error))?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| failed(&error))?;
        line.trim().parse().map_err(|error| failed(&error))
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begin(place: &Place) -> Result<Measure, Problem> {
    let failed = |what: &str, why: &dyn std::fmt::Display| Problem::Failed(format!("{what}: {why}"));
    let program = place.compiled("measured/programs/waits.c")?;
    let command = place.binary("allocanary")?;
    let mut child = Command::new(program);
    let mut child = child
        .args(["1", MIB])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("starting the program that maps", &error))?;
    let output = child.stdout.take().ok_or_else(|| failed("the program that maps", &"it has no output"))?;
    let mut maps = Maps { child, output: BufReader::new(output) };
    // It answers when all is mapped.
    maps.output.read_line(&mut String::new()).map_err(|error| failed("the program that maps", &error))?;
    let pid = maps.child.id().to_string();
    Ok(Box::new(move || {
        let (mut ours, mut kernels) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            maps.longest()?;
            for verb in ["heap", "doctor"] {
                let status = Command::new(&command).args([verb, &pid]).stdout(Stdio::null()).status();
                match status.map_err(|error| failed(verb, &error))?.code() {
                    // Exit code 1: memory that is not malloc's is not analysed.
                    Some(0 | 1) => {}
                    code => return Err(failed(verb, &format_args!("it ended with {code:?}"))),
                }
            }
            ours.push(maps.longest()?);
            fs::read(format!("/proc/{pid}/smaps")).map_err(|error| failed("reading smaps", &error))?;
            kernels.push(maps.longest()?);
        }
        for values in [&mut ours, &mut kernels] {
            values.sort_unstable_by(f64::total_cmp);
        }
        Ok(Pair { checked: ours[0], control: kernels[TURNS - 1] })
    }))
}
