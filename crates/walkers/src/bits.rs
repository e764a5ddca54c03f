//! Runs of set bits.

/// Visits each run of set bits. `visit` gets the index of its first bit, and its length.
pub fn each_run(bits: &[u64], mut visit: impl FnMut(u64, u64)) {
    let (mut first, mut count) = (0, 0);
    for (word, &bits) in bits.iter().enumerate() {
        let mut at = 0;
        while at < 64 && bits >> at != 0 {
            let from = at + (bits >> at).trailing_zeros();
            let length = (bits >> from).trailing_ones();
            let begins = 64 * word as u64 + u64::from(from);
            if count > 0 && first + count == begins {
                count += u64::from(length);
            } else {
                if count > 0 {
                    visit(first, count);
                }
                (first, count) = (begins, u64::from(length));
            }
            at = from + length;
        }
    }
    if count > 0 {
        visit(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_on_in_the_next_word() {
        let mut runs = Vec::new();
        each_run(&[0b1101 | 1 << 63, 0b11, u64::MAX, 0], |from, count| runs.push((from, count)));
        assert_eq!(runs, [(0, 1), (2, 2), (63, 3), (128, 64)]);
    }

    #[test]
    fn no_bit_is_no_run() {
        each_run(&[0, 0], |_, _| panic!("a run"));
    }
}
