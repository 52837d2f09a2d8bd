//! Plays sequences to the reference and to ours, and reduces a sequence with a mismatch to the necessary steps.

use std::fmt::{self, Write};
use std::io;
use std::time::{Duration, Instant};

use super::normal::{self, Context};
use super::player::{Answer, KeyState, Played, play};
use super::published;
use super::sequence::{Sequence, Step};
use crate::reply::Quoted;
use crate::server::{Program, Server};

/// Maximum time of the reduction. When it is over, the sequence is reported as it is.
const SHRINK_TIME_MAX: Duration = Duration::from_secs(20);

/// The compared servers.
pub struct Comparison {
    reference: Server,
    ours: Server,
    /// Used only for reports, on mismatches.
    second_peer: Option<Server>,
}

/// A sequence with differing replies, and the replies.
pub struct Mismatch {
    sequence: Sequence,
    difference: Difference,
    second_peer: Option<String>,
    names: [&'static str; 2],
}

enum Difference {
    /// The replies to the last step of the sequence.
    Answers { reference: Answer, ours: Answer },
    /// All replies were equal, but the stored data differ.
    States { reference: Vec<KeyState>, ours: Vec<KeyState> },
}

impl Comparison {
    /// Starts the servers.
    pub fn start(
        reference: &Program,
        ours: &Program,
        second_peer: Option<&Program>,
    ) -> io::Result<Comparison> {
        let second_peer = second_peer.map(Server::start).transpose()?;
        Ok(Comparison { reference: Server::start(reference)?, ours: Server::start(ours)?, second_peer })
    }

    /// Plays a sequence; returns a mismatch in reduced form.
    pub fn play(&mut self, sequence: &Sequence) -> io::Result<Option<Mismatch>> {
        let Some((sequence, difference)) = self.compare(sequence)? else {
            return Ok(None);
        };
        let (sequence, difference) = self.shrink(sequence, difference)?;
        let second_peer = self.query_second_peer(&sequence)?;
        Ok(Some(Mismatch {
            sequence,
            difference,
            second_peer,
            names: [self.reference.name(), self.ours.name()],
        }))
    }

    /// Returns the first difference, with the sequence up to it.
    fn compare(&mut self, sequence: &Sequence) -> io::Result<Option<(Sequence, Difference)>> {
        let reference = play(&mut self.reference, sequence, None)?;
        let ours = play(&mut self.ours, sequence, Some(&reference.waiting))?;
        let mut context = Context::default();
        let first = match sequence.ensemble {
            Some(ensemble) => {
                published::first_difference(ensemble, sequence, &reference.answers, &ours.answers)
            }
            None => None,
        };
        let mut pairs = reference.answers.iter().zip(&ours.answers).zip(&sequence.steps);
        let first = first.or_else(|| {
            pairs.position(|((reference, ours), step)| {
                context.note(step);
                sequence.ensemble.is_none() && !normal::agree(step, reference, ours, context)
            })
        });
        if let Some(at) = first {
            let steps = sequence.steps[..=at].to_vec();
            let difference = Difference::Answers {
                reference: reference.answers[at].clone(),
                ours: ours.answers[at].clone(),
            };
            return Ok(Some((Sequence { steps, ..sequence.clone() }, difference)));
        }
        Ok(compare_states(reference, ours).map(|difference| (sequence.clone(), difference)))
    }

    /// Removes steps, halves first, then single steps, as long as a difference remains.
    fn shrink(
        &mut self,
        mut sequence: Sequence,
        mut difference: Difference,
    ) -> io::Result<(Sequence, Difference)> {
        let deadline = Instant::now() + SHRINK_TIME_MAX;
        let single = |step: &Step| Step { ends_batch: true, ..step.clone() };
        let unbatched = Sequence { steps: sequence.steps.iter().map(single).collect(), ..sequence.clone() };
        if let Some(smaller) = self.compare(&unbatched)? {
            (sequence, difference) = smaller;
        }
        let mut part_length = sequence.steps.len().div_ceil(2);
        while part_length > 0 && Instant::now() < deadline {
            let mut start = 0;
            while start < sequence.steps.len() && Instant::now() < deadline {
                let mut steps = sequence.steps.clone();
                steps.drain(start..(start + part_length).min(steps.len()));
                match self.compare(&Sequence { steps, ..sequence.clone() })? {
                    Some(smaller) => (sequence, difference) = smaller,
                    None => start += part_length,
                }
            }
            part_length = if part_length == 1 { 0 } else { part_length.div_ceil(2) };
        }
        Ok((sequence, difference))
    }

