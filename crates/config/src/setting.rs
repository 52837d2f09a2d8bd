//! The trait behind every field of [`Config`](crate::Config): how its type is read, printed and rewritten.

use crate::quote::quoted;
use crate::rule::{Reason, Rule, format_memory};

/// A type that a directive's value can have.
pub(crate) trait Setting: Clone + PartialEq {
    /// Whether the directive takes any number of arguments, not exactly one.
    const IS_LIST: bool = false;

    /// The value that `args` mean. Takes one argument unless [`Self::IS_LIST`].
    fn parse(rule: &Rule, args: &[&[u8]], before: Before<'_, Self>) -> Result<Self, Reason>;

    /// The value as `CONFIG GET` has it. `parse` accepts it.
    fn print(&self, rule: &Rule) -> Vec<u8>;

    /// What stands behind the directive's name in a file.
    fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
        FileLines::one(self.print(rule), self != default)
    }

    /// What is accepted, in words that follow "takes".
    fn describe(rule: &Rule) -> String;
}

/// The value in force when a new one is read.
pub(crate) struct Before<'a, T> {
    pub current: &'a T,
    pub turn: Turn,
}

/// Whether start-up text has named a directive before: only then does a list of its own kind grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This is the first line of it, or `CONFIG SET`.
    First,
    /// An earlier line had it.
    Further,
}

/// How a directive is to stand in a rewritten file.
pub(crate) enum FileLines {
    /// Not at all: the directive isn't set, and a line would say otherwise.
    Remove,
    /// Once for each of these.
    Write(Vec<FileLine>),
}

pub(crate) struct FileLine {
    /// What follows the directive's name.
    pub value: Vec<u8>,
    /// Whether the line is written even if the file has none yet, because it isn't the default.
    pub forced: bool,
}

impl FileLines {
    pub(crate) fn one(value: Vec<u8>, forced: bool) -> Self {
        Self::Write(vec![FileLine { value, forced }])
    }
}

/// The text of one argument.
pub(crate) fn utf8(arg: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(arg).map_err(|_| "argument must be valid UTF-8".into())
}

impl Setting for bool {
    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        match args[0] {
            arg if arg.eq_ignore_ascii_case(b"yes") => Ok(true),
            arg if arg.eq_ignore_ascii_case(b"no") => Ok(false),
            _ => Err("argument must be 'yes' or 'no'".into()),
        }
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        if *self { b"yes".to_vec() } else { b"no".to_vec() }
    }

    fn describe(_: &Rule) -> String {
        "yes or no".into()
    }
}

macro_rules! number_settings {
    ($($number:ty),*) => {$(
        impl Setting for $number {
            fn parse(rule: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
                Self::try_from(rule.number(args[0])?).map_err(|_| rule.out_of_bounds())
            }

            fn print(&self, rule: &Rule) -> Vec<u8> {
                match rule {
                    Rule::Octal { .. } => format!("{self:o}").into_bytes(),
                    _ => self.to_string().into_bytes(),
                }
            }

            fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
                let value = match rule {
                    Rule::Memory { .. } => format_memory(i128::from(*self)).into_bytes(),
                    _ => self.print(rule),
                };
                FileLines::one(value, self != default)
            }

            fn describe(rule: &Rule) -> String {
                rule.describe_number()
            }
        }
    )*};
}

number_settings!(u8, u16, u32, u64, i32, i64);

impl Setting for String {
    fn parse(rule: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        let text = utf8(args[0])?;
        if let Rule::Text { check, .. } = rule {
            check(text)?;
        }
        Ok(text.to_owned())
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        self.clone().into_bytes()
    }

    fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
        text_lines(self.as_bytes(), rule, self != default)
    }

    fn describe(_: &Rule) -> String {
        "a text, in quotes if it has spaces".into()
    }
}

/// The quoted text, or no line for one that isn't set.
pub(crate) fn text_lines(text: &[u8], rule: &Rule, forced: bool) -> FileLines {
    match rule {
        Rule::Text { empty_is_unset: true, .. } if text.is_empty() => FileLines::Remove,
        _ => FileLines::one(quoted(text), forced),
    }
}
