//! A figure: one row of the tables in `sections/`, each with what every form of the report needs of it.
//!
//! `INFO`, its reference page and any other form are made from these rows; [`figures!`] describes how one is written.

use std::borrow::Cow;

use super::gathered::Gathered;
use super::labels::{Label, Labels};

/// A section of the report.
pub struct Section {
    /// As `INFO` selects it.
    pub name: &'static str,
    /// Its heading in the text.
    pub title: &'static str,
    /// Whether plain `INFO` shows it.
    pub in_default: bool,
    /// Whether `INFO all` shows it.
    pub in_all: bool,
    /// In the order of the text.
    pub figures: &'static [Figure],
}

/// One row.
pub struct Figure {
    /// The name in `INFO`. A labelled figure has the name of its label in braces: `db{database}`.
    pub name: &'static str,
    /// What it measures.
    pub kind: Kind,
    /// The unit of its number.
    pub unit: Unit,
    /// One sentence, after a space.
    pub(super) doc: &'static str,
    /// The labels for which it is read; `None`: it is read once.
    pub labels: Option<Labels>,
    /// Reads it. Without a value it has no line.
    pub read: Read,
}

/// Reads a figure for a label.
pub type Read = for<'g> fn(&'g Gathered<'_>, &Label<'_>) -> Option<Value<'g>>;

/// What a figure measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A total that only grows, except that `CONFIG RESETSTAT` and a restart set it to zero.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// Not a number.
    Text,
    /// In a record: what identifies the thing that it is about.
    Identity,
    /// Several numbers and texts with fixed names.
    Record(&'static [Field]),
    /// Values by percentile.
    Percentiles,
    /// Numbers of values by size.
    Histogram,
}

/// A number or a text of a [`Kind::Record`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// [`Kind::Counter`], [`Kind::Gauge`], [`Kind::Text`] or [`Kind::Identity`].
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// One sentence.
    pub help: &'static str,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, a flag of 0 or 1, or no number.
    None,
    Bytes,
    /// 1024 bytes a second.
    KibibytesPerSecond,
    PerSecond,
    Days,
    Seconds,
    Milliseconds,
    Microseconds,
    /// Unix time in seconds.
    UnixSeconds,
    /// Unix time in microseconds.
    UnixMicroseconds,
    /// Hundredths.
    Percent,
    /// Thousandths.
    Permille,
    /// One number divided by another.
    Ratio,
    /// 32 or 64.
    Bits,
}

/// A value that was read.
#[derive(Debug, PartialEq)]
pub enum Value<'g> {
    Whole(u64),
    Signed(i64),
    /// There is nothing to measure: `INFO` shows this number then.
    Nothing(i64),
    /// A number that is shown with two decimals.
    Hundredths(f64),
    /// As C's `%.2f` shows it, which does not round halves up.
    Mean(f64),
    /// A number that is shown with three decimals.
    Thousandths(f64),
    /// A number that is shown with six decimals.
    Millionths(f64),
    /// Hundredths, shown with two decimals and a percent sign.
    Percent(f64),
    /// Bytes for human readers: in the largest unit that fits, with two decimals.
    Human(u64),
    Text(Cow<'g, str>),
    /// The numbers of a record, of percentiles or of a histogram.
    Pairs(Vec<(Cow<'static, str>, Value<'g>)>),
}

impl Figure {
    /// One sentence on what it shows.
    pub fn help(&self) -> &'static str {
        self.doc.trim_start()
    }

    /// The name without its label: `db{database}_x` is `db_x`.
    pub fn name_without_label(&self) -> String {
        let (before, after) = self.name_parts();
        format!("{}{after}", before.trim_end_matches('_'))
    }

    /// The parts of the name before and after its label.
    pub fn name_parts(&self) -> (&'static str, &'static str) {
        let (before, rest) = self.name.split_once('{').unwrap_or((self.name, ""));
        (before, rest.split_once('}').map_or("", |(_, after)| after))
    }
}

impl Field {
    /// A total.
    pub const fn counter(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, unit, help }
    }

    /// A number that grows and shrinks.
    pub const fn gauge(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, unit, help }
    }

    /// What identifies the thing that the record is about.
    pub const fn identity(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Identity, unit: Unit::None, help }
    }

    /// Not a number.
    pub const fn text(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Text, unit: Unit::None, help }
    }
}

impl<'g> Value<'g> {
    /// The numbers of a record.
    pub fn record<const N: usize>(fields: [(&'static str, Self); N]) -> Self {
        Self::Pairs(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// A number that is -1 if there is nothing to measure.
    pub fn unless_negative(number: i64) -> Self {
        if number == -1 { Self::Nothing(number) } else { Self::Signed(number) }
    }

    /// Text for one of two states.
    pub fn ok_unless(has_failed: bool) -> Self {
        Self::from(if has_failed { "err" } else { "ok" })
    }
}

macro_rules! values {
    ($variant:ident: $($number:ty),*) => {$(
        impl From<$number> for Value<'_> {
            fn from(number: $number) -> Self {
                Self::$variant(number as _)
            }
        }
    )*};
}

values!(Whole: bool, u8, u16, u32, u64, usize);
values!(Signed: i32, i64);

impl<'g> From<&'g str> for Value<'g> {
    fn from(text: &'g str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// The rows of a section. A row is `kind "name": Unit = value;`, with its help as a doc comment of one sentence. After
/// the kind, a record has its fields in parentheses. A row with labels names them, and the variable that holds one:
/// `"name", each Labels as label = value;`. A row with `when condition` at its end has a line only then.
macro_rules! figures {
    (|$all:ident| $(
        #[doc = $doc:literal]
        $kind:ident $(($fields:expr))? $name:literal $(: $unit:ident)? $(, each $labels:ident as $label:ident)?
            = $value:expr $(, when $is_shown:expr)?;
    )*) => {
        &[$( $crate::admin::info::figure::Figure {
            name: $name,
            kind: figures!(@kind $kind $(($fields))?),
            unit: figures!(@unit $($unit)?),
            doc: $doc,
            labels: figures!(@labels $($labels)?),
            read: |$all, _label| {
                let _ = $all;
                $( let $label = _label; )?
                $( if !$is_shown { return None; } )?
                $crate::admin::info::figure::Shown::into_value($value)
            },
        }, )*]
    };
    (@kind counter) => { $crate::admin::info::figure::Kind::Counter };
    (@kind gauge) => { $crate::admin::info::figure::Kind::Gauge };
    (@kind text) => { $crate::admin::info::figure::Kind::Text };
    (@kind percentiles) => { $crate::admin::info::figure::Kind::Percentiles };
    (@kind histogram) => { $crate::admin::info::figure::Kind::Histogram };
    (@kind record ($fields:expr)) => { $crate::admin::info::figure::Kind::Record($fields) };
    (@unit) => { $crate::admin::info::figure::Unit::None };
    (@unit $unit:ident) => { $crate::admin::info::figure::Unit::$unit };
    (@labels) => { None };
    (@labels $labels:ident) => { Some($crate::admin::info::labels::Labels::$labels) };
}
pub(super) use figures;

/// What the expression of a row may be: a value, or none.
pub trait Shown<'g> {
    /// The value, if there is one.
    fn into_value(self) -> Option<Value<'g>>;
}

impl<'g, T: Into<Value<'g>>> Shown<'g> for T {
    fn into_value(self) -> Option<Value<'g>> {
        Some(self.into())
    }
}

impl<'g> Shown<'g> for Option<Value<'g>> {
    fn into_value(self) -> Option<Value<'g>> {
        self
    }
}
