//! Equality of two servers' replies: equal bytes, or a difference with a reason given in this file.

use super::player::{Answer, KeyState, without_made_ids};
use super::sequence::{Form, Step};
use crate::reply::Reply;

/// Maximum difference between two servers' values of one expiry, because they receive the command at
/// different times.
const EXPIRY_TOLERANCE_MS: i64 = 10_000;

/// An accepted difference from the reference.
pub struct Divergence {
    /// The first words of the affected requests.
    pub words: &'static [&'static str],
    /// Reason for the difference.
    pub reason: &'static str,
    /// Whether this pair of replies, the reference's first, is exactly that difference.
    pub accepts: fn(&Reply, &Reply) -> bool,
}

/// All accepted differences.
pub static DIVERGENCES: &[Divergence] = &[Divergence {
    words: &["FUNCTION", "LIST"],
    reason: "Valkey quotes an argument with its line ends, which is no valid reply; ours are blanks, as in Redis",
    accepts: |reference, ours| {
        let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        match (reference, ours) {
            (Reply::Error(reference), Reply::Error(ours)) => {
                reference.iter().map(blank).eq(ours.iter().copied())
            }
            _ => false,
        }
    },
}];

/// Earlier events of the sequence that affect comparisons.
#[derive(Clone, Copy, Default)]
pub struct Context {
    /// A key has expired without an access: servers delete it at different times, so their counts differ.
    pub has_expired_keys: bool,
    /// A SORT has run: Valkey and Redis convert a sorted set to the large encoding before they sort it.
    pub has_sorted: bool,
}

impl Context {
    /// Records the next step.
    pub fn note(&mut self, step: &Step) {
        self.has_expired_keys |= step.expires_soon;
        self.has_sorted |= step.is(&["SORT"]) || step.is(&["SORT_RO"]);
    }
}

/// Whether our answer to a step agrees with the reference's.
pub fn agree(step: &Step, reference: &Answer, ours: &Answer, context: Context) -> bool {
    match (reference, ours) {
        (Answer::Reply(reference), Answer::Reply(ours)) => {
            let is_same = reference.bytes == ours.bytes && step.form != Form::WholeScan;
            is_same || agree_replies(step, &reference.reply, &ours.reply, context)
        }
        (Answer::Silence, Answer::Silence) | (Answer::Closed, Answer::Closed) => true,
        _ => false,
    }
}

/// Whether two replies to a step with different bytes agree.
pub fn agree_replies(step: &Step, reference: &Reply, ours: &Reply, context: Context) -> bool {
    agree_trees(step, reference, ours, context) || diverge(step, reference, ours)
}

/// Whether the final values of a key agree.
pub fn agree_states(reference: &KeyState, ours: &KeyState) -> bool {
    let are_near = |(reference, ours): (&i64, &i64)| {
        (*reference < 0) == (*ours < 0) && reference.abs_diff(*ours) <= EXPIRY_TOLERANCE_MS as u64
    };
    let (reference_fields, our_fields) = (&reference.fields_expire_at_ms, &ours.fields_expire_at_ms);
    are_near((&reference.expires_at_ms, &ours.expires_at_ms))
        && reference_fields.len() == our_fields.len()
        && reference_fields.iter().zip(our_fields).all(are_near)
        && (reference.database, &reference.key, &reference.kind, &reference.value)
            == (ours.database, &ours.key, &ours.kind, &ours.value)
}

fn diverge(step: &Step, reference: &Reply, ours: &Reply) -> bool {
    DIVERGENCES.iter().any(|divergence| step.is(divergence.words) && (divergence.accepts)(reference, ours))
}

