//! The clients of a campaign: each changes keys of its own and records what replies confirm.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::CLIENT_COUNT;
use crate::connection::{Connection, encode};
use crate::durability::{Change, Contents, History};
use crate::random::Random;
use crate::reply::Reply;
use crate::server::Server;

/// Changes that a client sends together, at most.
const BATCH_LEN_MAX: usize = 8;
/// Accounts among which all clients transfer.
const ACCOUNT_COUNT: usize = 8;

/// A client with its history.
pub(super) struct Client {
    number: usize,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    history: History,
    /// How many changes were acknowledged when.
    moments: Vec<(Instant, usize)>,
    refused_count: usize,
}

impl Client {
    pub(super) fn new(number: usize, before: Contents) -> Self {
        let record = Record { history: History::new(before), ..Record::default() };
        Self { number, record: Mutex::new(record) }
    }

    /// The history, in which changes that were acknowledged before `settled_before` are guaranteed, and the number of
    /// refused changes.
    pub(super) fn into_history(self, settled_before: Option<Instant>) -> (History, usize) {
        let Record { mut history, moments, refused_count } =
            self.record.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = settled_before {
            let settled = moments.iter().rev().find(|(at, _)| *at < before);
            history.settled(settled.map_or(0, |(_, count)| *count));
        }
        (history, refused_count)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the connection ends. `may_refuse`: changes may be refused.
    ///
    /// # Errors
    /// A wrong reply.
    pub(super) fn work(
        &self,
        server: &Server,
        may_refuse: bool,
        random: &mut Random,
        acknowledged: &Sender<usize>,
    ) -> io::Result<()> {
        // On a busy machine the kill may come first.
        let Ok(mut connection) = server.connect() else { return Ok(()) };
        loop {
            match self.step(&mut connection, may_refuse, random, acknowledged) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                // The kill.
                Err(_) => return Ok(()),
            }
        }
    }

    fn step(
        &self,
        connection: &mut Connection,
        may_refuse: bool,
        random: &mut Random,
        acknowledged: &Sender<usize>,
    ) -> io::Result<()> {
        match random.below(100) {
            0..70 => {
                let count = self.change(connection, may_refuse, random)?;
                // Fails only when nobody waits for acknowledgements any more.
                let _ = acknowledged.send(count);
            }
            70..90 => {
                let other = random.below(CLIENT_COUNT);
                let count = number(connection, &format!("GET count:{other}"))?;
                self.record().history.read(other, count);
            }
            90..95 => {
                let (from, to) = (random.below(ACCOUNT_COUNT), random.below(ACCOUNT_COUNT));
                let requests =
                    ["MULTI", &format!("DECRBY account:{from} 7"), &format!("INCRBY account:{to} 7"), "EXEC"];
                send(connection, &requests.map(str::to_owned), may_refuse)?;
            }
            _ => {
                if call(connection, "WAITAOF 1 0 100")?
                    == Reply::List(b'*', vec![Reply::Integer(1), Reply::Integer(0)])
                {
                    self.record().history.awaited();
                }
            }
        }
        Ok(())
    }

    /// Sends some changes together, one if it may be refused. Returns the number of acknowledged ones.
    fn change(
        &self,
        connection: &mut Connection,
        may_refuse: bool,
        random: &mut Random,
    ) -> io::Result<usize> {
        let count = if may_refuse { 1 } else { 1 + random.below(BATCH_LEN_MAX) };
        let choices = [Change::Count, Change::Push, Change::Transaction];
        let changes: Vec<Change> = (0..count).map(|_| *random.pick(&choices)).collect();
        let requests = self.begin(&changes);
        let is_refused = send(connection, &requests, may_refuse)?;
        let record = &mut *self.record();
        if is_refused {
            record.history.refuse();
            record.refused_count += 1;
            return Ok(0);
        }
        record.history.acknowledge();
        record.moments.push((Instant::now(), record.history.acknowledged()));
        Ok(count)
    }

    /// Records changes as sent, and returns their requests.
    fn begin(&self, changes: &[Change]) -> Vec<String> {
        let history = &mut self.record().history;
        let (client, mut pushed) = (self.number, history.pushed());
        history.send(changes);
        let mut requests = Vec::new();
        for change in changes {
            match change {
                Change::Count => requests.push(format!("INCR count:{client}")),
                Change::Push => {
                    pushed += 1;
                    requests.push(format!("RPUSH list:{client} {pushed}"));
                }
                Change::Transaction => requests.extend([
                    "MULTI".to_owned(),
                    format!("INCR left:{client}"),
                    format!("RPUSH between:{client} x"),
                    format!("INCR right:{client}"),
                    "EXEC".to_owned(),
                ]),
            }
        }
        requests
    }
}

/// Sends requests together, and receives their replies. Returns whether the last one is a refusal because of the disk.
fn send(connection: &mut Connection, requests: &[String], may_refuse: bool) -> io::Result<bool> {
    let encoded = |line: &String| encode(&line.split(' ').collect::<Vec<_>>());
    connection.send(&requests.iter().flat_map(encoded).collect::<Vec<u8>>())?;
    let mut is_refused = false;
    for request in requests {
        let reply = connection.receive()?.reply;
        let Reply::Error(text) = &reply else {
            is_refused = false;
            continue;
        };
        is_refused = may_refuse && (text.starts_with(b"MISCONF") || text.starts_with(b"EXECABORT"));
        if !is_refused {
            return Err(wrong(request, &reply));
        }
    }
    Ok(is_refused)
}

/// Sends one request, and receives its reply.
pub(super) fn call(connection: &mut Connection, line: &str) -> io::Result<Reply> {
    let words: Vec<&str> = line.split(' ').collect();
    Ok(connection.call(&words)?.reply)
}

/// The contents of a client's keys.
pub(super) fn contents(connection: &mut Connection, client: usize) -> io::Result<Contents> {
    Ok(Contents {
        count: number(connection, &format!("GET count:{client}"))?,
        pushed: number(connection, &format!("LLEN list:{client}"))?,
        last_pushed: number(connection, &format!("LINDEX list:{client} -1"))?,
        left: number(connection, &format!("GET left:{client}"))?,
        right: number(connection, &format!("GET right:{client}"))?,
        between: number(connection, &format!("LLEN between:{client}"))?,
    })
}

/// The sum of all accounts: transfers leave it at 0.
pub(super) fn account_sum(connection: &mut Connection) -> io::Result<i64> {
    (0..ACCOUNT_COUNT).map(|account| integer(connection, &format!("GET account:{account}"))).sum()
}

fn number(connection: &mut Connection, line: &str) -> io::Result<u64> {
    integer(connection, line).map(i64::cast_unsigned)
}

fn integer(connection: &mut Connection, line: &str) -> io::Result<i64> {
    let reply = call(connection, line)?;
    let text = match &reply {
        Reply::Integer(number) => return Ok(*number),
        Reply::Null => return Ok(0),
        Reply::Bulk(text) | Reply::Simple(text) => text,
        _ => return Err(wrong(line, &reply)),
    };
    String::from_utf8_lossy(text).parse().map_err(|_| wrong(line, &reply))
}

fn wrong(request: &str, reply: &Reply) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{request}: {reply:?}"))
}
