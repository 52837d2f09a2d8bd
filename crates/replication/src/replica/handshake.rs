//! The handshake with a primary.
//!
//! | state | sent on entry | answers | next |
//! |---|---|---|---|
//! | `Ping` | `PING` | `+`, or an error that asks for a password | `Introduction` |
//! | `Introduction` | `AUTH`, `REPLCONF` for each fact, together | one for each; only `AUTH` must succeed | `Resume` |
//! | `Resume` | `PSYNC` | `+FULLRESYNC`, `+CONTINUE`, `+DUALCHANNELSYNC`, `+RDBCHANNELSYNC` | ended |
//! | | | another error than that to wait | ended; `SYNC` is sent |
//!
//! A line without characters is sent by a primary that is still working on its answer.

use super::answers::{self, encoded};
use super::channel::ChannelForm;
use super::lines::{LineTooLong, Lines};
use crate::id::ReplicationId;
use wire::response::encode_command;

/// What the replica tells its primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeSettings {
    /// The arguments of `AUTH`; empty: it is not sent.
    pub credentials: Vec<Vec<u8>>,
    /// The port at which clients reach the replica.
    pub port: u16,
    /// The address at which clients reach it; empty: the one from which it connects.
    pub address: String,
    /// The version of the replica, which decides what the primary may send.
    pub version: String,
    /// Whether the parts of the snapshot may come without a size in advance.
    pub takes_delimited: bool,
    /// The capabilities of the forms in which the snapshot may come on a connection of its own.
    pub channels: Vec<&'static str>,
}

/// What the replica asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All data.
    Full,
    /// What follows the data that it has.
    Continue {
        /// The id of its data.
        id: ReplicationId,
        /// The number of bytes of the stream that it has.
        offset: u64,
    },
    /// As [`Self::Continue`], and the server that is asked is to become a primary (`FAILOVER`).
    Failover {
        /// The id of its data.
        id: ReplicationId,
        /// The number of bytes of the stream that it has.
        offset: u64,
    },
}

/// See the module documentation.
#[derive(Debug)]
pub struct Handshake {
    settings: HandshakeSettings,
    request: Request,
    state: State,
    lines: Lines,
}

#[derive(Debug)]
enum State {
    Ping,
    /// The facts whose answers are awaited, in order.
    Introduction(Vec<Fact>),
    Resume,
}

/// What an answer of the introduction is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Password,
    Port,
    Address,
    Capabilities,
    Version,
}

/// What follows from received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// More bytes are needed.
    Wait,
    /// These are to be sent.
    Send(Vec<u8>),
    /// A fact was refused, which matters little: a line for the log.
    Note(String),
    /// A snapshot follows, and then the stream from this offset on.
    Full {
        /// The id of the data.
        id: ReplicationId,
        /// The offset at which the stream begins.
        offset: u64,
    },
    /// The primary knows no offsets. These bytes are to be sent; a snapshot follows, and then the stream.
    Old(Vec<u8>),
    /// All data follow, if they are asked for on another connection. The stream follows on this one.
    Channel(ChannelForm),
    /// The stream follows from the offset that the replica has.
    Continue {
        /// The new id of the data, if the primary has told one.
        id: Option<ReplicationId>,
    },
}

/// Why a handshake has failed. The connection is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The answer to `PING`.
    #[error("Error reply to PING from primary: '{0}'")]
    Ping(String),
    /// The password was refused.
    #[error("Unable to AUTH to PRIMARY: {0}")]
    Password(String),
    /// The primary can't serve replicas now.
    #[error("Primary is currently unable to PSYNC but should be in the future: {0}")]
    Later(String),
    /// The answer to `PSYNC FAILOVER`.
    #[error("Unexpected reply to PSYNC FAILOVER from the target: {0}")]
    FailoverRefused(String),
    /// An answer is too long to be a line.
    #[error("{0}")]
    Line(#[from] LineTooLong),
    /// The answer to `PSYNC`.
    #[error("Primary replied with wrong +FULLRESYNC syntax: {0}")]
    Syntax(String),
}

