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
    reference: &[Answer],
    ours: &[Answer],
) -> Option<usize> {
    let mut context = Context::default();
    let mut queued: Vec<Vec<&Step>> = vec![Vec::new(); ensemble.connection_count];
    let mut at = 0;
    for batch in sequence.batches() {
        at += batch.len();
        batch.iter().for_each(|step| context.note(step));
        let (Some(reference), Some(ours)) = (reference.get(at - 1), ours.get(at - 1)) else {
            // The run ended early, because of the answer to the last played step.
            return Some(reference.len().min(ours.len()) - 1);
        };
        let (Answer::Received(reference), Answer::Received(ours)) = (reference, ours) else {
            return Some(at - 1);
        };
        let sender = batch[0].connection;
        let is_listening = ensemble.listeners.contains(&sender);
        for connection in 0..reference.len() {
            let is_same = if connection == sender && !is_listening {
                agree_answers(
                    batch,
                    &reference[connection],
                    &ours[connection],
                    &mut queued[connection],
                    context,
                )
            } else {
                agree_received(batch, &reference[connection], &ours[connection])
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
    reference: &[RawReply],
    ours: &[RawReply],
    queued: &mut Vec<&'a Step>,
    context: Context,
) -> bool {
    let mut steps = batch.iter();
    let mut is_same = reference.len() == ours.len();
    for (reference, ours) in reference.iter().zip(ours) {
        is_same &= match (is_push(reference), is_push(ours)) {
            (true, true) => agree_pushes(reference, ours),
            (false, false) => {
                let step = steps.next();
                let agrees = reference.bytes == ours.bytes
                    || step.is_some_and(|step| {
                        agree_answer(step, &reference.reply, &ours.reply, queued, context)
                    });
                step.into_iter().for_each(|step| note_queued(step, &reference.reply, queued));
                agrees
            }
            _ => false,
        };
    }
    is_same
}

fn agree_answer(step: &Step, reference: &Reply, ours: &Reply, queued: &[&Step], context: Context) -> bool {
    if step.is(&["EXEC"])
        && let (Reply::List(_, reference), Reply::List(_, ours)) = (reference, ours)
    {
        return reference.len() == ours.len()
            && reference.len() == queued.len()
            && queued.iter().zip(reference.iter().zip(ours)).all(|(step, (reference, ours))| {
                reference == ours || agree_answer(step, reference, ours, &[], context)
            });
    }
    // Each server iterates over the keys in its own order; single-connection runs check that no key is
    // missing.
    if step.is(&["SCAN"]) {
        return matches!((reference, ours), (Reply::List(..), Reply::List(..)));
    }
    // Connection ids differ between servers.
    if step.is(&["CLIENT", "TRACKINGINFO"]) || step.is(&["CLIENT", "GETREDIR"]) {
        return without_ids(reference) == without_ids(ours);
    }
    normal::agree_replies(step, reference, ours, context)
}

fn note_queued<'a>(step: &'a Step, answer: &Reply, queued: &mut Vec<&'a Step>) {
    if *answer == Reply::Simple(b"QUEUED".to_vec()) {
        queued.push(step);
    } else if step.is(&["EXEC"]) || step.is(&["DISCARD"]) || step.is(&["RESET"]) {
        queued.clear();
    }
}

/// Compares the messages received by another connection, or by a subscriber.
fn agree_received(batch: &[Step], reference: &[RawReply], ours: &[RawReply]) -> bool {
    let is_same = reference.len() == ours.len()
        && reference
            .iter()
            .zip(ours)
            .all(|(reference, ours)| reference.bytes == ours.bytes || agree_pushes(reference, ours));
    if is_same {
        return true;
    }
    // A client's own invalidations come after those by others, or in the order of execution.
    let mut in_any_order =
        [reference, ours].map(|received| received.iter().map(|raw| &raw.reply).collect::<Vec<_>>());
    in_any_order.iter_mut().for_each(|received| received.sort());
    if reference.iter().all(is_invalidation) && in_any_order[0] == in_any_order[1] {
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
    is_unordered && words_of(reference) == words_of(ours)
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

fn agree_pushes(reference: &RawReply, ours: &RawReply) -> bool {
    let is_about_id = |raw: &RawReply| {
        matches!(&raw.reply, Reply::List(b'>', parts)
            if parts.first() == Some(&Reply::Bulk(b"tracking-redir-broken".to_vec())))
    };
    reference.bytes == ours.bytes
        || (is_about_id(reference)
            && is_about_id(ours)
            && without_ids(&reference.reply) == without_ids(&ours.reply))
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
