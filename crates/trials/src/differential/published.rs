//! Equality of the messages received by the connections of an ensemble: per batch and connection, in order.

use super::ensembles::Ensemble;
use super::normal::{self, Context};
use super::player::Answer;
use super::sequence::{Sequence, Step};
use crate::connection::RawReply;
use crate::reply::Reply;

/// Returns the last step of the first batch in which two servers' connections received different messages.
pub fn first_difference(
    ensemble: &Ensemble,
    sequence: &Sequence,
    judge: &[Answer],
    ours: &[Answer],
) -> Option<usize> {
    let mut context = Context::default();
    let mut queued: Vec<Vec<&Step>> = vec![Vec::new(); ensemble.connection_count];
    let mut at = 0;
    for batch in sequence.batches() {
        at += batch.len();
        batch.iter().for_each(|step| context.note(step));
        let (Some(judge), Some(ours)) = (judge.get(at - 1), ours.get(at - 1)) else {
            // The run ended early, because of the answer to the last played step.
            return Some(judge.len().min(ours.len()) - 1);
        };
        let (Answer::Heard(judge), Answer::Heard(ours)) = (judge, ours) else { return Some(at - 1) };
        let actor = batch[0].connection;
        let is_listening = ensemble.listeners.contains(&actor);
        for seat in 0..judge.len() {
            let is_same = if seat == actor && !is_listening {
                agree_answers(batch, &judge[seat], &ours[seat], &mut queued[seat], context)
            } else {
                agree_received(batch, &judge[seat], &ours[seat])
            };
            if !is_same {
                return Some(at - 1);
            }
        }
    }
    None
}

/// Compares the replies of the connection that sent the batch, with regard to the requests.
fn agree_answers<'a>(
    batch: &'a [Step],
    judge: &[RawReply],
    ours: &[RawReply],
    queued: &mut Vec<&'a Step>,
    context: Context,
) -> bool {
    let mut steps = batch.iter();
    let mut is_same = judge.len() == ours.len();
    for (judge, ours) in judge.iter().zip(ours) {
        is_same &= match (is_push(judge), is_push(ours)) {
            (true, true) => agree_pushes(judge, ours),
            (false, false) => {
                let step = steps.next();
                let agrees = judge.bytes == ours.bytes
                    || step
                        .is_some_and(|step| agree_answer(step, &judge.reply, &ours.reply, queued, context));
                step.into_iter().for_each(|step| note_queued(step, &judge.reply, queued));
                agrees
            }
            _ => false,
        };
    }
    is_same
}

fn agree_answer(step: &Step, judge: &Reply, ours: &Reply, queued: &[&Step], context: Context) -> bool {
    if step.is(&["EXEC"])
        && let (Reply::List(_, judge), Reply::List(_, ours)) = (judge, ours)
    {
        return judge.len() == ours.len()
            && judge.len() == queued.len()
            && queued
                .iter()
                .zip(judge.iter().zip(ours))
                .all(|(step, (judge, ours))| judge == ours || agree_answer(step, judge, ours, &[], context));
    }
    // Each server iterates over the keys in its own order; single-connection runs check that no key is
    // missing.
    if step.is(&["SCAN"]) {
        return matches!((judge, ours), (Reply::List(..), Reply::List(..)));
    }
    // Connection ids differ between servers.
    if step.is(&["CLIENT", "TRACKINGINFO"]) || step.is(&["CLIENT", "GETREDIR"]) {
        return without_ids(judge) == without_ids(ours);
    }
    normal::agree_replies(step, judge, ours, context)
}

fn note_queued<'a>(step: &'a Step, answer: &Reply, queued: &mut Vec<&'a Step>) {
    if *answer == Reply::Simple(b"QUEUED".to_vec()) {
        queued.push(step);
    } else if step.is(&["EXEC"]) || step.is(&["DISCARD"]) || step.is(&["RESET"]) {
        queued.clear();
    }
}

/// Compares the messages received by another connection, or by a subscriber.
fn agree_received(batch: &[Step], judge: &[RawReply], ours: &[RawReply]) -> bool {
    let is_same = judge.len() == ours.len()
        && judge.iter().zip(ours).all(|(judge, ours)| judge.bytes == ours.bytes || agree_pushes(judge, ours));
    if is_same {
        return true;
    }
    // A client's own invalidations come after those by others, or in the order of execution.
    let mut in_any_order =
        [judge, ours].map(|received| received.iter().map(|raw| &raw.reply).collect::<Vec<_>>());
    in_any_order.iter_mut().for_each(|received| received.sort());
    if judge.iter().all(is_invalidation) && in_any_order[0] == in_any_order[1] {
        return true;
    }
    // The hash order of channels and patterns differs between servers.
    const UNORDERED: &[&[&str]] = &[
        &["UNSUBSCRIBE"],
        &["PUNSUBSCRIBE"],
        &["SUNSUBSCRIBE"],
        &["PUBLISH"],
        &["PUBSUB", "CHANNELS"],
        &["PUBSUB", "SHARDCHANNELS"],
        &["HELLO"],
    ];
    let is_unordered = batch.iter().any(|step| UNORDERED.iter().any(|words| step.is(words)));
    is_unordered && words_of(judge) == words_of(ours)
}

/// Returns the words of all replies, sorted.
fn words_of(received: &[RawReply]) -> Vec<Reply> {
    let mut words = Vec::new();
    for raw in received {
        match normal::sorted(&raw.reply) {
            // The identity of a server is its own.
            Reply::Map(_) => {}
            Reply::List(_, parts) if parts.contains(&Reply::Bulk(b"server".to_vec())) => {}
            Reply::List(_, parts) => words.extend(parts),
            other => words.push(other),
        }
    }
    words.sort();
    words
}

fn is_invalidation(raw: &RawReply) -> bool {
    raw.bytes.windows(b"invalidate\r\n".len()).any(|part| part == b"invalidate\r\n")
}

fn is_push(raw: &RawReply) -> bool {
    matches!(raw.reply, Reply::List(b'>', _))
}

fn agree_pushes(judge: &RawReply, ours: &RawReply) -> bool {
    let is_about_id = |raw: &RawReply| {
        matches!(&raw.reply, Reply::List(b'>', parts)
            if parts.first() == Some(&Reply::Bulk(b"tracking-redir-broken".to_vec())))
    };
    judge.bytes == ours.bytes
        || (is_about_id(judge) && is_about_id(ours) && without_ids(&judge.reply) == without_ids(&ours.reply))
}

/// Returns the reply with every id replaced by 1.
fn without_ids(reply: &Reply) -> Reply {
    let all = |items: &[Reply]| items.iter().map(without_ids).collect();
    match reply {
        Reply::Integer(id) if *id > 0 => Reply::Integer(1),
        Reply::List(kind, items) => Reply::List(*kind, all(items)),
        Reply::Map(pairs) => {
            Reply::Map(pairs.iter().map(|(name, value)| (without_ids(name), without_ids(value))).collect())
        }
        other => other.clone(),
    }
}
