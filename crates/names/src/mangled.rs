//! Converts the mangled name of a symbol, or of a C++ type, to the name in the source.
//!
//! Only names with the beginning of a mangled name are converted. `w`, `St` and `Pc` are functions of C programs, but also codes of C++
//! types: a demangler would make `wchar_t`, `std` and `char*` of them.

use std::borrow::Cow;
use std::fmt::{Error, Result, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// Longer names are not converted.
const LONGEST: usize = 4096;
/// The most bytes of a converted name. A short mangled name can repeat its parts again and again.
const MOST: usize = 64 << 10;

/// The mangled names of C++ and of Rust begin so. Some systems put another `_` before each name.
const BEGINNINGS: [&str; 4] = ["_Z", "__Z", "_R", "__R"];

/// The name of a function or a variable, from its symbol. A name that is not mangled stays as it is. Rust's hash is left out.
pub fn demangled(symbol: &str) -> Cow<'_, str> {
    let is_mangled = BEGINNINGS.iter().any(|start| symbol.starts_with(start));
    let name = (is_mangled && symbol.len() <= LONGEST).then(|| rust(symbol).or_else(|| cpp(symbol))).flatten();
    name.map_or(symbol.into(), Cow::from)
}

/// The name of a C++ type, from the text in its type information.
pub fn type_name(text: &str) -> Cow<'_, str> {
    const BEFORE: &str = "typeinfo name for ";
    let name = (text.len() <= LONGEST).then(|| cpp(&format!("_ZTS{text}"))).flatten();
    name.and_then(|name| name.strip_prefix(BEFORE).map(String::from)).map_or(text.into(), Cow::from)
}

fn rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut out = Bounded::default();
    write!(out, "{name:#}").ok()?;
    Some(out.0)
}

fn cpp(symbol: &str) -> Option<String> {
    let mut out = Bounded::default();
    Symbol::new(symbol).ok()?.structured_demangle(&mut out, &DemangleOptions::default()).ok()?;
    Some(out.0)
}

/// A text that does not grow beyond its limit.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> Result {
        if self.0.len() + text.len() > MOST {
            return Err(Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_are_those_of_the_source() {
        for (symbol, name) in [
            ("_ZN3app5cacheE", "app::cache"),
            ("_ZN4main5CACHE17h0123456789abcdefE", "main::CACHE"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZL1wi", "w(int)"),
            ("_Z1fSt6vectorIiSaIiEE", "f(std::vector<int, std::allocator<int> >)"),
            ("__ZN3app5cacheE", "app::cache"),
        ] {
            assert_eq!(demangled(symbol), name, "{symbol}");
        }
        assert_eq!(type_name("N3app4PeerE"), "app::Peer");
        let shared = type_name("St23_Sp_counted_ptr_inplaceIN3app4PeerESaIS1_ELN9__gnu_cxx12_Lock_policyE2EE");
        assert_eq!(shared.split('<').next(), Some("std::_Sp_counted_ptr_inplace"));
    }

    /// Each of these is a valid code of the type's grammar, or begins nearly as a mangled name does.
    #[test]
    fn a_name_of_c_stays() {
        let letters = "abcdefghijlmnstvwxyz".chars().map(String::from);
        let codes =
            "Pc St Sa Ss Di PKc Si So Dn xx Da Sb Sd server R Release _Zone ZN3app5cacheE _GLOBAL_ _R _Z _start";
        for name in letters.chain(codes.split(' ').map(String::from)) {
            assert_eq!(demangled(&name), name);
        }
    }

    #[test]
    fn a_name_of_any_length_is_bounded() {
        // Each pair is of two of the pairs before it.
        let digits = ('0'..='9').chain('A'..='Z');
        let pairs = digits.fold("_Z1fSt4pairIiiE".to_string(), |name, digit| format!("{name}S_IS{digit}_S{digit}_E"));
        assert!(demangled(&pairs[..37]).starts_with("f(std::pair<int, int>, std::pair<std::pair"));
        assert_eq!(demangled(&pairs), pairs);
        for text in ["x".repeat(100_000), "_Z".to_string() + &"N".repeat(3000), "P".repeat(4000), pairs] {
            for name in [type_name(&text), demangled(&text)] {
                assert!(name.len() <= MOST.max(text.len()) && !name.is_empty(), "{}", name.len());
            }
        }
    }
}
