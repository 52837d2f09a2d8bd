//! Plays sequences to the judge and to ours, and reduces a sequence with a mismatch to the necessary steps.

use std::fmt::{self, Write};
use std::io;
use std::time::{Duration, Instant};

use super::normal::{self, Context};
use super::player::{Answer, KeyState, Played, play};
use super::published;
use super::sequence::{Sequence, Step};
use crate::reply::Quoted;
use crate::server::{Program, Server};

/// Maximum time of the reduction: a quick long report is better than a late short one.
const SHRINK_TIME_MAX: Duration = Duration::from_secs(20);

/// The compared servers.
pub struct Contest {
    judge: Server,
    ours: Server,
    /// Used only for reports, on mismatches.
    witness: Option<Server>,
}

/// A sequence with differing replies, and the replies.
pub struct Mismatch {
    sequence: Sequence,
    difference: Difference,
    witness: Option<String>,
    names: [&'static str; 2],
}

enum Difference {
    /// The replies to the last step of the sequence.
    Answers { judge: Answer, ours: Answer },
    /// All replies were equal, but the stored data differ.
    States { judge: Vec<KeyState>, ours: Vec<KeyState> },
}

impl Contest {
    /// Starts the servers.
    pub fn start(judge: &Program, ours: &Program, witness: Option<&Program>) -> io::Result<Contest> {
        let witness = witness.map(Server::start).transpose()?;
        Ok(Contest { judge: Server::start(judge)?, ours: Server::start(ours)?, witness })
    }

    /// Plays a sequence; returns a mismatch in reduced form.
    pub fn play(&mut self, sequence: &Sequence) -> io::Result<Option<Mismatch>> {
        let Some((sequence, difference)) = self.compare(sequence)? else {
            return Ok(None);
        };
        let (sequence, difference) = self.shrink(sequence, difference)?;
        let witness = self.query_witness(&sequence)?;
        Ok(Some(Mismatch { sequence, difference, witness, names: [self.judge.name(), self.ours.name()] }))
    }

    /// Returns the first difference, with the sequence up to it.
    fn compare(&mut self, sequence: &Sequence) -> io::Result<Option<(Sequence, Difference)>> {
        let judge = play(&mut self.judge, sequence, None)?;
        let ours = play(&mut self.ours, sequence, Some(&judge.waiting))?;
        let mut context = Context::default();
        let first = match sequence.ensemble {
            Some(ensemble) => published::first_difference(ensemble, sequence, &judge.answers, &ours.answers),
            None => None,
        };
        let mut pairs = judge.answers.iter().zip(&ours.answers).zip(&sequence.steps);
        let first = first.or_else(|| {
            pairs.position(|((judge, ours), step)| {
                context.note(step);
                sequence.ensemble.is_none() && !normal::agree(step, judge, ours, context)
            })
        });
        if let Some(at) = first {
            let steps = sequence.steps[..=at].to_vec();
            let difference =
                Difference::Answers { judge: judge.answers[at].clone(), ours: ours.answers[at].clone() };
            return Ok(Some((Sequence { steps, ..sequence.clone() }, difference)));
        }
        Ok(compare_states(judge, ours).map(|difference| (sequence.clone(), difference)))
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

    fn query_witness(&mut self, sequence: &Sequence) -> io::Result<Option<String>> {
        let Some(witness) = &mut self.witness else { return Ok(None) };
        let played = play(witness, sequence, None)?;
        let last = played.answers.last().map(show_answer).unwrap_or_default();
        Ok(Some(format!("{}: {last}", witness.name())))
    }
}

fn compare_states(mut judge: Played, mut ours: Played) -> Option<Difference> {
    let is_same = judge.state.len() == ours.state.len()
        && judge.state.iter().zip(&ours.state).all(|(judge, ours)| normal::agree_states(judge, ours));
    if is_same {
        return None;
    }
    let equal_in =
        |states: &[KeyState], key: &KeyState| states.iter().any(|other| normal::agree_states(other, key));
    let both = (judge.state.clone(), ours.state.clone());
    judge.state.retain(|key| !equal_in(&both.1, key));
    ours.state.retain(|key| !equal_in(&both.0, key));
    Some(Difference::States { judge: judge.state, ours: ours.state })
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
        let [judge_name, ours_name] = self.names;
        match &self.difference {
            Difference::Answers { judge, ours } => {
                writeln!(out, "  {judge_name}: {}", show_answer(judge))?;
                writeln!(out, "  {ours_name}: {}", show_answer(ours))?;
            }
            Difference::States { judge, ours } => {
                writeln!(out, "  all replies agree, but {judge_name} holds{}", show_states(judge))?;
                writeln!(out, "  and {ours_name} holds{}", show_states(ours))?;
            }
        }
        self.witness.iter().try_for_each(|witness| writeln!(out, "  {witness}"))
    }
}

fn show_answer(answer: &Answer) -> String {
    match answer {
        Answer::Reply(raw) if raw.bytes.is_empty() => format!("{:?}", raw.reply),
        Answer::Reply(raw) => Quoted(&raw.bytes).to_string(),
        Answer::Silence => "(no reply)".to_owned(),
        Answer::Heard(connections) => {
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
