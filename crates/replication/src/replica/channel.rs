//! A full synchronisation with two connections: one for the snapshot, the *channel*, and the first one for the stream, which
//! the replica keeps until the snapshot is loaded.
//!
//! | | Valkey's form | Redis's form |
//! |---|---|---|
//! | answer to `PSYNC` | `+DUALCHANNELSYNC` | `+RDBCHANNELSYNC client` |
//! | channel: sent | `REPLCONF rdb-channel 1 ...` | the same with `main-ch-client-id client` |
//! | then | `SYNC` | `PSYNC ? -1` |
//! | its answer | `$ENDOFF:offset id db client` | `+FULLRESYNC id offset` |
//! | first connection: sent | `REPLCONF set-rdb-client-id client`, `PSYNC id offset` | nothing |
//! | its answer | `+CONTINUE`, the stream | the stream |
//!
//! After its answer the channel has the snapshot, in the form of `snapshot.rs`.

use wire::response::encode_command;

use super::answers::{self, encoded};
use super::handshake::HandshakeSettings;
use super::lines::{LineTooLong, Lines};
use crate::id::ReplicationId;

/// The form of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelForm {
    /// Valkey's.
    Valkey,
    /// Redis's, with the number of the first connection.
    Redis(u64),
}

/// What the channel has been told about its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelPosition {
    /// The id of the data.
    pub id: ReplicationId,
    /// The offset at which the stream begins.
    pub offset: u64,
    /// The number of the channel, which the first connection has to name (Valkey).
    pub client: Option<u64>,
}

/// Why the synchronisation has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// A request was refused.
    #[error("RDB channel: the primary has refused {0}: {1}")]
    Refused(&'static str, String),
    /// An answer has another form.
    #[error("RDB channel: unexpected answer to {0}: {1}")]
    Syntax(&'static str, String),
    /// An answer is too long.
    #[error("{0}")]
    Line(#[from] LineTooLong),
}

/// What follows from received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelStep<T> {
    /// More bytes are needed.
    Wait,
    /// These are to be sent.
    Send(Vec<u8>),
    /// It is complete.
    Done(T),
}

/// The handshake of the channel.
#[derive(Debug)]
pub struct ChannelHandshake {
    form: ChannelForm,
    /// The requests whose answers are awaited, in order.
    awaited: Vec<&'static str>,
    is_asking: bool,
    lines: Lines,
}

/// The request of the first connection for the stream (Valkey).
#[derive(Debug)]
pub struct StreamRequest {
    position: ChannelPosition,
    is_asking: bool,
    lines: Lines,
}

impl ChannelHandshake {
    /// A handshake, and what is sent first.
    #[must_use]
    pub fn begin(settings: &HandshakeSettings, form: ChannelForm) -> (Self, Vec<u8>) {
        let (mut bytes, mut awaited) = (Vec::new(), Vec::new());
        if !settings.credentials.is_empty() {
            let mut words = vec![b"AUTH".as_slice()];
            words.extend(settings.credentials.iter().map(Vec::as_slice));
            encode_command(&words, &mut bytes);
            awaited.push("AUTH");
        }
        let (port, main) = (settings.port.to_string(), main_client(form));
        let mut words = vec!["REPLCONF", "capa", "eof", "rdb-only", "1", "rdb-channel", "1"];
        words.extend(["listening-port", &port]);
        match &main {
            Some(main) => words.extend(["main-ch-client-id", main]),
            None => words.extend(["version", &settings.version]),
        }
        if !settings.address.is_empty() {
            words.extend(["ip-address", &settings.address]);
        }
        encode_command(&words, &mut bytes);
        awaited.push("REPLCONF");
        (Self { form, awaited, is_asking: false, lines: Lines::default() }, bytes)
    }

    /// Takes bytes from the beginning of `bytes`, and returns how many, and what follows. To be called again with the rest
    /// until it waits or is done.
    ///
    /// # Errors
    /// The primary has refused something.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(usize, ChannelStep<ChannelPosition>), ChannelError> {
        let (taken, line) = self.lines.receive(bytes)?;
        let Some(line) = line else { return Ok((taken, ChannelStep::Wait)) };
        let text = String::from_utf8_lossy(&line).into_owned();
        if self.is_asking {
            let what = match self.form {
                ChannelForm::Valkey => "SYNC",
                ChannelForm::Redis(_) => "PSYNC",
            };
            let position = match self.form {
                _ if line.starts_with(b"-") => return Err(ChannelError::Refused(what, text)),
                ChannelForm::Valkey => parse_end_offset(&line),
                ChannelForm::Redis(_) => parse_full(&line),
            };
            let position = position.ok_or(ChannelError::Syntax(what, text))?;
            return Ok((taken, ChannelStep::Done(position)));
        }
        let what = self.awaited.remove(0);
        if line.starts_with(b"-") {
            return Err(ChannelError::Refused(what, text));
        }
        if !self.awaited.is_empty() {
            let (more, step) = self.receive(&bytes[taken..])?;
            return Ok((taken + more, step));
        }
        self.is_asking = true;
        let request = match self.form {
            ChannelForm::Valkey => b"SYNC\r\n".to_vec(),
            ChannelForm::Redis(_) => encoded(&["PSYNC", "?", "-1"]),
        };
        Ok((taken, ChannelStep::Send(request)))
    }
}

