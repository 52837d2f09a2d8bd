//! Transactions: transfers between accounts preserve the sum, and no client sees a partial transfer.

use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

const ACCOUNT_COUNT: usize = 4;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let client = |number: usize| Client::new(format!("teller {number}"), run);
    (0..world.plan.client_count).map(client).collect()
}

/// Transfers amounts in transactions, with and without `WATCH`, and reads all accounts at once.
fn run(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for _ in 0..world.plan.request_count {
        let (from, to) = (random.below(ACCOUNT_COUNT), random.below(ACCOUNT_COUNT));
        let amount = random.between(1, 9);
        match random.below(3) {
            0 => watched(&mut connection, from, to, amount),
            1 => {
                let moves =
                    [format!("DECRBY account:{from} {amount}"), format!("INCRBY account:{to} {amount}")];
                transaction(&mut connection, &moves);
            }
            _ => check(&mut connection, name),
        }
    }
    check(&mut connection, name);
}

fn watched(connection: &mut Connection, from: usize, to: usize, amount: i64) {
    connection.expect_ok(&["WATCH", &format!("account:{from}"), &format!("account:{to}")]);
    let mut balance = |account: usize| {
        let reply = connection.call(&["GET", &format!("account:{account}")]);
        text_of(&reply).map_or(0, |text| text.parse::<i64>().expect("a balance is a number"))
    };
    let (left, right) = (balance(from), balance(to));
    if from == to {
        connection.expect_ok(&["UNWATCH"]);
        return;
    }
    let moves =
        [format!("SET account:{from} {}", left - amount), format!("SET account:{to} {}", right + amount)];
    // If the transaction aborts, it has no effect.
    transaction(connection, &moves);
}

fn transaction(connection: &mut Connection, requests: &[String]) -> Reply {
    let mut all = vec![words("MULTI")];
    all.extend(requests.iter().map(|request| words(request)));
    all.push(words("EXEC"));
    connection.send(&all).expect("this connection is never closed");
    let mut last = Reply::Null;
    for _ in &all {
        last = connection.receive().expect("this connection is never closed");
        assert!(!matches!(last, Reply::Error(_)), "a transaction fails: {last:?}");
    }
    last
}

fn check(connection: &mut Connection, name: &str) {
    let keys: Vec<String> = (0..ACCOUNT_COUNT).map(|account| format!("account:{account}")).collect();
    let request = format!("MGET {}", keys.join(" "));
    let Reply::List(_, results) = transaction(connection, &[request]) else {
        panic!("EXEC without WATCH succeeds")
    };
    let Reply::List(_, balances) = &results[0] else { panic!("MGET gives a list") };
    let sum: i64 = balances
        .iter()
        .filter_map(text_of)
        .map(|text| text.parse::<i64>().expect("a balance is a number"))
        .sum();
    assert_eq!(sum, 0, "{name}: the sum of the balances changed: {balances:?}");
}
