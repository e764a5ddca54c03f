//! Calls an allocator from outside, by callers that are killed. `killed ALLOCATOR PID CALLERS [once STEPS]`. Without `once` it starts CALLERS
//! callers, one after the other. Every third caller kills itself after a number of steps that rises by one each time. The others are killed after
//! a random time. With `once STEPS` this process is such a caller, and kills itself after STEPS steps. Prints how many callers were killed, and
//! how many made their call before.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use allocanary_inside::give_back::{Limits, carry_out, remedy, steps};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(allocator), Some(pid), Some(count)) = (words.first(), number(&words, 1), number(&words, 2)) else {
        eprintln!("killed: wanted ALLOCATOR PID CALLERS; found {words:?}");
        std::process::exit(2);
    };
    let Some(remedy) = remedy::of(allocator) else {
        eprintln!("killed: {allocator} has no remedy");
        std::process::exit(2);
    };
    if let Some(after) = number(&words, 4) {
        steps::end_after(after);
        let limits = Limits { patience: Duration::from_secs(10), every: None };
        let done = carry_out(pid, remedy, &(remedy.calls)(), limits);
        done.inspect_err(|refusal| eprintln!("{refusal}")).map_or_else(|_| std::process::exit(1), |_| ());
        // If some of STEPS are left, the caller has made all of its steps.
        std::process::exit(if after != 0 && steps::left() > 0 { 3 } else { 0 });
    }
    let (mut killed, mut made, mut refused) = (0, 0, 0);
    let mut tally = |status: ExitStatus| match (status.signal(), status.code()) {
        (Some(_), _) => killed += 1,
        (None, Some(0 | 3)) => made += 1,
        _ => refused += 1,
    };
    let (mut after, mut seed, mut longest) = (1, 1_u64, 20_000);
    for caller in 0..count {
        let begun = Instant::now();
        if caller % 3 == 0 {
            let status = start(allocator, pid, after).wait().expect("a caller ends");
            after = if status.code() == Some(3) { 1 } else { after + 1 };
            tally(status);
            continue;
        }
        let mut child = start(allocator, pid, 0);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((seed >> 33) % longest));
        let _ = child.kill();
        let status = child.wait().expect("a caller ends");
        // The random times are adapted, so that most callers are killed before they end.
        longest =
            if status.signal().is_some() { longest + 100 } else { (begun.elapsed().as_micros() as u64).max(1000) };
        tally(status);
    }
    let lives = std::path::Path::new(&format!("/proc/{pid}/exe")).exists();
    println!("callers={count} killed={killed} made={made} refused={refused} lives={}", u32::from(lives));
}

fn number(words: &[String], at: usize) -> Option<u32> {
    words.get(at)?.parse().ok()
}

fn start(allocator: &str, pid: u32, after: u32) -> std::process::Child {
    let own = std::env::current_exe().expect("this program has a path");
    let words = [allocator, &pid.to_string(), "1", "once", &after.to_string()].map(String::from);
    let child = Command::new(own).args(words).stderr(Stdio::null()).spawn();
    child.expect("a caller starts")
}