impl Handshake {
    /// A handshake, and what is sent first.
    #[must_use]
    pub fn begin(settings: HandshakeSettings, request: Request) -> (Self, Vec<u8>) {
        let handshake = Self { settings, request, state: State::Ping, lines: Lines::default() };
        (handshake, encoded(&[b"PING"]))
    }

    /// Takes bytes from the beginning of `bytes`, and returns how many, and what follows. To be called again with the rest
    /// until it waits or the handshake has ended.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(usize, HandshakeStep), HandshakeError> {
        let mut taken = 0;
        while taken < bytes.len() {
            let (size, line) = self.lines.receive(&bytes[taken..])?;
            taken += size;
            let Some(line) = line else { break };
            let step = self.answered(&line)?;
            if step != HandshakeStep::Wait {
                return Ok((taken, step));
            }
        }
        Ok((taken, HandshakeStep::Wait))
    }

    /// Whether the answer to `PSYNC` is awaited.
    #[must_use]
    pub fn is_resuming(&self) -> bool {
        matches!(self.state, State::Resume)
    }

    fn answered(&mut self, line: &[u8]) -> Result<HandshakeStep, HandshakeError> {
        let is_error = line.starts_with(b"-");
        let text = || String::from_utf8_lossy(line).into_owned();
        match &mut self.state {
            State::Ping => {
                let is_locked = [&b"-NOAUTH"[..], b"-NOPERM", b"-ERR operation not permitted"]
                    .iter()
                    .any(|start| line.starts_with(start));
                if is_error && !is_locked {
                    return Err(HandshakeError::Ping(text()));
                }
                Ok(HandshakeStep::Send(self.introduce()))
            }
            State::Introduction(awaited) => {
                let fact = awaited.remove(0);
                let is_last = awaited.is_empty();
                if is_error && fact == Fact::Password {
                    return Err(HandshakeError::Password(text()));
                }
                if is_last {
                    self.state = State::Resume;
                    return Ok(HandshakeStep::Send(self.psync()));
                }
                match (is_error, fact) {
                    (true, Fact::Port) => Ok(note("listening-port", line)),
                    (true, Fact::Address) => Ok(note("ip-address", line)),
                    (true, Fact::Capabilities) => Ok(note("capa", line)),
                    _ => Ok(HandshakeStep::Wait),
                }
            }
            State::Resume => self.resumed(line),
        }
    }

    /// The facts about the replica. The last is one that every primary answers.
    fn introduce(&mut self) -> Vec<u8> {
        let settings = &self.settings;
        let (mut bytes, mut awaited) = (Vec::new(), Vec::new());
        if !settings.credentials.is_empty() {
            let mut words = vec![b"AUTH".as_slice()];
            words.extend(settings.credentials.iter().map(Vec::as_slice));
            encode_command(&words, &mut bytes);
            awaited.push(Fact::Password);
        }
        let port = settings.port.to_string();
        encode_command(&["REPLCONF", "listening-port", &port], &mut bytes);
        awaited.push(Fact::Port);
        if !settings.address.is_empty() {
            encode_command(&["REPLCONF", "ip-address", &settings.address], &mut bytes);
            awaited.push(Fact::Address);
        }
        let mut words = vec!["REPLCONF"];
        if settings.takes_delimited {
            words.extend(["capa", "eof"]);
        }
        words.extend(["capa", "psync2"]);
        settings.channels.iter().for_each(|channel| words.extend(["capa", channel]));
        encode_command(&words, &mut bytes);
        awaited.push(Fact::Capabilities);
        encode_command(&["REPLCONF", "version", &settings.version], &mut bytes);
        awaited.push(Fact::Version);
        self.state = State::Introduction(awaited);
        bytes
    }

    fn psync(&self) -> Vec<u8> {
        // The number of the next byte, counted from 1.
        let next = |offset: u64| (offset + 1).to_string();
        match self.request {
            Request::Full => encoded(&[&b"PSYNC"[..], b"?", b"-1"]),
            Request::Continue { id, offset } => {
                encoded(&[&b"PSYNC"[..], id.as_bytes(), next(offset).as_bytes()])
            }
            Request::Failover { id, offset } => {
                encoded(&[&b"PSYNC"[..], id.as_bytes(), next(offset).as_bytes(), b"FAILOVER"])
            }
        }
    }

    fn resumed(&self, line: &[u8]) -> Result<HandshakeStep, HandshakeError> {
        let text = || String::from_utf8_lossy(line).into_owned();
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        match words.next().unwrap_or_default() {
            b"+FULLRESYNC" => {
                let id = words.next().and_then(ReplicationId::parse);
                match (id, answers::offset(words.next())) {
                    (Some(id), Some(offset)) => Ok(HandshakeStep::Full { id, offset }),
                    _ => Err(HandshakeError::Syntax(text())),
                }
            }
            b"+DUALCHANNELSYNC" => Ok(HandshakeStep::Channel(ChannelForm::Valkey)),
            b"+RDBCHANNELSYNC" => {
                let client = answers::number(words.next()).ok_or_else(|| HandshakeError::Syntax(text()))?;
                Ok(HandshakeStep::Channel(ChannelForm::Redis(client)))
            }
            b"+CONTINUE" => Ok(HandshakeStep::Continue { id: words.next().and_then(ReplicationId::parse) }),
            _ if matches!(self.request, Request::Failover { .. }) => {
                Err(HandshakeError::FailoverRefused(text()))
            }
            b"-NOMASTERLINK" | b"-LOADING" | b"-MASTERDOWN" | b"-NOAUTH" | b"-NOPERM" => {
                Err(HandshakeError::Later(text()))
            }
            _ => Ok(HandshakeStep::Old(encoded(&[b"SYNC"]))),
        }
    }
}

