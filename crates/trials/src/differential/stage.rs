//! Plays the steps of several connections to one server, and records the messages that each of them receives.
//!
//! After each batch, every connection that is neither blocked nor in a transaction sends a PING, whose reply
//! shows that no more messages follow. The reference's `CLIENT LIST` determines the blocked connections; ours
//! must have the same ones blocked, so a missing or an early reply is a difference.

use std::io;
use std::time::Duration;

use super::ensembles::Ensemble;
use super::player::{Answer, EXPIRY_WAIT};
use super::sequence::{Sequence, Step};
use crate::connection::{Connection, RawReply, encode};
use crate::reply::Reply;
use crate::server::Server;

/// Time after which a reply counts as missing.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Wait for a reply before the next check whether the connection is blocked.
const LOOK_TIME: Duration = Duration::from_millis(2);
const LOOK_COUNT_MAX: usize = 2000;

/// The blocked connections, after each batch.
pub type Waiting = Vec<Vec<bool>>;

/// The connections of an ensemble on one server.
struct Stage<'a> {
    ensemble: &'static Ensemble,
    /// Blocked connections of the reference; `None` while the reference plays.
    expected_waits: Option<&'a Waiting>,
    admin: Connection,
    participants: Vec<Participant>,
    waiting: Waiting,
    marks_sent: usize,
}

struct Participant {
    connection: Connection,
    id: i64,
    is_waiting: bool,
    is_in_transaction: bool,
    received: Vec<RawReply>,
}

/// Plays a sequence on an empty server. Received messages are recorded at the last step of each batch.
pub fn play(
    server: &mut Server,
    ensemble: &'static Ensemble,
    sequence: &Sequence,
    expected_waits: Option<&Waiting>,
) -> io::Result<(Vec<Answer>, Waiting)> {
    let mut stage = Stage::open(server, ensemble, sequence, expected_waits)?;
    let mut answers = Vec::with_capacity(sequence.steps.len());
    for batch in sequence.batches() {
        answers.extend(batch.iter().skip(1).map(|_| Answer::Silence));
        match stage.play_batch(batch) {
            Ok(()) => answers.push(Answer::Received(stage.take_received())),
            Err(error) => {
                let ending = server.revive()?.map(|ending| format!("the server ended: {ending}"));
                let received = stage.take_received();
                let shown = ending.unwrap_or_else(|| format!("{error}, after {received:?}"));
                answers.push(Answer::Broken(shown));
                return Ok((answers, stage.waiting));
            }
        }
    }
    stage.close()?;
    Ok((answers, stage.waiting))
}

