//! Names of types and variables. In: what a compiler made of them. Out: what a programmer calls them.

use cpp_demangle::Symbol;

/// The longest name that is shown.
const LONGEST: usize = 120;
/// Longer names are not taken apart.
const LONGEST_MANGLED: usize = 4096;

/// The name of a variable from its symbol.
pub fn of_symbol(symbol: &str) -> String {
    if symbol.len() > LONGEST_MANGLED {
        return short(symbol);
    }
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        return short(&format!("{rust:#}"));
    }
    let cpp = symbol.starts_with("_Z").then(|| Symbol::new(symbol).ok()?.demangle().ok()).flatten();
    short(cpp.as_deref().unwrap_or(symbol))
}

/// The name of a C++ type from the text in its type information.
pub fn of_type(text: &str) -> String {
    const BEFORE: &str = "typeinfo name for ";
    if text.len() > LONGEST_MANGLED {
        return short(text);
    }
    let found = Symbol::new(format!("_ZTS{text}")).ok().and_then(|symbol| symbol.demangle().ok());
    short(found.as_deref().and_then(|name| name.strip_prefix(BEFORE)).unwrap_or(text))
}

/// A long name without its middle.
fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= LONGEST {
        return name.into();
    }
    let head: String = name.chars().take(LONGEST * 2 / 3).collect();
    let tail: String = name.chars().skip(count - LONGEST / 3 + 1).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_program() {
        assert_eq!(of_type("N3app4PeerE"), "app::Peer");
        assert_eq!(
            of_type("St23_Sp_counted_ptr_inplaceIN3app4PeerESaIS1_ELN9__gnu_cxx12_Lock_policyE2EE").split('<').next(),
            Some("std::_Sp_counted_ptr_inplace")
        );
        assert_eq!(of_symbol("_ZN3app5cacheE"), "app::cache");
        assert_eq!(of_symbol("_ZN4main5CACHE17h0123456789abcdefE"), "main::CACHE");
        assert_eq!(of_symbol("server"), "server");
    }

    #[test]
    fn a_name_of_any_length_and_nonsense_is_short() {
        for text in ["x".repeat(100_000), "_Z".to_string() + &"N".repeat(3000), "P".repeat(4000)] {
            for name in [of_type(&text), of_symbol(&text)] {
                assert!(name.chars().count() <= LONGEST && !name.is_empty(), "{}", name.len());
            }
        }
    }
}
