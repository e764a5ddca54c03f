//! A binary without `install!` and without an allocator that counts: every call returns an error that says so.

use allocanary::counting;
use allocanary::tuning::{self, Error};

#[test]
fn without_an_install_every_call_is_an_error() {
    assert_eq!(tuning::purge(), Err(Error::NotInstalled));
    assert_eq!(tuning::check(), Err(Error::NotInstalled));
    assert_eq!(tuning::thread_idle(), Err(Error::NotInstalled));
    assert_eq!(tuning::statistics().unwrap_err().to_string(), Error::NotInstalled.to_string());
    assert_eq!(allocanary::Ballast::keep(allocanary_text::units::Bytes(1)).unwrap_err(), Error::NotInstalled);
}

#[test]
fn without_an_install_a_wait_is_a_wait() {
    let mut times = 0;
    let came = tuning::wait(std::time::Duration::from_millis(1), |_| {
        times += 1;
        (times == 3).then_some("came")
    });
    assert_eq!((came, times), ("came", 3));
}

#[test]
fn to_count_without_an_allocator_that_counts_is_a_panic_whatever_was_asked_before() {
    for _ in 0..2 {
        assert_eq!(counting::thread(), counting::Counts::default());
        let panic = std::panic::catch_unwind(|| counting::count(|| 1)).expect_err("a test of it would be vacuous");
        let said = panic.downcast_ref::<&str>().copied().unwrap_or_default();
        assert!(said.contains("nothing is counted"), "{said}");
    }
}
