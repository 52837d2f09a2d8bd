//! One of the two servers of a move: its name in messages, a connection, and the questions that several steps ask.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use wire::response::Reply;

use crate::address::{HostPort, ServerUrl};
use crate::connection::{Connection, WaitLimit, is_timeout};
use crate::error::MigrateError;
use crate::info::{Info, Keyspace, Position, Role};

/// Time to wait for a server that may be another one.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// A server of the move.
pub struct Server {
    /// `source` or `target`.
    side: &'static str,
    /// How this tool connects to it.
    pub url: ServerUrl,
    encryption: Option<Arc<ClientConfig>>,
    connection: Connection,
    /// Whether the connection has failed. Replies to former requests may still arrive on it.
    has_failed: bool,
    wait_limit: WaitLimit,
}

impl Server {
    /// Connects to a server.
    pub fn connect(
        side: &'static str,
        url: &ServerUrl,
        encryption: Option<&Arc<ClientConfig>>,
        wait_limit: WaitLimit,
    ) -> Result<Self, MigrateError> {
        let connection = open(side, url, encryption, wait_limit)?;
        let (url, encryption) = (url.clone(), encryption.cloned());
        let mut server = Self { side, url, encryption, connection, has_failed: false, wait_limit };
        // Without a password, the login is not checked before.
        match server.try_call(&["PING"])? {
            // What describes and changes its role is allowed.
            Reply::Error(text) if is_loading(&text) || text.starts_with(b"MASTERDOWN ") => Ok(server),
            Reply::Error(text) => Err(server.refused("PING", &text)),
            _ => Ok(server),
        }
    }

    /// Opens another connection to the same server.
    pub fn connection(&self) -> Result<Connection, MigrateError> {
        open(self.side, &self.url, self.encryption.as_ref(), self.wait_limit)
    }

    /// Returns how long calls wait.
    pub fn wait_limit(&self) -> WaitLimit {
        self.wait_limit
    }

    /// Sets how long later calls wait.
    pub fn limit_waits(&mut self, wait_limit: WaitLimit) {
        self.wait_limit = wait_limit;
        self.connection.limit_waits(wait_limit);
    }

    /// Returns the connection, or another one if it has failed. Then the database is 0 again.
    ///
    /// # Errors
    /// The connection has failed while clients are held back: another one might reach a server that has restarted, or another
    /// server, where nothing is held back.
    fn usable(&mut self) -> Result<&mut Connection, MigrateError> {
        if self.has_failed {
            if self.wait_limit.deadline.is_some() {
                return Err(MigrateError::server(
                    self.name(),
                    "its connection was lost while writes were held back",
                ));
            }
            self.connection = self.connection()?;
            self.has_failed = false;
        }
        Ok(&mut self.connection)
    }

    /// Returns the name in messages, such as `the source 10.0.0.5:6379`.
    pub fn name(&self) -> String {
        name(self.side, &self.url)
    }

