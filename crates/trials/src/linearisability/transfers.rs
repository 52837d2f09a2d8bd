//! Bank transfers with WATCH and MULTI, for each type: a transaction that reads all accounts finds the
//! initial sum, and no account is overdrawn.
//!
//! An account is a key whose balance is a number, a field, a score, or the number of elements.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::invariants::{Violation, finish};
use crate::random::Random;
use crate::reply::Reply;
use crate::server::Server;

const ACCOUNT_COUNT: usize = 6;
const BALANCE: i64 = 3;
const PAYER_COUNT: usize = 4;
const AUDITOR_COUNT: usize = 2;

/// Commands of a type used for accounts. `{}` stands for a key's name, `{to}` for the other key's, and `{n}`
/// for a number that no other command has.
pub struct Ledger {
    /// Name in reports.
    pub name: &'static str,
    /// Adds one unit.
    pay_in: &'static str,
    /// Removes one unit.
    take_out: &'static str,
    /// Returns the balance.
    balance: &'static str,
    /// Moves one unit in one command; if absent, a transaction removes and adds it.
    moves: Option<&'static str>,
}

/// A ledger of each type whose elements can be removed.
pub static LEDGERS: &[Ledger] = &[
    Ledger {
        name: "strings",
        pay_in: "INCRBY {} 1",
        take_out: "DECRBY {} 1",
        balance: "GET {}",
        moves: None,
    },
    Ledger {
        name: "hashes",
        pay_in: "HINCRBY {} balance 1",
        take_out: "HINCRBY {} balance -1",
        balance: "HGET {} balance",
        moves: None,
    },
    Ledger {
        name: "sorted sets",
        pay_in: "ZINCRBY {} 1 balance",
        take_out: "ZINCRBY {} -1 balance",
        balance: "ZSCORE {} balance",
        moves: None,
    },
    Ledger {
        name: "lists",
        pay_in: "RPUSH {} {n}",
        take_out: "LPOP {}",
        balance: "LLEN {}",
        moves: Some("LMOVE {} {to} LEFT RIGHT"),
    },
    Ledger { name: "sets", pay_in: "SADD {} {n}", take_out: "SPOP {}", balance: "SCARD {}", moves: None },
    Ledger {
        name: "streams",
        pay_in: "XADD {} * n {n}",
        take_out: "XTRIM {} MAXLEN {left}",
        balance: "XLEN {}",
        moves: None,
    },
];

/// Makes `transfer_count` transfers per payer, while auditors read.
pub fn transfers_keep_the_sum(
    server: &Server,
    ledger: &Ledger,
    transfer_count: usize,
) -> io::Result<Result<(), Violation>> {
    let mut connection = server.connect()?;
    connection.call(&["FLUSHALL"])?;
    for account in 0..ACCOUNT_COUNT {
        for unit in 0..BALANCE {
            let number = account as i64 * BALANCE + unit;
            connection.call(&words(ledger.pay_in, account, account, number, 0))?;
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let auditors: Vec<_> =
            (0..AUDITOR_COUNT).map(|_| scope.spawn(|| audit(server, ledger, &is_over))).collect();
        let payers: Vec<_> = (0..PAYER_COUNT)
            .map(|payer| scope.spawn(move || pay(server, ledger, payer, transfer_count)))
            .collect();
        let paid: io::Result<Vec<usize>> = payers.into_iter().map(|payer| finish(payer.join())).collect();
        is_over.store(true, Ordering::Relaxed);
        let audited: io::Result<Vec<Option<String>>> =
            auditors.into_iter().map(|auditor| finish(auditor.join())).collect();
        if paid?.into_iter().sum::<usize>() == 0 {
            return Ok(Err(Violation(format!("{}: no transfer was ever carried out", ledger.name))));
        }
        let found = audited?.into_iter().flatten().next();
        Ok(found.map_or(Ok(()), |text| Err(Violation(format!("{}: {text}", ledger.name)))))
    })
}

/// Transfers between random accounts. Returns the number of successful transactions.
fn pay(server: &Server, ledger: &Ledger, payer: usize, transfer_count: usize) -> io::Result<usize> {
    let mut connection = server.connect()?;
    let mut random = Random::new(payer as u64);
    let mut carried_out_count = 0;
    for transfer in 0..transfer_count {
        let from = random.below(ACCOUNT_COUNT);
        let to = (from + 1 + random.below(ACCOUNT_COUNT - 1)) % ACCOUNT_COUNT;
        connection.call(&["WATCH", &key(from), &key(to)])?;
        let balance = number_of(&connection.call(&words(ledger.balance, from, to, 0, 0))?.reply)?;
        if balance == 0 {
            connection.call(&["UNWATCH"])?;
            continue;
        }
        connection.call(&["MULTI"])?;
        let number = ((payer + 1) * 1_000_000 + transfer) as i64;
        let steps = match ledger.moves {
            Some(moves) if random.chance(50) => vec![(moves, from)],
            _ => vec![(ledger.take_out, from), (ledger.pay_in, to)],
        };
        for (step, account) in steps {
            connection.call(&words(step, account, to, number, balance - 1))?;
        }
        match connection.call(&["EXEC"])?.reply {
            Reply::Null => {}
            Reply::List(_, answers) if !answers.iter().any(|answer| matches!(answer, Reply::Error(_))) => {
                carried_out_count += 1;
            }
            other => return Err(io::Error::other(format!("EXEC gave {other:?}"))),
        }
    }
    Ok(carried_out_count)
}

/// Repeatedly reads all accounts in a transaction. Returns the first violation.
fn audit(server: &Server, ledger: &Ledger, is_over: &AtomicBool) -> io::Result<Option<String>> {
    let mut connection = server.connect()?;
    while !is_over.load(Ordering::Relaxed) {
        connection.call(&["MULTI"])?;
        for account in 0..ACCOUNT_COUNT {
            connection.call(&words(ledger.balance, account, account, 0, 0))?;
        }
        let Reply::List(_, answers) = connection.call(&["EXEC"])?.reply else {
            return Err(io::Error::other("an audit watches no key, but its transaction was aborted"));
        };
        let balances: Vec<i64> = answers.iter().map(number_of).collect::<io::Result<_>>()?;
        if balances.iter().sum::<i64>() != ACCOUNT_COUNT as i64 * BALANCE {
            return Ok(Some(format!("the sum of the balances changed: {balances:?}")));
        }
        if balances.iter().any(|balance| *balance < 0) {
            return Ok(Some(format!("an account is overdrawn: {balances:?}")));
        }
    }
    Ok(None)
}

fn key(account: usize) -> String {
    format!("account:{account}")
}

fn words(template: &str, account: usize, to: usize, number: i64, left: i64) -> Vec<String> {
    let fill = |word: &str| match word {
        "{}" => key(account),
        "{to}" => key(to),
        "{n}" => number.to_string(),
        "{left}" => left.to_string(),
        word => word.to_owned(),
    };
    template.split(' ').map(fill).collect()
}

/// Returns the number in a reply; no number is 0.
fn number_of(reply: &Reply) -> io::Result<i64> {
    match reply {
        Reply::Null => Some(0),
        Reply::Integer(number) => Some(*number),
        Reply::Bulk(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    }
    .ok_or_else(|| io::Error::other(format!("a balance of {reply:?}")))
}
