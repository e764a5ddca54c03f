//! The calls that give memory back, for each allocator that has such calls.

use allocanary_facts as allocators;
pub use allocanary_facts::remedy::{Argument, Does, FunctionCall, ReleaseCall, mallctl};

/// The remedies of all allocators that have one.
pub fn all() -> impl Iterator<Item = &'static ReleaseCall> {
    allocators::ALL.iter().filter_map(|one| one.remedy.as_ref())
}

/// The remedy of an allocator, by its name in readings of a heap.
pub fn of(allocator: &str) -> Option<&'static ReleaseCall> {
    all().find(|remedy| remedy.allocator == allocator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_has_its_calls_and_another_none() {
        let names = |allocator| (of(allocator).unwrap().calls)().into_iter().map(|call| call.name).collect::<Vec<_>>();
        assert_eq!(names("glibc"), ["malloc_trim(0)"]);
        assert_eq!(names("jemalloc"), ["thread.tcache.flush", "arena.4096.purge"]);
        assert_eq!(names("mimalloc"), ["mi_collect(true)"]);
        assert!(of("snmalloc").is_none());
        assert!(of("jemalloc").unwrap().names().any(|name| name == "_rjem_mallctl"));
    }

    #[test]
    fn a_new_value_is_passed_with_its_length() {
        let call = mallctl("background_thread", Some(vec![1]), false);
        assert_eq!(call.arguments[3..], [Argument::Bytes(vec![1]), Argument::Number(1)]);
        assert_eq!(mallctl("epoch", None, false).arguments[3..], [Argument::Number(0), Argument::Number(0)]);
    }
}
