//! Lists the IDs of processes and threads, from the folders of `/proc`.

use std::fs;
use std::io::Result;

use crate::sys::read_whole;

/// The IDs of all processes that `/proc` shows.
pub fn pids() -> Vec<u32> {
    numbers("/proc").unwrap_or_default()
}

/// The thread IDs of a process.
pub fn tids(pid: u32) -> Result<Vec<u32>> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Whether there is a process with this ID.
pub fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// The IDs of the children of a process, with those that it has adopted. `None` if the kernel has no such list (CONFIG_PROC_CHILDREN), or
/// the process has ended.
pub fn children(pid: u32) -> Option<Vec<u32>> {
    let tids = tids(pid).ok()?;
    let texts = tids.into_iter().filter_map(|tid| read_whole(format!("/proc/{pid}/task/{tid}/children")).ok());
    texts.map(|text| parse_children(&text)).reduce(|one, other| [one, other].concat())
}

/// The numbers in a text of `/proc/PID/task/TID/children`.
pub fn parse_children(text: &[u8]) -> Vec<u32> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter_map(|word| str::from_utf8(word).ok()?.parse().ok()).collect()
}

/// The entries of a folder that are numbers.
fn numbers(folder: &str) -> Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_its_threads_and_its_child_are_found() {
        let pid = std::process::id();
        assert!(pids().contains(&pid) && tids(pid).unwrap().contains(&pid) && exists(pid));
        assert!(tids(u32::MAX).is_err() && !exists(u32::MAX) && children(u32::MAX).is_none());
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        // The kernel may leave one out while another child ends, as those of the other tests do.
        let is_found = || children(pid).is_none_or(|found| found.contains(&child.id()));
        let is_found = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_found()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_found);
    }

    #[test]
    fn a_text_of_children_is_numbers() {
        assert_eq!(parse_children(b"12 345 \n"), [12, 345]);
        assert_eq!(parse_children(b"\xff x -1 99999999999 7"), [7]);
        assert_eq!(parse_children(b""), [0; 0]);
    }
}