fn agree_trees(step: &Step, reference: &Reply, ours: &Reply, context: Context) -> bool {
    // Commands with ids that servers derive from their clocks.
    const WITH_IDS: &[&str] =
        &["XADD", "XRANGE", "XREVRANGE", "XREAD", "XREADGROUP", "XPENDING", "XAUTOCLAIM", "XCLAIM"];
    if WITH_IDS.iter().any(|name| step.is(&[name])) && without_made_ids(reference) == without_made_ids(ours) {
        return true;
    }
    // The hash order of keys differs between servers.
    const UNORDERED: &[&str] = &["KEYS", "HKEYS", "HVALS"];
    if step.form == Form::WholeScan || UNORDERED.iter().any(|word| step.is(&[word])) {
        return sorted(reference) == sorted(ours);
    }
    if step.is(&["HGETALL"]) {
        return sorted_pairs(reference) == sorted_pairs(ours);
    }
    if step.is(&["HSCAN"]) && step.arguments.get(2).is_some_and(|cursor| cursor == b"0") {
        return sorted_pages(reference) == sorted_pages(ours);
    }
    // So does the order of members.
    const MEMBERS: &[&str] = &["SMEMBERS", "SINTER", "SUNION", "SDIFF", "SPOP"];
    if MEMBERS.iter().any(|name| step.is(&[name])) {
        return sorted(reference) == sorted(ours);
    }
    // Some servers need more calls than others to iterate over a set. The results of complete iterations must
    // be equal.
    if (step.is(&["SSCAN"]) || step.is(&["ZSCAN"]))
        && let (Reply::List(_, reference), Reply::List(_, ours)) = (reference, ours)
        && let ([reference_cursor, reference], [ours_cursor, ours]) = (&reference[..], &ours[..])
    {
        let ended = Reply::Bulk(b"0".to_vec());
        let from_start = step.arguments.get(2).is_some_and(|cursor| cursor == b"0");
        let is_whole = from_start && *reference_cursor == ended && *ours_cursor == ended;
        return !is_whole || sorted(reference) == sorted(ours);
    }
    // The identity of a server is its own.
    if step.is(&["HELLO"]) {
        return without_identity(reference) == without_identity(ours);
    }
    // A cursor is only valid on the server that returned it.
    let is_foreign_cursor = step.is(&["SCAN"]) && step.arguments.get(1).is_some_and(|cursor| cursor != b"0");
    if is_foreign_cursor {
        return matches!((reference, ours), (Reply::List(..), Reply::List(..)));
    }
    // `command_table` compares command descriptions; help texts differ between servers.
    let is_help = step.arguments.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"HELP"));
    if is_help || (step.is(&["COMMAND"]) && step.arguments.len() == 1) {
        return matches!((reference, ours), (Reply::List(..), Reply::List(..)));
    }
    // The servers receive the command at different times.
    if step.is(&["TTL"]) || step.is(&["EXPIRETIME"]) {
        return near(reference, ours, EXPIRY_TOLERANCE_MS / 1000);
    }
    if step.is(&["PTTL"]) || step.is(&["PEXPIRETIME"]) {
        return near(reference, ours, EXPIRY_TOLERANCE_MS);
    }
    const FIELD_TIMES: &[&str] = &["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME"];
    if let (Reply::List(_, reference), Reply::List(_, ours)) = (reference, ours)
        && FIELD_TIMES.iter().any(|name| step.is(&[name]))
    {
        let near = |(reference, ours)| reference == ours || near(reference, ours, EXPIRY_TOLERANCE_MS);
        return reference.len() == ours.len() && reference.iter().zip(ours).all(near);
    }
    if step.is(&["HRANDFIELD"]) || step.is(&["ZRANDMEMBER"]) {
        return has_same_shape(reference, ours);
    }
    // The size limit of embedded values differs between servers; the Tcl suite checks the limit that clients
    // can see.
    if step.is(&["OBJECT", "ENCODING"]) {
        let is_sorted_set =
            |reply: &Reply| matches!(reply, Reply::Bulk(name) if name == b"listpack" || name == b"skiplist");
        if context.has_sorted && is_sorted_set(reference) && is_sorted_set(ours) {
            return true;
        }
        let embedded =
            |reply: &Reply| matches!(reply, Reply::Bulk(name) if name == b"embstr" || name == b"raw");
        return embedded(reference) && embedded(ours);
    }
    if step.is(&["DBSIZE"]) && context.has_expired_keys {
        return has_same_shape(reference, ours);
    }
    // The order of unsorted set members differs between servers, and so does the choice among equal text
    // weights within the limit. Equal numbers are in the order of the elements.
    let has = |name: &str| step.arguments.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    if (step.is(&["SORT"]) || step.is(&["SORT_RO"]))
        && has("BY")
        && has("LIMIT")
        && (has("NOSORT") || has("ALPHA"))
        && let (Reply::List(_, reference), Reply::List(_, ours)) = (reference, ours)
    {
        return reference.len() == ours.len();
    }
    // With FULL it contains the times of consumers' activity and of deliveries.
    if step.is(&["XINFO", "STREAM"]) && step.arguments.len() > 3 {
        return has_same_shape(reference, ours);
    }
    // Random values, clocks, counters, sizes, versions.
    const OWN_VALUES: &[&[&str]] = &[
        &["RANDOMKEY"],
        &["SRANDMEMBER"],
        &["TIME"],
        &["MEMORY", "USAGE"],
        &["WAIT"],
        &["HELLO"],
        &["CLIENT", "ID"],
        &["COMMAND", "COUNT"],
        &["OBJECT", "IDLETIME"],
        &["OBJECT", "REFCOUNT"],
        &["XINFO", "CONSUMERS"],
    ];
    OWN_VALUES.iter().any(|words| step.is(words)) && has_same_shape(reference, ours)
}

