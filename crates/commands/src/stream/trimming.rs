//! `MAXLEN | MINID [= | ~] threshold [LIMIT count]` and `KEEPREF | DELREF | ACKED`, the options of `XADD` and
//! `XTRIM`.

use collections::stream::{Stream, StreamId, TrimTo};
use keyspace::Key;

use super::ids::parse_id;
use super::logged::log_deleted;
use super::parse_integer;
use super::references::{DeletedReferences, References};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType};
use crate::error::CommandError;
use crate::word::Word;

/// A request to delete entries from the front.
#[derive(Clone, Copy, Debug)]
pub struct Trimming {
    to: TrimTo,
    /// `~`
    is_approximate: bool,
    /// Maximum number of entries to delete; 0: no limit.
    limit: u64,
    references: References,
}

/// The options parsed so far.
#[derive(Default)]
pub struct TrimmingOptions {
    to: Option<TrimTo>,
    is_approximate: bool,
    limit: Option<i64>,
    references: Option<References>,
}

const BOTH: CommandError =
    CommandError::new("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const NEGATIVE_MAXLEN: CommandError = CommandError::new("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: CommandError = CommandError::new("ERR The LIMIT argument must be >= 0.");
const LIMIT_ALONE: CommandError =
    CommandError::new("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const EXACT_LIMIT: CommandError =
    CommandError::new("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// Default limit of an approximate trim, in nodes.
const NODE_COUNT_MAX: u64 = 100;
/// Default limit in entries if nodes have no maximum number of entries.
const LIMIT_DEFAULT: u64 = 10_000;
/// Maximum of the default limit.
const LIMIT_MAX: u64 = 1_000_000;

/// Documentation of these options.
pub const ARGS: &[Arg] = &[
    Arg::one_of("strategy", &[Arg::word("maxlen", "MAXLEN"), Arg::word("minid", "MINID").since("6.2.0")]),
    Arg::one_of("operator", &[Arg::word("equal", "="), Arg::word("approximately", "~")]).optional(),
    Arg::new("threshold", ArgType::String),
    Arg::integer("count").token("LIMIT").since("6.2.0").optional(),
];

impl TrimmingOptions {
    /// Parses the option at the front of `words`, and returns its number of words; `None`: it is another option.
    /// `KEEPREF`, `DELREF` and `ACKED` are accepted once.
    pub fn parse(&mut self, words: &[&[u8]]) -> Result<Option<usize>, CommandError> {
        let [word, operands @ ..] = words else { return Ok(None) };
        if let Some(references) = References::parse(word) {
            return Ok(self.references.replace(references).is_none().then_some(1));
        }
        if operands.is_empty() {
            return Ok(None);
        }
        let is_maxlen = word.eq_token("maxlen");
        if is_maxlen || word.eq_token("minid") {
            return self.parse_strategy(is_maxlen, operands).map(Some);
        }
        if word.eq_token("limit") {
            let limit = parse_integer(operands[0])?;
            if limit < 0 {
                return Err(NEGATIVE_LIMIT);
            }
            self.limit = Some(limit);
            return Ok(Some(2));
        }
        Ok(None)
    }

    fn parse_strategy(&mut self, is_maxlen: bool, operands: &[&[u8]]) -> Result<usize, CommandError> {
        if self.to.is_some() {
            return Err(BOTH);
        }
        let has_operator = operands.len() >= 2 && matches!(operands[0], b"~" | b"=");
        self.is_approximate = has_operator && operands[0] == b"~";
        let threshold = operands[usize::from(has_operator)];
        self.to = Some(if is_maxlen {
            TrimTo::Len(u64::try_from(parse_integer(threshold)?).map_err(|_| NEGATIVE_MAXLEN)?)
        } else {
            TrimTo::Id(parse_id(threshold, 0)?)
        });
        Ok(2 + usize::from(has_operator))
    }

    /// Completes parsing; `None`: no trimming, unless `refusal_of_none` is given. `node_entry_count` is
    /// `stream-node-max-entries`.
    pub fn finish(
        self,
        node_entry_count: u64,
        refusal_of_none: Option<CommandError>,
    ) -> Result<Option<Trimming>, CommandError> {
        let Some(to) = self.to else {
            return match (self.limit, refusal_of_none) {
                (Some(1..), _) => Err(LIMIT_ALONE),
                (_, Some(refusal)) => Err(refusal),
                (Some(_), None) => Err(EXACT_LIMIT),
                (None, None) => Ok(None),
            };
        };
        let limit = match self.limit {
            Some(_) if !self.is_approximate => return Err(EXACT_LIMIT),
            Some(limit) => limit as u64,
            None if self.is_approximate => match node_entry_count.saturating_mul(NODE_COUNT_MAX) {
                0 => LIMIT_DEFAULT,
                limit => limit.min(LIMIT_MAX),
            },
            None => 0,
        };
        let references = self.references.unwrap_or_default();
        Ok(Some(Trimming { to, is_approximate: self.is_approximate, limit, references }))
    }
}

/// The result of trimming.
pub struct Trimmed {
    /// Number of deleted entries.
    pub count: u64,
    /// Number of remaining entries.
    len: u64,
    /// The deleted entries, if they are not the oldest ones.
    named: Vec<StreamId>,
    references: DeletedReferences,
}

impl Trimmed {
    /// The `MAXLEN` of an exact trim that deletes these entries; `None`: nothing is deleted, or the entries must be named.
    pub fn exact_len(&self) -> Option<i64> {
        (self.count > 0 && self.named.is_empty()).then_some(self.len as i64)
    }

    /// Records what [`Self::exact_len`] does not cover: the deletion of named entries, and of references.
    pub fn log_rest(&self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        log_deleted(ctx, key, &self.named);
        self.references.record_effects(ctx, key);
    }
}

impl Trimming {
    /// Trims, and returns the deletions.
    pub fn apply(&self, stream: &mut Stream) -> Trimmed {
        let mut references = DeletedReferences::default();
        if self.references == References::Keep {
            let count = stream.trim(self.to, self.is_approximate, self.limit);
            return Trimmed { count, len: stream.len(), named: Vec::new(), references };
        }
        let may_delete = |stream: &Stream, id| self.references.permit(stream, id);
        // As in Redis, an approximate trim is exact then.
        let trimmed = stream.trim_some(self.to, self.limit, may_delete);
        for id in &trimmed.deleted {
            self.references.delete_references(stream, *id, &mut references);
        }
        let count = trimmed.deleted.len() as u64;
        let named = if trimmed.leaves_gap { trimmed.deleted } else { Vec::new() };
        Trimmed { count, len: stream.len(), named, references }
    }
}
