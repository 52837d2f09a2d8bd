//! The options of `SORT`, which both the planner and the handler parse.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::error::{CommandError, up_to_nul};
use crate::word::Word;

/// Argument index of the first option.
const START: usize = 2;

const BY_DENIED: CommandError =
    CommandError::new("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: CommandError =
    CommandError::new("ERR GET option of SORT denied due to insufficient ACL permissions.");

/// The parsed options.
#[derive(Debug, Default)]
pub(super) struct SortOptions<'a> {
    /// `BY`
    pub by: Option<Pattern<'a>>,
    /// Each `GET`, in order.
    pub get: Vec<Pattern<'a>>,
    /// `LIMIT`: the number of rows to skip, and the number to return (negative: all).
    pub limit: Option<(i64, i64)>,
    /// `DESC`
    pub is_descending: bool,
    /// `ALPHA`
    pub is_alpha: bool,
    /// `STORE`: argument index of the destination.
    pub store: Option<usize>,
}

/// A pattern of `BY` or `GET`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern<'a>(pub &'a [u8]);

/// The key that results from a pattern and an element, and the field if the value is a hash.
pub(super) struct PatternKey<'a> {
    /// Name of the key.
    pub key: Vec<u8>,
    /// The text after `->`.
    pub field: Option<&'a [u8]>,
}

impl<'a> Pattern<'a> {
    /// Whether the pattern stands for the element itself.
    pub fn is_element(self) -> bool {
        up_to_nul(self.0) == b"#"
    }

    /// Whether the pattern yields a key for each element.
    pub fn names_keys(self) -> bool {
        self.star().is_some()
    }

    /// Returns the key for an element; `None` if the pattern has no placeholder.
    pub fn target(self, element: &[u8]) -> Option<PatternKey<'a>> {
        let (before, after) = (&self.0[..self.star()?], &self.0[self.star()? + 1..]);
        let arrow = up_to_nul(after).windows(2).position(|pair| pair == b"->");
        let field = arrow.map(|at| &after[at + 2..]).filter(|field| !up_to_nul(field).is_empty());
        let end = field.map_or(after.len(), |field| after.len() - field.len() - 2);
        Some(PatternKey { key: [before, element, &after[..end]].concat(), field })
    }

    fn star(self) -> Option<usize> {
        up_to_nul(self.0).iter().position(|byte| *byte == b'*')
    }
}

impl<'a> SortOptions<'a> {
    /// Parses the options of a request; `STORE` is allowed if `stores`. Without `may_read_all`, `GET`, and `BY` with a
    /// pattern, are denied: their keys are not known before the values are read.
    pub fn parse(args: Args<'a>, stores: bool, may_read_all: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = START;
        while let Some(word) = args.get(at) {
            let is = |name: &str| word.eq_token(name);
            let operand = |index: usize| args.get(at + index);
            at += match (operand(1), operand(2)) {
                _ if is("asc") => {
                    options.is_descending = false;
                    1
                }
                _ if is("desc") => {
                    options.is_descending = true;
                    1
                }
                _ if is("alpha") => {
                    options.is_alpha = true;
                    1
                }
                (Some(offset), Some(count)) if is("limit") => {
                    options.limit = Some((parse_integer(offset)?, parse_integer(count)?));
                    3
                }
                (Some(_), _) if is("store") && stores => {
                    options.store = Some(at + 1);
                    2
                }
                (Some(pattern), _) if is("by") => {
                    if Pattern(pattern).names_keys() && !may_read_all {
                        return Err(BY_DENIED);
                    }
                    options.by = Some(Pattern(pattern));
                    2
                }
                (Some(_), _) if is("get") && !may_read_all => return Err(GET_DENIED),
                (Some(pattern), _) if is("get") => {
                    options.get.push(Pattern(pattern));
                    2
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
        Ok(options)
    }

    /// Whether keys are accessed that are not among the arguments.
    pub fn accesses_other_keys(&self) -> bool {
        self.by.iter().chain(&self.get).any(|pattern| pattern.names_keys())
    }
}

fn parse_integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(pattern: &str) -> Option<(String, Option<String>)> {
        let target = Pattern(pattern.as_bytes()).target(b"E")?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("patterns here are text");
        Some((text(&target.key), target.field.map(text)))
    }

    #[test]
    fn patterns_name_keys_and_fields() {
        let found = |key: &str, field: Option<&str>| Some((key.to_owned(), field.map(str::to_owned)));
        assert_eq!(target("w_*"), found("w_E", None));
        assert_eq!(target("*"), found("E", None));
        assert_eq!(target("w_*_*"), found("w_E_*", None));
        assert_eq!(target("w_*->f"), found("w_E", Some("f")));
        assert_eq!(target("w_*_x->f->g"), found("w_E_x", Some("f->g")));
        assert_eq!(target("w_*->"), found("w_E->", None));
        assert_eq!(target("a->b*"), found("a->bE", None));
        assert_eq!(target("w"), None);
        assert_eq!(target("#"), None);
        assert_eq!(target("w\0*"), None);
    }
}
