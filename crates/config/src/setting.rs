//! The trait of every field of [`Config`](crate::Config): reading, printing and rewriting its type.

use crate::quote::quoted;
use crate::rule::{Reason, Rule, format_memory};

/// A type of a directive's value.
pub(crate) trait Setting: Clone + PartialEq {
    /// Whether the directive takes any number of arguments instead of exactly one.
    const IS_LIST: bool = false;

    /// Parses the value of `args`, one argument unless [`Self::IS_LIST`].
    fn parse(rule: &Rule, args: &[&[u8]], before: Before<'_, Self>) -> Result<Self, Reason>;

    /// The value as `CONFIG GET` shows it. `parse` accepts it.
    fn print(&self, rule: &Rule) -> Vec<u8>;

    /// The text after the directive's name in a file.
    fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
        FileLines::one(self.print(rule), self != default)
    }

    /// The accepted values, in words that follow "takes".
    fn describe(rule: &Rule) -> String;
}

/// The current value when a new one is parsed.
pub(crate) struct Before<'a, T> {
    pub current: &'a T,
    pub occurrence: Occurrence,
}

/// Whether the start-up text has already contained the directive. If so, certain lists grow instead of being
/// replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occurrence {
    /// The first line of the directive, or `CONFIG SET`.
    First,
    /// A repeated line.
    Further,
}

/// The lines of a directive in a rewritten file.
pub(crate) enum FileLines {
    /// None: the directive is not set, which no line can express.
    Remove,
    /// These lines.
    Write(Vec<FileLine>),
}

pub(crate) struct FileLine {
    /// The text after the directive's name.
    pub value: Vec<u8>,
    /// Whether the line is written even if the file has none yet, because the value is not the default.
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

/// The quoted text, or no line for an unset one.
pub(crate) fn text_lines(text: &[u8], rule: &Rule, forced: bool) -> FileLines {
    match rule {
        Rule::Text { empty_is_unset: true, .. } if text.is_empty() => FileLines::Remove,
        _ => FileLines::one(quoted(text), forced),
    }
}
