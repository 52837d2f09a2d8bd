//! A target server, and a blocking connection for the few commands sent outside of the load.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use wire::response::{Reply, encode_command};

use crate::encryption::Encryption;
use crate::encryption::socket::Socket;

/// Timeout of one command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// User, password, database and protocol of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// User name; the default user if absent.
    pub user: Option<String>,
    /// Password; no AUTH if absent.
    pub password: Option<String>,
    /// Database number.
    pub database: u32,
    /// Whether the connection uses RESP3.
    pub resp3: bool,
}

/// A server under load.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name in reports.
    pub name: String,
    /// Listening address.
    pub address: SocketAddr,
    /// Process id, if the server runs on this machine.
    pub pid: Option<u32>,
    /// Login of every connection.
    pub login: Login,
    /// TLS of every connection, if they have it.
    pub encryption: Option<Arc<Encryption>>,
}

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A simple or bulk string, or a number as text.
    Text(String),
    /// An error.
    Error(String),
    /// Any other reply.
    Other,
}

impl Target {
    /// Opens a blocking connection and logs in.
    pub fn connect(&self) -> io::Result<Socket> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(COMMAND_TIMEOUT))?;
        stream.set_write_timeout(Some(COMMAND_TIMEOUT))?;
        let mut socket = match &self.encryption {
            None => Socket::plain(stream),
            Some(encryption) => encryption.connect(stream)?,
        };
        let Login { user, password, database, resp3 } = &self.login;
        if let Some(password) = password {
            let words = ["AUTH"].into_iter().chain(user.as_deref()).chain([password.as_str()]);
            expect_no_error(send_command(&mut socket, &words.collect::<Vec<_>>())?)?;
        }
        if *resp3 {
            expect_no_error(send_command(&mut socket, &["HELLO", "3"])?)?;
        }
        if *database != 0 {
            expect_no_error(send_command(&mut socket, &["SELECT", &database.to_string()])?)?;
        }
        Ok(socket)
    }

    /// Sends one command on a new connection and returns the reply.
    pub fn send_command(&self, words: &[&str]) -> io::Result<Answer> {
        send_command(&mut self.connect()?, words)
    }

    /// Returns the INFO text; absent if the reply isn't a string.
    #[must_use]
    pub fn info(&self) -> Option<String> {
        match self.send_command(&["INFO"]) {
            Ok(Answer::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// Returns one field of an INFO text, such as `redis_version` or `process_id`.
#[must_use]
pub fn info_field<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| *name == field).map(|(_, value)| value.trim())
}

/// Sends one command and reads its reply.
pub fn send_command(stream: &mut Socket, words: &[&str]) -> io::Result<Answer> {
    let mut request = Vec::new();
    encode_command(words, &mut request);
    stream.write_all(&request)?;

    let mut received = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let size = stream.read(&mut piece)?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&piece[..size]);
        let read = Reply::parse(&received);
        if let Some((reply, _)) = read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            return Ok(Answer::of(&reply));
        }
    }
}

impl Answer {
    fn of(reply: &Reply) -> Self {
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match reply {
            Reply::Error(error) => Self::Error(text(error)),
            Reply::Integer(number) => Self::Text(number.to_string()),
            other => other.text().map_or(Self::Other, |bytes| Self::Text(text(bytes))),
        }
    }
}

fn expect_no_error(answer: Answer) -> io::Result<()> {
    match answer {
        Answer::Error(text) => Err(io::Error::new(io::ErrorKind::PermissionDenied, text)),
        Answer::Text(_) | Answer::Other => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_lines_are_found() {
        let info = "# Server\r\nredis_version:7.2.4\r\nprocess_id:42\r\n";
        assert_eq!(info_field(info, "process_id"), Some("42"));
        assert_eq!(info_field(info, "valkey_version"), None);
    }

    #[test]
    fn replies_are_classified() {
        let interpret =
            |bytes: &str| Answer::of(&Reply::parse(bytes.as_bytes()).expect("a reply").expect("whole").0);
        assert_eq!(interpret("+PONG\r\n"), Answer::Text("PONG".into()));
        assert_eq!(interpret(":12\r\n"), Answer::Text("12".into()));
        assert_eq!(interpret("$5\r\na\r\nbc\r\n"), Answer::Text("a\r\nbc".into()));
        assert_eq!(interpret("-LOADING x\r\n"), Answer::Error("LOADING x".into()));
        assert_eq!(interpret("$-1\r\n"), Answer::Other);
        assert_eq!(interpret("*0\r\n"), Answer::Other);
    }
}