impl StreamRequest {
    /// A request, and what is sent first. `None`: the stream comes without one.
    #[must_use]
    pub fn begin(position: ChannelPosition) -> Option<(Self, Vec<u8>)> {
        let client = position.client?.to_string();
        let request = Self { position, is_asking: false, lines: Lines::default() };
        Some((request, encoded(&["REPLCONF", "set-rdb-client-id", &client])))
    }

    /// Takes bytes from the beginning of `bytes`, and returns how many, and what follows. To be called again with the rest
    /// until it waits or is done; the stream follows.
    ///
    /// # Errors
    /// The primary has refused something.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(usize, ChannelStep<()>), ChannelError> {
        let (taken, line) = self.lines.receive(bytes)?;
        let Some(line) = line else { return Ok((taken, ChannelStep::Wait)) };
        let text = String::from_utf8_lossy(&line).into_owned();
        let (what, expected) = match self.is_asking {
            false => ("REPLCONF set-rdb-client-id", "+"),
            true => ("PSYNC", "+CONTINUE"),
        };
        if !text.starts_with(expected) {
            return Err(ChannelError::Refused(what, text));
        }
        if self.is_asking {
            // With another id the stream is not that of the snapshot.
            let id = line.strip_prefix(b"+CONTINUE ").and_then(|id| ReplicationId::parse(id.trim_ascii()));
            if id.is_some_and(|id| id != self.position.id) {
                return Err(ChannelError::Refused(what, text));
            }
            return Ok((taken, ChannelStep::Done(())));
        }
        self.is_asking = true;
        // The number of the next byte, counted from 1.
        let ChannelPosition { id, offset, .. } = self.position;
        let request = encoded(&["PSYNC", &id.to_string(), &(offset + 1).to_string()]);
        Ok((taken, ChannelStep::Send(request)))
    }
}

fn main_client(form: ChannelForm) -> Option<String> {
    match form {
        ChannelForm::Valkey => None,
        ChannelForm::Redis(client) => Some(client.to_string()),
    }
}

/// `$ENDOFF:offset id db client`. The snapshot has the database, too.
fn parse_end_offset(line: &[u8]) -> Option<ChannelPosition> {
    let mut words = line.strip_prefix(b"$ENDOFF:")?.split(|byte| *byte == b' ');
    let offset = answers::offset(words.next())?;
    let id = words.next().and_then(ReplicationId::parse)?;
    let _db = words.next()?;
    let client = answers::number(words.next())?;
    Some(ChannelPosition { id, offset, client: Some(client) })
}

