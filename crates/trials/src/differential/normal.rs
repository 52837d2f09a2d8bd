//! When two servers' answers count as the same: equal bytes, or a difference that this file gives a reason for.

use super::player::{Answer, KeyState, without_made_ids};
use super::sequence::{Form, Step};
use crate::reply::Reply;

/// How far two clocks' views of one expiry may be apart: the servers are asked one after the other.
const EXPIRY_TOLERANCE_MS: i64 = 10_000;

/// A difference from the judge that was decided on.
pub struct Divergence {
    /// The first words of the requests it is about.
    pub words: &'static [&'static str],
    /// Why ours answers otherwise.
    pub reason: &'static str,
    /// Whether this pair, the judge's first, is that difference and no other.
    pub accepts: fn(&Reply, &Reply) -> bool,
}

/// Every decided difference.
pub static DIVERGENCES: &[Divergence] = &[];

/// What happened before in the sequence, as far as comparing depends on it.
#[derive(Clone, Copy, Default)]
pub struct Context {
    /// A key has expired without having been touched: servers delete it at different times, so they count differently.
    pub has_expired_keys: bool,
    /// Something was sorted: Valkey and Redis give a sorted set the encoding of large ones before they sort it.
    pub has_sorted: bool,
}

impl Context {
    /// Takes note of the next step.
    pub fn note(&mut self, step: &Step) {
        self.has_expired_keys |= step.expires_soon;
        self.has_sorted |= step.is(&["SORT"]) || step.is(&["SORT_RO"]);
    }
}

/// Whether ours answers a step as the judge does.
pub fn agree(step: &Step, judge: &Answer, ours: &Answer, context: Context) -> bool {
    match (judge, ours) {
        (Answer::Reply(judge), Answer::Reply(ours)) => {
            let is_same = judge.bytes == ours.bytes && step.form != Form::WholeScan;
            is_same || agree_replies(step, &judge.reply, &ours.reply, context)
        }
        (Answer::Silence, Answer::Silence) | (Answer::Closed, Answer::Closed) => true,
        _ => false,
    }
}

/// Whether two replies to a step that are not the same bytes count as the same.
pub fn agree_replies(step: &Step, judge: &Reply, ours: &Reply, context: Context) -> bool {
    agree_trees(step, judge, ours, context) || diverge(step, judge, ours)
}

/// Whether the keys at the end are the same.
pub fn agree_states(judge: &KeyState, ours: &KeyState) -> bool {
    let are_near = |(judge, ours): (&i64, &i64)| {
        (*judge < 0) == (*ours < 0) && judge.abs_diff(*ours) <= EXPIRY_TOLERANCE_MS as u64
    };
    let (judge_fields, our_fields) = (&judge.fields_expire_at_ms, &ours.fields_expire_at_ms);
    are_near((&judge.expires_at_ms, &ours.expires_at_ms))
        && judge_fields.len() == our_fields.len()
        && judge_fields.iter().zip(our_fields).all(are_near)
        && (judge.database, &judge.key, &judge.kind, &judge.value)
            == (ours.database, &ours.key, &ours.kind, &ours.value)
}

fn diverge(step: &Step, judge: &Reply, ours: &Reply) -> bool {
    DIVERGENCES.iter().any(|divergence| step.is(divergence.words) && (divergence.accepts)(judge, ours))
}

