//! Words that a program gave to the kernel, which returns them later: the data of epoll's descriptors and of timers. They are read from
//! texts of the kernel.

/// The words of a file of `/proc/PID/fdinfo` of an epoll descriptor: one for each descriptor that it watches.
pub fn epoll_data(text: &[u8]) -> Vec<u64> {
    let lines = lines(text).filter(|line| line.starts_with("tfd:"));
    let data = |line: &str| line.split_once("data:").and_then(|(_, rest)| hexadecimal(rest.split_whitespace().next()?));
    lines.filter_map(data).collect()
}

/// The words of `/proc/PID/timers`: one for each timer.
pub fn timer_data(text: &[u8]) -> Vec<u64> {
    let lines = lines(text).filter_map(|line| line.strip_prefix("signal:"));
    lines.filter_map(|line| hexadecimal(line.split_once('/')?.1.trim())).collect()
}

/// These lines contain no text that the program chooses, so they are UTF-8.
fn lines(text: &[u8]) -> std::str::Lines<'_> {
    std::str::from_utf8(text).unwrap_or_default().lines()
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_epoll_are_told() {
        let text = b"pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1057\n\
                     tfd:        5 events:       19 data:     55d0c0de10  pos:0 ino:421 sdev:f\n\
                     tfd:        6 events:       19 data: ffffffffffffffff  pos:0 ino:421 sdev:f\ntfd: 7 events: 1\n";
        assert_eq!(epoll_data(text), [0x55_d0c0_de10, u64::MAX]);
        assert!(epoll_data(b"pos:\t0\n").is_empty());
    }

    #[test]
    fn the_words_of_timers_are_told() {
        let text =
            b"ID: 0\nsignal: 10/000055d0c0de1230\nnotify: signal/pid.77\nClockID: 1\nID: 1\nsignal: 0/0x0\nsignal: x\n";
        assert_eq!(timer_data(text), [0x55d0_c0de_1230, 0]);
    }
}