/// Returns a list in sorted order.
pub fn sorted(reply: &Reply) -> Reply {
    match reply {
        Reply::List(kind, items) => {
            let mut items = items.clone();
            items.sort();
            Reply::List(*kind, items)
        }
        other => other.clone(),
    }
}

/// Returns the sorted pairs of a map, or of a list that represents one.
fn sorted_pairs(reply: &Reply) -> Result<Vec<(Reply, Reply)>, Reply> {
    let mut pairs: Vec<(Reply, Reply)> = match reply {
        Reply::Map(pairs) => pairs.clone(),
        Reply::List(_, items) => items.as_chunks::<2>().0.iter().cloned().map(Into::into).collect(),
        other => return Err(other.clone()),
    };
    pairs.sort();
    Ok(pairs)
}

/// Returns the cursor and the sorted elements of a complete scan. Fields and values are mixed, which is
/// sufficient here.
fn sorted_pages(reply: &Reply) -> Reply {
    match reply {
        Reply::List(kind, parts) => Reply::List(*kind, parts.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Returns the pairs of HELLO's reply except version, connection and modules.
fn without_identity(reply: &Reply) -> Vec<(Reply, Reply)> {
    let pairs = match reply {
        Reply::Map(pairs) => pairs.clone(),
        Reply::List(_, items) => items.as_chunks::<2>().0.iter().cloned().map(Into::into).collect(),
        other => vec![(other.clone(), Reply::Null)],
    };
    let own = ["version", "id", "modules"].map(|name| Reply::Bulk(name.into()));
    pairs.into_iter().filter(|(name, _)| !own.contains(name)).collect()
}

fn near(reference: &Reply, ours: &Reply, tolerance: i64) -> bool {
    match (reference, ours) {
        (Reply::Integer(reference), Reply::Integer(ours)) => {
            (*reference < 0) == (*ours < 0)
                && (*reference >= 0 && reference.abs_diff(*ours) <= tolerance as u64)
        }
        _ => false,
    }
}

/// Whether both replies have equal types at all depths; the texts of errors must be equal.
fn has_same_shape(reference: &Reply, ours: &Reply) -> bool {
    match (reference, ours) {
        (Reply::Error(reference), Reply::Error(ours)) => reference == ours,
        (Reply::List(_, reference), Reply::List(_, ours)) => {
            reference.len() == ours.len()
                && reference.iter().zip(ours).all(|(reference, ours)| has_same_shape(reference, ours))
        }
        (Reply::Map(reference), Reply::Map(ours)) => {
            let pairs = reference.iter().zip(ours);
            reference.len() == ours.len()
                && pairs
                    .into_iter()
                    .all(|(reference, ours)| reference.0 == ours.0 && has_same_shape(&reference.1, &ours.1))
        }
        _ => std::mem::discriminant(reference) == std::mem::discriminant(ours),
    }
}