fn agree_trees(step: &Step, judge: &Reply, ours: &Reply, context: Context) -> bool {
    // Ids that servers make of their clocks.
    const WITH_IDS: &[&str] =
        &["XADD", "XRANGE", "XREVRANGE", "XREAD", "XREADGROUP", "XPENDING", "XAUTOCLAIM", "XCLAIM"];
    if WITH_IDS.iter().any(|name| step.is(&[name])) && without_made_ids(judge) == without_made_ids(ours) {
        return true;
    }
    // The hash order of keys is each server's own.
    const UNORDERED: &[&str] = &["KEYS", "HKEYS", "HVALS"];
    if step.form == Form::WholeScan || UNORDERED.iter().any(|word| step.is(&[word])) {
        return sorted(judge) == sorted(ours);
    }
    if step.is(&["HGETALL"]) {
        return sorted_pairs(judge) == sorted_pairs(ours);
    }
    if step.is(&["HSCAN"]) && step.arguments.get(2).is_some_and(|cursor| cursor == b"0") {
        return sorted_pages(judge) == sorted_pages(ours);
    }
    // So is the order of members.
    const MEMBERS: &[&str] = &["SMEMBERS", "SINTER", "SUNION", "SDIFF", "SPOP"];
    if MEMBERS.iter().any(|name| step.is(&[name])) {
        return sorted(judge) == sorted(ours);
    }
    // Some servers need more calls than others to walk over a set. What a whole walk gives is to be the same.
    if (step.is(&["SSCAN"]) || step.is(&["ZSCAN"]))
        && let (Reply::List(_, judge), Reply::List(_, ours)) = (judge, ours)
        && let ([judge_cursor, judge], [ours_cursor, ours]) = (&judge[..], &ours[..])
    {
        let ended = Reply::Bulk(b"0".to_vec());
        let from_start = step.arguments.get(2).is_some_and(|cursor| cursor == b"0");
        let is_whole = from_start && *judge_cursor == ended && *ours_cursor == ended;
        return !is_whole || sorted(judge) == sorted(ours);
    }
    // Who a server is, is its own.
    if step.is(&["HELLO"]) {
        return without_identity(judge) == without_identity(ours);
    }
    // A cursor is only good for the server that gave it.
    let is_foreign_cursor = step.is(&["SCAN"]) && step.arguments.get(1).is_some_and(|cursor| cursor != b"0");
    if is_foreign_cursor {
        return matches!((judge, ours), (Reply::List(..), Reply::List(..)));
    }
    // `command_table` compares what commands are; what help says is each server's own.
    let is_help = step.arguments.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"HELP"));
    if is_help || (step.is(&["COMMAND"]) && step.arguments.len() == 1) {
        return matches!((judge, ours), (Reply::List(..), Reply::List(..)));
    }
    // They were asked at different times.
    if step.is(&["TTL"]) || step.is(&["EXPIRETIME"]) {
        return near(judge, ours, EXPIRY_TOLERANCE_MS / 1000);
    }
    if step.is(&["PTTL"]) || step.is(&["PEXPIRETIME"]) {
        return near(judge, ours, EXPIRY_TOLERANCE_MS);
    }
    const FIELD_TIMES: &[&str] = &["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME"];
    if let (Reply::List(_, judge), Reply::List(_, ours)) = (judge, ours)
        && FIELD_TIMES.iter().any(|name| step.is(&[name]))
    {
        let near = |(judge, ours)| judge == ours || near(judge, ours, EXPIRY_TOLERANCE_MS);
        return judge.len() == ours.len() && judge.iter().zip(ours).all(near);
    }
    if step.is(&["HRANDFIELD"]) || step.is(&["ZRANDMEMBER"]) {
        return has_same_shape(judge, ours);
    }
    // Where a value stops being embedded is each server's own; the Tcl suite checks the limit that clients may see.
    if step.is(&["OBJECT", "ENCODING"]) {
        let is_sorted_set =
            |reply: &Reply| matches!(reply, Reply::Bulk(name) if name == b"listpack" || name == b"skiplist");
        if context.has_sorted && is_sorted_set(judge) && is_sorted_set(ours) {
            return true;
        }
        let embedded =
            |reply: &Reply| matches!(reply, Reply::Bulk(name) if name == b"embstr" || name == b"raw");
        return embedded(judge) && embedded(ours);
    }
    if step.is(&["DBSIZE"]) && context.has_expired_keys {
        return has_same_shape(judge, ours);
    }
    // Members of a set that are not sorted come in each server's own order, and which of those with equal words for
    // weights come within the limit is its own, too. Equal numbers are in the order of the elements.
    let has = |name: &str| step.arguments.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    if (step.is(&["SORT"]) || step.is(&["SORT_RO"]))
        && has("BY")
        && has("LIMIT")
        && (has("NOSORT") || has("ALPHA"))
        && let (Reply::List(_, judge), Reply::List(_, ours)) = (judge, ours)
    {
        return judge.len() == ours.len();
    }
    // With FULL it tells when consumers were seen, and entries delivered.
    if step.is(&["XINFO", "STREAM"]) && step.arguments.len() > 3 {
        return has_same_shape(judge, ours);
    }
    // Random, clocks, counters, sizes, versions.
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
    OWN_VALUES.iter().any(|words| step.is(words)) && has_same_shape(judge, ours)
}

/// A list without its order.
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

/// The pairs of a map, or of a list that stands for one.
fn sorted_pairs(reply: &Reply) -> Result<Vec<(Reply, Reply)>, Reply> {
    let mut pairs: Vec<(Reply, Reply)> = match reply {
        Reply::Map(pairs) => pairs.clone(),
        Reply::List(_, items) => items.as_chunks::<2>().0.iter().cloned().map(Into::into).collect(),
        other => return Err(other.clone()),
    };
    pairs.sort();
    Ok(pairs)
}

/// A scan that was done in one go: its cursor, and what it found. Fields and values are mixed, which is enough here.
fn sorted_pages(reply: &Reply) -> Reply {
    match reply {
        Reply::List(kind, parts) => Reply::List(*kind, parts.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// The pairs of HELLO's answer but for version, connection and modules.
fn without_identity(reply: &Reply) -> Vec<(Reply, Reply)> {
    let pairs = match reply {
        Reply::Map(pairs) => pairs.clone(),
        Reply::List(_, items) => items.as_chunks::<2>().0.iter().cloned().map(Into::into).collect(),
        other => vec![(other.clone(), Reply::Null)],
    };
    let own = ["version", "id", "modules"].map(|name| Reply::Bulk(name.into()));
    pairs.into_iter().filter(|(name, _)| !own.contains(name)).collect()
}

fn near(judge: &Reply, ours: &Reply, tolerance: i64) -> bool {
    match (judge, ours) {
        (Reply::Integer(judge), Reply::Integer(ours)) => {
            (*judge < 0) == (*ours < 0) && (*judge >= 0 && judge.abs_diff(*ours) <= tolerance as u64)
        }
        _ => false,
    }
}

/// Whether both are of one type, all the way down; the texts of errors must be equal.
fn has_same_shape(judge: &Reply, ours: &Reply) -> bool {
    match (judge, ours) {
        (Reply::Error(judge), Reply::Error(ours)) => judge == ours,
        (Reply::List(_, judge), Reply::List(_, ours)) => {
            judge.len() == ours.len()
                && judge.iter().zip(ours).all(|(judge, ours)| has_same_shape(judge, ours))
        }
        (Reply::Map(judge), Reply::Map(ours)) => {
            let pairs = judge.iter().zip(ours);
            judge.len() == ours.len()
                && pairs
                    .into_iter()
                    .all(|(judge, ours)| judge.0 == ours.0 && has_same_shape(&judge.1, &ours.1))
        }
        _ => std::mem::discriminant(judge) == std::mem::discriminant(ours),
    }
}
