//! Finds out whether the kernel hides the processes of other users from this one (mount option `hidepid` of `/proc`), from this process's
//! `mountinfo` and `status`.

use std::io::Result;

use super::ProcStatus;
use crate::sys::{first_number, read_whole};

/// The bit of CAP_SYS_PTRACE, with which nothing is hidden.
const SYS_PTRACE: u32 = 19;

/// The mount option by which `/proc` hides processes from this process, such as `hidepid=invisible`. `None` if it hides none.
pub fn hides_by() -> Result<Option<String>> {
    Ok(option(&read_whole("/proc/self/mountinfo")?, &read_whole("/proc/self/status")?))
}

fn option(mounts: &[u8], status: &[u8]) -> Option<String> {
    let mounts = String::from_utf8_lossy(mounts);
    // `22 60 0:21 / /proc rw,nosuid shared:12 - proc proc rw,gid=5,hidepid=invisible`. A later mount covers an earlier one.
    let of_proc = |line: &&str| line.split(' ').nth(4) == Some("/proc") && line.contains(" - proc ");
    let options = mounts.lines().rfind(of_proc)?.rsplit(' ').next()?;
    let value = |name: &str| options.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
    let how = value("hidepid").filter(|how| !matches!(*how, "0" | "off"))?;
    let may_trace = ProcStatus::parse(status).capabilities.is_some_and(|all| all >> SYS_PTRACE & 1 == 1);
    // Members of the group see all processes, except with `ptraceable`: that option shows only processes that may be traced.
    let is_member = !matches!(how, "4" | "ptraceable")
        && value("gid").and_then(|gid| gid.parse().ok()).is_some_and(|gid: u64| groups(status).contains(&gid));
    (!may_trace && !is_member).then(|| format!("hidepid={how}"))
}

/// The groups of a process: the one for access to files, and the supplementary ones.
fn groups(status: &[u8]) -> Vec<u64> {
    let line = |name: &[u8]| status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
    let numbers = |text: &[u8]| text.split(u8::is_ascii_whitespace).filter_map(first_number).collect::<Vec<u64>>();
    let of_files = line(b"Gid:").map(numbers).unwrap_or_default().into_iter().nth(3);
    of_files.into_iter().chain(line(b"Groups:").map(numbers).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: &str, status: &str) -> Option<String> {
        let mounts = format!(
            "22 60 0:21 / /proc rw shared:12 - proc proc rw\n23 60 0:22 / /sys rw - sysfs sysfs rw\n\
             24 60 0:21 / /proc rw,nosuid - proc proc {options}\n"
        );
        option(mounts.as_bytes(), status.as_bytes())
    }

    const NOBODY: &str = "Gid:\t7\t7\t7\t7\nGroups:\t \nCapEff:\t0000000000000000\n";

    #[test]
    fn processes_are_hidden_by_an_option_from_who_may_not_trace_and_is_not_in_the_group() {
        for how in ["1", "2", "4", "noaccess", "invisible", "ptraceable"] {
            assert_eq!(told(&format!("rw,hidepid={how}"), NOBODY), Some(format!("hidepid={how}")));
            assert_eq!(told(&format!("rw,hidepid={how}"), &NOBODY.replace("0000\n", "80000\n")), None, "SYS_PTRACE");
        }
        for none in ["rw", "rw,hidepid=0", "rw,hidepid=off"] {
            assert_eq!(told(none, NOBODY), None, "{none}");
        }
        let in_group = NOBODY.replace("Groups:\t ", "Groups:\t3 5 ");
        assert_eq!(told("rw,gid=5,hidepid=invisible", &in_group), None);
        assert_eq!(told("rw,gid=7,hidepid=2", NOBODY), None, "the group of its files");
        assert!(
            told("rw,gid=5,hidepid=ptraceable", &in_group).is_some() && told("rw,gid=5,hidepid=2", NOBODY).is_some()
        );
    }

    #[test]
    fn this_process_is_told_something() {
        assert!(hides_by().is_ok());
    }
}
