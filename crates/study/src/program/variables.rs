//! The environment of this process. Out: the variables that are text, to which settings are added, and the others, which a program gets
//! unchanged. A folder's name in another encoding makes `PWD` one of the others.

use std::collections::BTreeMap;
use std::env::vars_os;
use std::ffi::OsString;

/// The variables whose name and value are UTF-8.
pub(super) fn texts() -> BTreeMap<String, String> {
    texts_of(vars_os())
}

/// The variables whose name or value is not UTF-8.
pub(super) fn others() -> impl Iterator<Item = (OsString, OsString)> {
    vars_os().filter(|(name, value)| name.to_str().is_none() || value.to_str().is_none())
}

fn texts_of(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_variable_that_is_no_text_is_left_to_the_program() {
        let of = |text: &[u8]| OsString::from_vec(text.to_vec());
        let all = [(of(b"HOME"), of(b"/root")), (of(b"PWD"), of(b"/\xff")), (of(b"\xfe"), of(b"1"))];
        let texts = texts_of(all.into_iter());
        assert_eq!(texts.into_iter().collect::<Vec<_>>(), [("HOME".into(), "/root".into())]);
    }
}
