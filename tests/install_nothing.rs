//! A binary without `install!`: every call says so.

use allocanary::tuning::{self, Error};

#[test]
fn without_an_install_every_call_is_an_error() {
    assert_eq!(tuning::purge(), Err(Error::NotInstalled));
    assert_eq!(tuning::check(), Err(Error::NotInstalled));
    assert_eq!(tuning::statistics().unwrap_err().to_string(), Error::NotInstalled.to_string());
    assert_eq!(allocanary::Ballast::keep(allocanary::units::Bytes(1)).unwrap_err(), Error::NotInstalled);
}