    fn query_second_peer(&mut self, sequence: &Sequence) -> io::Result<Option<String>> {
        let Some(second_peer) = &mut self.second_peer else { return Ok(None) };
        let played = play(second_peer, sequence, None)?;
        let last = played.answers.last().map(show_answer).unwrap_or_default();
        Ok(Some(format!("{}: {last}", second_peer.name())))
    }
}

fn compare_states(mut reference: Played, mut ours: Played) -> Option<Difference> {
    let is_same = reference.state.len() == ours.state.len()
        && reference
            .state
            .iter()
            .zip(&ours.state)
            .all(|(reference, ours)| normal::agree_states(reference, ours));
    if is_same {
        return None;
    }
    let equal_in =
        |states: &[KeyState], key: &KeyState| states.iter().any(|other| normal::agree_states(other, key));
    let both = (reference.state.clone(), ours.state.clone());
    reference.state.retain(|key| !equal_in(&both.1, key));
    ours.state.retain(|key| !equal_in(&both.0, key));
    Some(Difference::States { reference: reference.state, ours: ours.state })
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = |is_resp3: &bool| if *is_resp3 { "RESP3" } else { "RESP2" };
        let protocols: Vec<&str> = self.sequence.is_resp3.iter().map(protocol).collect();
        let protocols = protocols.join(", ");
        writeln!(out, "mismatch with seed {} ({protocols}), reduced:", self.sequence.seed)?;
        for step in &self.sequence.steps {
            let words: Vec<String> = step.arguments.iter().map(|word| Quoted(word).to_string()).collect();
            let batch = if step.ends_batch { "" } else { "   (in one batch with the next)" };
            match self.sequence.ensemble {
                Some(_) => writeln!(out, "    {}: {}{batch}", step.connection, words.join(" "))?,
                None => writeln!(out, "    {}{batch}", words.join(" "))?,
            }
        }
        let [reference_name, ours_name] = self.names;
        match &self.difference {
            Difference::Answers { reference, ours } => {
                writeln!(out, "  {reference_name}: {}", show_answer(reference))?;
                writeln!(out, "  {ours_name}: {}", show_answer(ours))?;
            }
            Difference::States { reference, ours } => {
                writeln!(out, "  all replies agree, but {reference_name} holds{}", show_states(reference))?;
                writeln!(out, "  and {ours_name} holds{}", show_states(ours))?;
            }
        }
        self.second_peer.iter().try_for_each(|second_peer| writeln!(out, "  {second_peer}"))
    }
}

fn show_answer(answer: &Answer) -> String {
    match answer {
        Answer::Reply(raw) if raw.bytes.is_empty() => format!("{:?}", raw.reply),
        Answer::Reply(raw) => Quoted(&raw.bytes).to_string(),
        Answer::Silence => "(no reply)".to_owned(),
        Answer::Received(connections) => {
            let mut text = String::new();
            for (index, received) in connections.iter().enumerate() {
                for raw in received {
                    // Writing to a String can't fail.
                    let _ = write!(text, "\n      to {index}: {}", Quoted(&raw.bytes));
                }
            }
            text
        }
        Answer::Closed => "(connection closed)".to_owned(),
        Answer::Broken(error) => format!("(broken: {error})"),
    }
}

fn show_states(states: &[KeyState]) -> String {
    let mut text = String::new();
    for KeyState { database, key, kind, value, expires_at_ms, fields_expire_at_ms } in states {
        let kind = String::from_utf8_lossy(kind);
        let fields = fields_expire_at_ms.iter().filter(|time| **time >= 0).count();
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "\n    {} in {database}: {kind} {} until {expires_at_ms}, {fields} fields expire",
            Quoted(key),
            Quoted(value)
        );
    }
    if text.is_empty() { " nothing more".to_owned() } else { text }
}