impl<'a> Stage<'a> {
    fn open(
        server: &Server,
        ensemble: &'static Ensemble,
        sequence: &Sequence,
        expected_waits: Option<&'a Waiting>,
    ) -> io::Result<Stage<'a>> {
        let mut admin = server.connect()?;
        admin.call(&["CONFIG", "SET", "notify-keyspace-events", ensemble.events])?;
        admin.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"])?;
        let mut participants = Vec::with_capacity(ensemble.connection_count);
        for is_resp3 in &sequence.is_resp3 {
            let mut connection = server.connect()?;
            connection.wait_at_most(ANSWER_TIME_MAX)?;
            if *is_resp3 {
                connection.call(&["HELLO", "3"])?;
            }
            let Reply::Integer(id) = connection.call(&["CLIENT", "ID"])?.reply else {
                return Err(io::Error::other("CLIENT ID returned no integer"));
            };
            participants.push(Participant {
                connection,
                id,
                is_waiting: false,
                is_in_transaction: false,
                received: Vec::new(),
            });
        }
        for (participant, line) in ensemble.prelude {
            participants[*participant].connection.call(&line.split(' ').collect::<Vec<_>>())?;
        }
        Ok(Stage { ensemble, expected_waits, admin, participants, waiting: Vec::new(), marks_sent: 0 })
    }

    fn play_batch(&mut self, batch: &[Step]) -> io::Result<()> {
        let sender = batch[0].connection;
        if !self.participants[sender].is_waiting {
            let bytes: Vec<u8> = batch.iter().flat_map(|step| self.request(step)).collect();
            self.participants[sender].connection.send(&bytes)?;
            self.await_answers(sender, batch)?;
        }
        self.note_waiting()?;
        // The sender of the batch is read first: messages to the others were sent before its replies.
        let others = (0..self.participants.len()).filter(|participant| *participant != sender);
        for participant in [sender].into_iter().chain(others) {
            if !self.participants[participant].is_waiting && !self.participants[participant].is_in_transaction
            {
                self.read_to_mark(participant)?;
            }
        }
        if batch.iter().any(|step| step.expires_soon) {
            std::thread::sleep(EXPIRY_WAIT);
        }
        Ok(())
    }

    /// Encodes the request with the ids of this server's connections.
    fn request(&self, step: &Step) -> Vec<u8> {
        let has_ids = step.is(&["CLIENT", "UNBLOCK"]) || step.is(&["CLIENT", "TRACKING"]);
        let words: Vec<Vec<u8>> = step
            .arguments
            .iter()
            .map(|word| match word.as_slice() {
                [b'@', digit @ b'0'..=b'9'] if has_ids => self
                    .participants
                    .get(usize::from(digit - b'0'))
                    .map_or(0, |participant| participant.id)
                    .to_string()
                    .into(),
                _ => word.clone(),
            })
            .collect();
        encode(&words)
    }

    fn await_answers(&mut self, sender: usize, batch: &[Step]) -> io::Result<()> {
        if self.ensemble.listeners.contains(&sender) {
            return Ok(());
        }
        for step in batch {
            let may_wait = step.may_wait() && !self.participants[sender].is_in_transaction;
            if may_wait && self.begins_to_wait(sender)? {
                self.participants[sender].is_waiting = true;
                return Ok(());
            }
            let participant = &mut self.participants[sender];
            let answer = participant.next_answer()?;
            let is_ok = answer.bytes == b"+OK\r\n";
            match step.arguments[0].to_ascii_uppercase().as_slice() {
                b"MULTI" if is_ok && step.arguments.len() == 1 => participant.is_in_transaction = true,
                b"DISCARD" if is_ok => participant.is_in_transaction = false,
                b"EXEC" => participant.is_in_transaction = false,
                b"RESET" if answer.bytes == b"+RESET\r\n" => participant.is_in_transaction = false,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the connection blocks on the request it has just sent, instead of getting a reply. On return
    /// it is blocked: later commands of other connections see this state, on any thread.
    fn begins_to_wait(&mut self, sender: usize) -> io::Result<bool> {
        let expected_waits = self.expected_waits.map(|expected_waits| expected_waits.get(self.waiting.len()));
        let expected = expected_waits.map(|waiting| waiting.is_some_and(|waiting| waiting[sender]));
        if expected == Some(false) {
            return Ok(false);
        }
        for _ in 0..LOOK_COUNT_MAX {
            if self.participants[sender].connection.has_answer(LOOK_TIME)? {
                return Ok(expected.unwrap_or(false));
            }
            if self.waits_by_list(sender)? {
                return Ok(true);
            }
        }
        Err(io::Error::other("neither a reply nor a blocked connection"))
    }

    /// Records the connections blocked after the batch; connections that were served are read from again.
    fn note_waiting(&mut self) -> io::Result<()> {
        let mut now = Vec::with_capacity(self.participants.len());
        for participant in 0..self.participants.len() {
            let waits = self.participants[participant].is_waiting
                && match self.expected_waits {
                    Some(expected_waits) => {
                        expected_waits.get(self.waiting.len()).is_some_and(|waiting| waiting[participant])
                    }
                    None => self.waits_by_list(participant)?,
                };
            self.participants[participant].is_waiting = waits;
            now.push(waits);
        }
        self.waiting.push(now);
        Ok(())
    }

    fn waits_by_list(&mut self, participant: usize) -> io::Result<bool> {
        let listed =
            self.admin.call(&["CLIENT", "LIST", "ID", &self.participants[participant].id.to_string()])?;
        let (Reply::Bulk(line) | Reply::Simple(line)) = listed.reply else {
            return Err(io::Error::other("CLIENT LIST returned no text"));
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        Ok(line.split(' ').filter_map(|field| field.strip_prefix("flags=")).any(|flags| flags.contains('b')))
    }

    fn read_to_mark(&mut self, participant: usize) -> io::Result<()> {
        self.marks_sent += 1;
        let mark = format!("mark {}", self.marks_sent).into_bytes();
        let participant = &mut self.participants[participant];
        participant.connection.send(&encode(&[b"PING", mark.as_slice()]))?;
        loop {
            let raw = participant.receive()?;
            match &raw.reply {
                Reply::Bulk(text) if *text == mark => return Ok(()),
                Reply::List(b'*', parts) if parts.last() == Some(&Reply::Bulk(mark.clone())) => return Ok(()),
                _ => participant.received.push(raw),
            }
        }
    }

    fn take_received(&mut self) -> Vec<Vec<RawReply>> {
        self.participants.iter_mut().map(|participant| std::mem::take(&mut participant.received)).collect()
    }

    /// Closes all connections, so that none stays blocked and takes data of the next sequence.
    fn close(&mut self) -> io::Result<()> {
        for participant in &self.participants {
            self.admin.call(&["CLIENT", "KILL", "ID", &participant.id.to_string()])?;
        }
        self.admin.call(&["CONFIG", "SET", "notify-keyspace-events", ""])?;
        self.admin.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"])?;
        Ok(())
    }
}

impl Participant {
    fn receive(&mut self) -> io::Result<RawReply> {
        self.connection
            .receive()
            .map_err(|error| io::Error::other(format!("connection {}: {error}", self.id)))
    }

    /// Reads up to the next reply; records pushes before it.
    fn next_answer(&mut self) -> io::Result<RawReply> {
        loop {
            let raw = self.receive()?;
            self.received.push(raw.clone());
            if !matches!(raw.reply, Reply::List(b'>', _)) {
                return Ok(raw);
            }
        }
    }
}
