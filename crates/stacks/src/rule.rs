//! The place of the caller's frame. In: a table's rules for an address. Out: one number, which other threads read in one
//! access.
//!
//! CFA (canonical frame address) is the address right above the return address on the stack: the caller's stack
//! pointer.

/// How the CFA is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// The stack pointer plus this offset.
    Rsp(i64),
    /// The frame pointer plus this offset.
    Rbp(i64),
    /// The word at the frame pointer plus this offset, in a function that has aligned its stack.
    AtRbp(i64),
    /// The kernel has called a signal handler, and has saved all registers above the stack pointer.
    Signal,
    /// There is no caller.
    End,
    /// The table is missing, damaged, or has a rule that is not supported here. The walk ends.
    Unknown,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rbp {
    /// It is unchanged.
    Same,
    /// At the CFA plus this offset.
    AtCfa(i64),
    /// At the frame pointer plus this offset.
    AtRbp(i64),
}

/// Where the return address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// At the CFA plus this offset.
    AtCfa(i64),
    /// In the register in which the processor puts it: x30 of aarch64.
    Register,
}

/// A rule for code whose return address can be anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerRule {
    /// How the CFA is found.
    pub cfa: Cfa,
    /// Where the caller's frame pointer is.
    pub rbp: Rbp,
    /// Where the return address is.
    pub back: Back,
}

impl CallerRule {
    /// The rule that ends a walk.
    pub const UNKNOWN: CallerRule = CallerRule { cfa: Cfa::Unknown, rbp: Rbp::Same, back: Back::Register };
}

impl From<Rule> for CallerRule {
    /// A rule of x86-64, where a call writes the return address right below the CFA.
    fn from(rule: Rule) -> CallerRule {
        CallerRule { cfa: rule.cfa(), rbp: rule.rbp(), back: Back::AtCfa(-8) }
    }
}

/// A rule as one number. 0 means that the rule was not looked up yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Rule(pub u64);

const CFA_BITS: u32 = 30;
const RBP_BITS: u32 = 29;

/// Sign-extends the lowest `bits` bits of a word.
fn extend(word: u64, bits: u32) -> i64 {
    ((word << (64 - bits)) as i64) >> (64 - bits)
}

fn fits(number: i64, bits: u32) -> bool {
    extend(number as u64, bits) == number
}

impl Rule {
    /// The rule that ends a walk.
    pub const UNKNOWN: Rule = Rule(6);

    /// The rule of a function that has put the caller's frame pointer and the return address where its own frame pointer is, as all of aarch64
    /// that call another one do.
    pub fn of_frame() -> Rule {
        Rule::new(Cfa::Rbp(16), Rbp::AtCfa(-16))
    }

    /// Makes a rule. If an offset is 256 MiB or more, the rule is [`Rule::UNKNOWN`], so that the walk ends there.
    pub fn new(cfa: Cfa, rbp: Rbp) -> Rule {
        let (kind, distance) = match cfa {
            Cfa::Rsp(distance) => (1, distance),
            Cfa::Rbp(distance) => (2, distance),
            Cfa::AtRbp(distance) => (3, distance),
            Cfa::Signal => (4, 0),
            Cfa::End => (5, 0),
            Cfa::Unknown => return Rule::UNKNOWN,
        };
        let (place, apart) = match rbp {
            Rbp::Same => (0, 0),
            Rbp::AtCfa(apart) => (1, apart),
            Rbp::AtRbp(apart) => (2, apart),
        };
        if !fits(distance, CFA_BITS) || !fits(apart, RBP_BITS) {
            return Rule::UNKNOWN;
        }
        let distance = (distance as u64 & ((1 << CFA_BITS) - 1)) << 5;
        Rule(kind | place << 3 | distance | (apart as u64) << (64 - RBP_BITS))
    }

    /// How the CFA is found.
    #[inline]
    pub fn cfa(self) -> Cfa {
        let distance = extend(self.0 >> 5, CFA_BITS);
        match self.0 & 7 {
            1 => Cfa::Rsp(distance),
            2 => Cfa::Rbp(distance),
            3 => Cfa::AtRbp(distance),
            4 => Cfa::Signal,
            5 => Cfa::End,
            _ => Cfa::Unknown,
        }
    }

    /// Where the caller's frame pointer is.
    #[inline]
    pub fn rbp(self) -> Rbp {
        let apart = (self.0 as i64) >> (64 - RBP_BITS);
        match self.0 >> 3 & 3 {
            0 => Rbp::Same,
            1 => Rbp::AtCfa(apart),
            _ => Rbp::AtRbp(apart),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_was_made() {
        for distance in [0, 8, -8, 160, 1 << 20, -(1 << 29), (1 << 29) - 1] {
            for cfa in [Cfa::Rsp(distance), Cfa::Rbp(distance), Cfa::AtRbp(distance), Cfa::Signal, Cfa::End] {
                for rbp in
                    [Rbp::Same, Rbp::AtCfa(-16), Rbp::AtRbp(0), Rbp::AtCfa((1 << 28) - 1), Rbp::AtRbp(-(1 << 28))]
                {
                    let rule = Rule::new(cfa, rbp);
                    assert_eq!((rule.cfa(), rule.rbp()), (cfa, rbp));
                    assert_ne!(rule, Rule::default());
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_ends_the_walk() {
        assert_eq!(Rule::new(Cfa::Rsp(1 << 29), Rbp::Same), Rule::UNKNOWN);
        assert_eq!(Rule::new(Cfa::Rsp(8), Rbp::AtCfa(1 << 28)), Rule::UNKNOWN);
        assert_eq!((Rule::UNKNOWN.cfa(), Rule::default().cfa()), (Cfa::Unknown, Cfa::Unknown));
    }
}
