//! The contract of a meter: one source of numbers. In: the process that runs it. Out: numbers, in the order of the
//! meter's table.
//!
//! A meter must not allocate while it reads, because it would then measure itself. The entries are in
//! [`meters`](crate::meters).

use allocanary::Allocator;
use allocanary_rows::Moment;
use allocanary_text::units::Unit;

/// A source of numbers.
pub struct Meter {
    /// The meter's name: `status`.
    pub name: &'static str,
    /// What it reads, in one line.
    pub about: &'static str,
    /// Its numbers, in order.
    pub columns: &'static [Column],
    /// The only moment at which the meter is read; `None` for all moments.
    pub at: Option<Moment>,
    /// Fills one slot for each column. A slot stays `None` if there is no value.
    pub read: fn(&dyn Allocator, &mut [Option<u64>]),
}

impl Meter {
    /// Whether it is read in `moment`.
    pub fn is_read_in(&self, moment: Moment) -> bool {
        self.at.is_none_or(|only| only == moment)
    }
}

/// One number that a meter returns.
pub struct Column {
    /// Its name in rows: `resident_bytes`.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What the number means, in one line.
    pub about: &'static str,
}

/// A row of a meter's table.
pub const fn column(name: &'static str, unit: Unit, about: &'static str) -> Column {
    Column { name, unit, about }
}