fn note(what: &str, line: &[u8]) -> HandshakeStep {
    let text = String::from_utf8_lossy(line);
    HandshakeStep::Note(format!("(Non critical) Primary does not understand REPLCONF {what}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &[u8] = b"0123456789012345678901234567890123456789";

    fn id() -> ReplicationId {
        ReplicationId::parse(ID).unwrap()
    }

    fn settings() -> HandshakeSettings {
        HandshakeSettings {
            credentials: vec![b"secret".to_vec()],
            port: 7000,
            address: "10.0.0.1".to_owned(),
            version: "9.0.0".to_owned(),
            takes_delimited: true,
            channels: vec!["dual-channel"],
        }
    }

    /// Passes an answer in two pieces. Returns the steps until it waits or ends, and the bytes that are left.
    fn pass(handshake: &mut Handshake, pieces: [&[u8]; 2]) -> (Vec<HandshakeStep>, Vec<u8>) {
        let mut steps = Vec::new();
        for (at, piece) in pieces.into_iter().enumerate() {
            let mut rest = piece;
            loop {
                let (taken, step) = handshake.receive(rest).unwrap();
                rest = &rest[taken..];
                let has_ended = matches!(
                    step,
                    HandshakeStep::Full { .. } | HandshakeStep::Continue { .. } | HandshakeStep::Old(_)
                );
                if step == HandshakeStep::Wait {
                    break;
                }
                steps.push(step);
                if has_ended {
                    let later = if at == 0 { pieces[1] } else { &[] };
                    return (steps, [rest, later].concat());
                }
            }
        }
        (steps, Vec::new())
    }

    fn request(step: &HandshakeStep) -> String {
        let (HandshakeStep::Send(bytes) | HandshakeStep::Old(bytes)) = step else {
            panic!("{step:?} sends nothing")
        };
        let lines =
            bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).trim().to_owned());
        lines.filter(|line| !line.starts_with(['*', '$']) && !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Answers everything at every cut. Returns the steps after the introduction.
    fn answer(sent: Request, last: &[u8]) -> (Vec<HandshakeStep>, Vec<u8>) {
        let dialogue =
            [&b"\n+PONG\r\n"[..], b"+OK\r\n-ERR no port\r\n+OK\r\n\r\n+OK\r\n-ERR version\r\n", last];
        let mut result = None;
        for cut in 0..last.len().max(dialogue[1].len()) {
            let (mut handshake, first) = Handshake::begin(settings(), sent);
            assert_eq!(first, b"*1\r\n$4\r\nPING\r\n");
            let mut all = Vec::new();
            let mut left = Vec::new();
            for bytes in dialogue {
                let (now, later) = bytes.split_at(cut.min(bytes.len()));
                let (steps, rest) = pass(&mut handshake, [now, later]);
                all.extend(steps);
                left = rest;
            }
            assert_eq!(
                request(&all[0]),
                "AUTH secret REPLCONF listening-port 7000 REPLCONF ip-address 10.0.0.1 REPLCONF capa eof capa psync2 \
                 capa dual-channel REPLCONF version 9.0.0"
            );
            assert!(matches!(&all[1], HandshakeStep::Note(text) if text.contains("listening-port")));
            let outcome = (all.split_off(2), left);
            assert_eq!(*result.get_or_insert_with(|| outcome.clone()), outcome, "cut at {cut}");
        }
        result.expect("there was a cut")
    }

    fn fails(sent: Request, last: &[u8]) -> HandshakeError {
        let (mut handshake, _) = Handshake::begin(HandshakeSettings::default(), sent);
        handshake.receive(b"+PONG\n").unwrap();
        for _ in 0..3 {
            handshake.receive(b"+OK\n").unwrap();
        }
        handshake.receive(last).unwrap_err()
    }

    #[test]
    fn a_snapshot_follows() {
        let (steps, left) = answer(Request::Full, &[b"\n+FULLRESYNC ", ID, b" 17\r\n$5\r\nREDIS"].concat());
        assert_eq!(request(&steps[0]), "PSYNC ? -1");
        assert_eq!(steps[1..], [HandshakeStep::Full { id: id(), offset: 17 }]);
        assert_eq!(left, b"$5\r\nREDIS");
    }

    #[test]
    fn the_stream_follows() {
        let sent = Request::Continue { id: id(), offset: 99 };
        let (steps, left) = answer(sent, b"+CONTINUE\r\n*1\r\n");
        assert_eq!(request(&steps[0]), format!("PSYNC {} 100", id()));
        assert_eq!(steps[1..], [HandshakeStep::Continue { id: None }]);
        assert_eq!(left, b"*1\r\n");
        let sent = Request::Failover { id: id(), offset: 0 };
        let (steps, _) = answer(sent, &[b"+CONTINUE ", ID, b"\r\n"].concat());
        assert_eq!(request(&steps[0]), format!("PSYNC {} 1 FAILOVER", id()));
        assert_eq!(steps[1..], [HandshakeStep::Continue { id: Some(id()) }]);
    }

    #[test]
    fn a_primary_without_offsets_sends_a_snapshot() {
        let (steps, left) = answer(Request::Full, b"-ERR unknown command 'PSYNC'\r\n$5");
        assert_eq!(request(&steps[1]), "SYNC");
        assert!(matches!(steps[1], HandshakeStep::Old(_)));
        assert_eq!(left, b"$5");
    }

    #[test]
    fn refusals() {
        let (mut handshake, _) = Handshake::begin(settings(), Request::Full);
        let error = handshake.receive(b"-ERR max number of clients reached\r\n").unwrap_err();
        assert!(error.to_string().starts_with("Error reply to PING from primary: '-ERR max"));
        for asks in ["-NOAUTH Authentication required.", "-NOPERM no", "-ERR operation not permitted"] {
            let (mut handshake, _) = Handshake::begin(settings(), Request::Full);
            let (_, step) = handshake.receive(format!("{asks}\r\n").as_bytes()).unwrap();
            assert!(request(&step).starts_with("AUTH secret"));
            let error = handshake.receive(b"-WRONGPASS no\r\n").unwrap_err();
            assert_eq!(error, HandshakeError::Password("-WRONGPASS no".to_owned()));
        }
        for wait in ["-NOMASTERLINK no link", "-LOADING the data"] {
            let error = fails(Request::Full, format!("{wait}\r\n").as_bytes());
            assert_eq!(error, HandshakeError::Later(wait.to_owned()));
        }
        assert!(matches!(fails(Request::Full, b"+FULLRESYNC abc 1\r\n"), HandshakeError::Syntax(_)));
        let failover = Request::Failover { id: id(), offset: 5 };
        assert!(matches!(fails(failover, b"-ERR no\r\n"), HandshakeError::FailoverRefused(_)));
        assert!(matches!(fails(Request::Full, &[b'x'; (64 << 10) + 1]), HandshakeError::Line(_)));
    }
}