/// `+FULLRESYNC id offset`.
fn parse_full(line: &[u8]) -> Option<ChannelPosition> {
    let mut words = line.strip_prefix(b"+FULLRESYNC ")?.split(|byte| *byte == b' ');
    let id = words.next().and_then(ReplicationId::parse)?;
    Some(ChannelPosition { id, offset: answers::offset(words.next())?, client: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    fn settings() -> HandshakeSettings {
        HandshakeSettings {
            credentials: vec![b"secret".to_vec()],
            port: 7000,
            address: "10.0.0.1".to_owned(),
            version: "9.0.0".to_owned(),
            ..HandshakeSettings::default()
        }
    }

    fn words(bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let words = text.split("\r\n").filter(|line| !line.starts_with(['*', '$']) && !line.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }

    /// Passes answers byte by byte. Returns what is sent after each.
    fn pass(form: ChannelForm, answers: &[&str]) -> Result<(Vec<String>, ChannelPosition), ChannelError> {
        let (mut handshake, first) = ChannelHandshake::begin(&settings(), form);
        let mut sent = vec![words(&first)];
        for byte in answers.concat().bytes() {
            match handshake.receive(&[byte])? {
                (1, ChannelStep::Wait) => {}
                (1, ChannelStep::Send(bytes)) => sent.push(words(&bytes)),
                (1, ChannelStep::Done(position)) => return Ok((sent, position)),
                (taken, step) => panic!("{taken} {step:?}"),
            }
        }
        panic!("it does not end")
    }

    #[test]
    fn the_form_of_valkey() {
        let answer = format!("\n$ENDOFF:17 {ID} 3 42\r\n");
        let (sent, position) = pass(ChannelForm::Valkey, &["+OK\r\n", "+OK\r\n", &answer]).unwrap();
        let introduction = "AUTH secret REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 7000 version 9.0.0 \
                            ip-address 10.0.0.1";
        assert_eq!(sent, [introduction, "SYNC"]);
        assert_eq!((position.id.to_string().as_str(), position.offset, position.client), (ID, 17, Some(42)));
        let (mut request, first) = StreamRequest::begin(position).unwrap();
        assert_eq!(words(&first), "REPLCONF set-rdb-client-id 42");
        let (taken, step) = request.receive(b"+OK\r\n").unwrap();
        let ChannelStep::Send(bytes) = step else { panic!("{step:?}") };
        assert_eq!((taken, words(&bytes)), (5, format!("PSYNC {ID} 18")));
        assert_eq!(request.receive(b"\n+CONTINUE id\r\n*1").unwrap(), (15, ChannelStep::Done(())));
    }

    #[test]
    fn the_form_of_redis() {
        let answer = format!("+FULLRESYNC {ID} 17\r\n");
        let (sent, position) = pass(ChannelForm::Redis(5), &["+OK\r\n", "+OK\r\n", &answer]).unwrap();
        let introduction = "AUTH secret REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 7000 \
                            main-ch-client-id 5 ip-address 10.0.0.1";
        assert_eq!(sent, [introduction, "PSYNC ? -1"]);
        assert_eq!((position.offset, StreamRequest::begin(position).is_none()), (17, true));
    }

    #[test]
    fn what_is_refused() {
        for answers in [
            &["-WRONGPASS\r\n"][..],
            &["+OK\r\n", "-ERR Unrecognized REPLCONF option\r\n"],
            &["+OK\r\n", "+OK\r\n", "-NOMASTERLINK\r\n"],
            &["+OK\r\n", "+OK\r\n", "$ENDOFF:1 2\r\n"],
            &["+OK\r\n", "+OK\r\n", "+FULLRESYNC x\r\n"],
        ] {
            for form in [ChannelForm::Valkey, ChannelForm::Redis(5)] {
                assert!(pass(form, answers).is_err(), "{answers:?}");
            }
        }
        let position =
            ChannelPosition { id: ReplicationId::parse(ID.as_bytes()).unwrap(), offset: 1, client: Some(2) };
        let (mut request, _) = StreamRequest::begin(position).unwrap();
        assert!(request.receive(b"-ERR Unrecognized RDB client id 2\r\n").is_err());
        let (mut request, _) = StreamRequest::begin(position).unwrap();
        request.receive(b"+OK\r\n").unwrap();
        assert!(request.receive(b"+DUALCHANNELSYNC\r\n").is_err());
        let other = format!("+CONTINUE {}\r\n", ID.replace('0', "f"));
        assert!(request.receive(other.as_bytes()).is_err());
    }
}
