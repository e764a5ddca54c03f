//! The next library's functions, as tables. In: names and types. Out: functions; or the answer of one that does not exist.

use crate::raw;

/// Makes the table of the next library's functions.
macro_rules! reals {
    ($($name:ident: $text:literal $type:ty,)*) => {
        /// The next library's functions.
        pub(crate) struct Reals {
            $($name: crate::real::Real,)*
        }
        /// The next library's functions.
        pub(crate) static REAL: Reals = Reals { $($name: crate::real::Real::new($text),)* };
        impl Reals {
            /// Looks all of them up.
            #[inline]
            pub(crate) fn find(&self) {
                $(self.$name();)*
            }
            $(
                #[inline]
                fn $name(&self) -> Option<$type> {
                    // SAFETY: the C library's function of that name has this type.
                    unsafe { self.$name.function() }
                }
            )*
        }
    };
}
pub(super) use reals;

/// The answer of a function that the C library does not have.
pub(super) fn missing() -> libc::c_int {
    raw::set_errno(libc::ENOSYS);
    -1
}
