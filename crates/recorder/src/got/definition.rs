//! Finds the module that defines a function. In: the function's name. Out: its addresses, and whether the program
//! itself defines it.

use std::ffi::CStr;

use crate::got::module;

/// The definition of a function in the first module that has one, in the order in which the loader searches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The function's address, and the address of another version in the same module; 0 if there is none.
    pub at: [usize; 2],
    /// The number of the module in the loader's list; 0 is the program.
    pub module: usize,
}

/// Looks for a function in all modules but the one with the address `own`.
pub fn definition(name: &CStr, own: usize) -> Option<Definition> {
    let mut found = None;
    module::all(|number, module| {
        if !module.has(own) {
            let at = module.defined(name);
            found = (at[0] != 0).then_some(Definition { at, module: number });
        }
        found.is_none()
    });
    found
}

/// Whether the module with the address `one` is before the module with the address `other` in the loader's list. A
/// preload is before the C library; a library that was opened later is after it.
pub fn comes_before(one: usize, other: usize) -> bool {
    let mut first = None;
    module::all(|_, module| {
        first = [one, other].into_iter().find(|at| module.has(*at));
        first.is_none()
    });
    first == Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_the_c_library_is_found_where_it_is() {
        let found = definition(c"getppid", 0).unwrap();
        assert_eq!(found.at[0], libc::getppid as *const () as usize);
        assert_ne!(found.module, 0, "it is not the program's");
        assert_eq!(definition(c"no_such_function_anywhere", 0), None);
        let own = libc::getppid as *const () as usize;
        assert_eq!(definition(c"getppid", own), None, "its own module is left out");
    }
}