    /// Sends one request. An error reply is an error.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply, MigrateError> {
        match self.try_call(words)? {
            Reply::Error(text) => {
                // The arguments may contain a password.
                let command = words.first().map(|word| String::from_utf8_lossy(word.as_ref()).into_owned());
                Err(self.refused(&command.unwrap_or_default(), &text))
            }
            reply => Ok(reply),
        }
    }

    /// Sends one request, as [`Self::call`]; `None` if the server refuses it because it is loading its data.
    pub fn call_unless_loading(&mut self, words: &[&str]) -> Result<Option<Reply>, MigrateError> {
        match self.try_call(words)? {
            Reply::Error(text) if is_loading(&text) => Ok(None),
            Reply::Error(text) => Err(self.refused(words[0], &text)),
            reply => Ok(Some(reply)),
        }
    }

    fn refused(&self, command: &str, text: &[u8]) -> MigrateError {
        MigrateError::server(self.name(), format!("{command}: {}", String::from_utf8_lossy(text)))
    }

    /// Sends one request. An error reply is a reply.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply, MigrateError> {
        let reply = self.usable()?.call(words);
        reply.map_err(|error| self.failed(error))
    }

    /// Sends encoded requests, `count` in number, and returns their replies.
    pub fn pipeline(&mut self, requests: &[u8], count: usize) -> Result<Vec<Reply>, MigrateError> {
        let connection = self.usable()?;
        let sent = connection.send(requests);
        let replies = sent.and_then(|()| (0..count).map(|_| connection.receive()).collect());
        replies.map_err(|error| self.failed(error))
    }

    /// Selects a database.
    pub fn select(&mut self, database: u32) -> Result<(), MigrateError> {
        let selected = self.usable()?.select(database);
        selected.map_err(|error| self.failed(error))
    }

    /// Returns sections of `INFO`. A connection that the server has closed is opened again.
    pub fn info(&mut self, section: &str) -> Result<Info, MigrateError> {
        let reply = match self.call(&["INFO", section]) {
            Err(MigrateError::Connection { source, .. })
                if !is_timeout(&source) && self.wait_limit.deadline.is_none() =>
            {
                self.call(&["INFO", section])?
            }
            reply => reply?,
        };
        let text = reply.text().map(|text| String::from_utf8_lossy(text).into_owned());
        text.map(Info::new).ok_or_else(|| MigrateError::server(self.name(), "INFO has no text"))
    }

    /// Returns the number of keys of each database that has any.
    pub fn keyspace(&mut self) -> Result<Keyspace, MigrateError> {
        Ok(self.info("keyspace")?.keyspace())
    }

    /// Returns the place in the stream of changes up to which data has been changed, by clients or by its primary, and the
    /// role.
    pub fn position(&mut self) -> Result<(Position, Role), MigrateError> {
        let info = self.info("replication")?;
        let position = info.position().map(|position| (position, info.role()));
        position.ok_or_else(|| MigrateError::server(self.name(), "INFO replication has no offset"))
    }

    /// Returns what changes with each start of the server, if it tells that.
    pub fn run_id(&mut self) -> Result<Option<String>, MigrateError> {
        Ok(self.info("server")?.field("run_id").map(str::to_owned))
    }

    /// Returns the run ID of the server at another address that accepts the same login, if this tool reaches one.
    pub fn run_id_at(&self, address: &HostPort) -> Option<String> {
        let url = ServerUrl { address: address.clone(), ..self.url.clone() };
        let wait_limit = WaitLimit { reply_time_max: PROBE_TIME_MAX, ..self.wait_limit };
        Server::connect(self.side, &url, self.encryption.as_ref(), wait_limit).ok()?.run_id().ok()?
    }

    /// Returns a setting; `None` if the server does not have it, or refuses `CONFIG`.
    pub fn setting(&mut self, name: &str) -> Result<Option<String>, MigrateError> {
        let reply = self.try_call(&["CONFIG", "GET", name])?;
        let value = reply.elements().and_then(|pair| pair.get(1)?.text());
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    /// Changes a setting.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), MigrateError> {
        match self.try_call(&["CONFIG", "SET", name, value])? {
            Reply::Error(text) => Err(self.refused(&format!("CONFIG SET {name}"), &text)),
            _ => Ok(()),
        }
    }

    /// Whether the server has a command of this name.
    pub fn has_command(&mut self, name: &str) -> Result<bool, MigrateError> {
        let reply = self.try_call(&["COMMAND", "INFO", name])?;
        // Without COMMAND nothing is known, and the command itself is to fail.
        Ok(reply.is_error() || reply.elements().and_then(|found| found.first()?.elements()).is_some())
    }

    fn failed(&mut self, source: io::Error) -> MigrateError {
        self.has_failed = true;
        MigrateError::Connection { server: self.name(), source }
    }
}

fn is_loading(error: &[u8]) -> bool {
    error.starts_with(b"LOADING ")
}

fn name(side: &str, url: &ServerUrl) -> String {
    format!("the {side} {}", url.address)
}

fn open(
    side: &str,
    url: &ServerUrl,
    encryption: Option<&Arc<ClientConfig>>,
    wait_limit: WaitLimit,
) -> Result<Connection, MigrateError> {
    Connection::open(url, encryption, wait_limit).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            let user = url.user.as_deref().unwrap_or("default");
            return MigrateError::server(
                name(side, url),
                format!("the login of the user '{user}' is refused: {error}"),
            );
        }
        MigrateError::Connection { server: name(side, url), source: error }
    })
}
