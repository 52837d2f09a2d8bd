//! Scripts: transfers between accounts by `EVAL`, `EVALSHA` and `FCALL` preserve the sum, beside transactions that do
//! so. No client sees a part of a script, each script has its effect once, and connections may end meanwhile.

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::World;

const ACCOUNT_COUNT: usize = 4;

/// A transfer whose text proves that it accesses its keys only.
const DECLARED: &str = "\
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('INCRBY', KEYS[2], ARGV[1])
return redis.call('INCR', KEYS[3])";

/// A transfer whose keys are not declared: it latches them as it meets them. The loop lets it pause in the middle.
const UNDECLARED: &str = "\
redis.call('DECRBY', 'purse:' .. ARGV[1], ARGV[3])
for _ = 1, tonumber(ARGV[5]) do end
redis.call('INCRBY', 'purse:' .. ARGV[2], ARGV[3])
return redis.call('INCR', ARGV[4])";

/// Compares all accounts, read one by one. It may end early, so that it runs again.
const TOTAL: &str = "\
local total = 0
for account = 0, tonumber(ARGV[1]) - 1 do
  total = total + tonumber(redis.call('GET', 'purse:' .. account) or 0)
end
return total";

/// The same transfer and total as functions.
const LIBRARY: &str = "\
#!lua name=purses
redis.register_function('purse_move', function(keys, args)
  redis.call('DECRBY', keys[1], args[1])
  redis.call('INCRBY', keys[2], args[1])
  return redis.call('INCR', keys[3])
end)
redis.register_function{function_name='purse_total', flags={'no-writes'}, callback=function(keys, args)
  local total = 0
  for account = 0, tonumber(args[1]) - 1 do
    total = total + tonumber(redis.call('GET', 'purse:' .. account) or 0)
  end
  return total
end}";

pub(super) fn clients(world: &World) -> Vec<Client> {
    let client = |number: usize| {
        Client::new(format!("scripted {number}"), move |world, name, random| run(world, name, number, random))
    };
    let leaver = Client::new("leaving script".to_owned(), leave);
    (0..world.plan.client_count).map(client).chain([leaver]).collect()
}

fn run(world: &World, name: &str, number: usize, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    load_library(&mut connection);
    let mut done_count = 0;
    for _ in 0..world.plan.request_count {
        match random.below(20) {
            0..9 => {
                let request = transfer(&mut connection, number, &mut random);
                let reply = connection.try_call(&refs(&request)).expect("this connection is never closed");
                expect_done(name, &reply, &mut done_count);
            }
            9..12 => {
                let request = transfer(&mut connection, number, &mut random);
                let reply = in_transaction(&mut connection, &[request, total(false, &mut random)]);
                let Reply::List(_, replies) = reply else { panic!("{name}: {reply:?}") };
                expect_done(name, &replies[0], &mut done_count);
                expect_zero(name, &replies[1]);
            }
            12..14 => {
                let (from, to) = (random.below(ACCOUNT_COUNT), random.below(ACCOUNT_COUNT));
                let amount = random.between(1, 9);
                let moves = [format!("DECRBY purse:{from} {amount}"), format!("INCRBY purse:{to} {amount}")];
                in_transaction(&mut connection, &moves.map(|request| words(&request)));
            }
            14..18 => {
                let request = total(random.chance(70), &mut random);
                expect_zero(name, &connection.call(&refs(&request)));
            }
            18 => connection.expect_ok(&["SCRIPT", "FLUSH", *random.pick(&["SYNC", "ASYNC"])]),
            _ if random.chance(50) => load_library(&mut connection),
            // Succeeds if a script is paused that has written nothing.
            _ => drop(connection.call(&[*random.pick(&["SCRIPT", "FUNCTION"]), "KILL"])),
        }
    }
    let found = connection.call(&["GET", &counter(number)]);
    let found = text_of(&found).map_or(0, |text| text.parse::<i64>().expect("a counter is a number"));
    assert_eq!(found, done_count, "{name}: the scripts that ran, and those that were acknowledged");
}

/// A request for a random transfer, of a random kind.
fn transfer(connection: &mut Connection, client: usize, random: &mut Random) -> Vec<String> {
    let (from, to) = (random.below(ACCOUNT_COUNT).to_string(), random.below(ACCOUNT_COUNT).to_string());
    let (amount, counter) = (random.between(1, 9).to_string(), counter(client));
    let keys = [format!("purse:{from}"), format!("purse:{to}"), counter.clone()];
    let head: [&str; 3] = match random.below(4) {
        0 => ["EVAL", DECLARED, "3"],
        1 => {
            let sha = connection.text(&["SCRIPT", "LOAD", DECLARED]);
            return [vec!["EVALSHA".to_owned(), sha, "3".to_owned()], keys.to_vec(), vec![amount]].concat();
        }
        2 => ["FCALL", "purse_move", "3"],
        _ => {
            let loops = if random.chance(30) { "120000" } else { "0" };
            let words = ["EVAL", UNDECLARED, "0", &from, &to, &amount, &counter, loops];
            return words.map(str::to_owned).to_vec();
        }
    };
    [head.map(str::to_owned).to_vec(), keys.to_vec(), vec![amount]].concat()
}

/// A request for the sum of all accounts, by a script that only reads or by one that might write.
fn total(only_reads: bool, random: &mut Random) -> Vec<String> {
    let [verb, code] = match (only_reads, random.below(2)) {
        (true, 0) => ["EVAL_RO", TOTAL],
        (true, _) => ["FCALL_RO", "purse_total"],
        (false, 0) => ["EVAL", TOTAL],
        (false, _) => ["FCALL", "purse_total"],
    };
    [verb, code, "0", &ACCOUNT_COUNT.to_string()].map(str::to_owned).to_vec()
}

/// Each client counts its own transfers.
fn counter(client: usize) -> String {
    format!("scripts:{client}")
}

fn expect_done(name: &str, reply: &Reply, done_count: &mut i64) {
    match reply {
        Reply::Integer(count) => {
            *done_count += 1;
            assert_eq!(count, done_count, "{name}: the transfer has run another number of times");
        }
        // It has had no effect: SCRIPT FLUSH, SCRIPT KILL, or a wait for a long script.
        Reply::Error(text) => assert_harmless(name, text),
        other => panic!("{name}: a transfer gives {other:?}"),
    }
}

fn expect_zero(name: &str, reply: &Reply) {
    match reply {
        Reply::Integer(total) => assert_eq!(*total, 0, "{name}: a script sees a part of a transfer"),
        Reply::Error(text) => assert_harmless(name, text),
        other => panic!("{name}: a total gives {other:?}"),
    }
}

pub(super) fn assert_harmless(name: &str, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let is_killed = text.contains("killed by user");
    assert!(is_killed || text.starts_with("NOSCRIPT") || text.starts_with("BUSY"), "{name}: {text}");
}

fn in_transaction(connection: &mut Connection, requests: &[Vec<String>]) -> Reply {
    let all = [&[words("MULTI")], requests, &[words("EXEC")]].concat();
    connection.send(&all).expect("this connection is never closed");
    let replies = all.iter().map(|_| connection.receive().expect("this connection is never closed"));
    replies.last().expect("EXEC has a reply")
}

fn load_library(connection: &mut Connection) {
    assert_eq!(connection.text(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]), "purses");
}

/// Sends transfers, alone or in transactions, and disconnects abnormally if not killed before.
fn leave(world: &World, name: &str, mut random: Random) {
    for _ in 0..world.plan.request_count / 2 {
        let mut connection = Connection::open(world.address, name);
        // The killer of the plan kills connections of this name.
        if connection.try_call(&["CLIENT", "SETNAME", "victim"]).is_err() {
            continue;
        }
        let (from, to) = (random.below(ACCOUNT_COUNT).to_string(), random.below(ACCOUNT_COUNT).to_string());
        let transfer = ["EVAL", UNDECLARED, "0", &from, &to, "1", "scripts:left", "120000"];
        let transfer = transfer.map(str::to_owned).to_vec();
        let requests = match random.below(3) {
            0 => vec![words("MULTI"), transfer.clone(), transfer, words("EXEC")],
            1 => vec![transfer.clone(), transfer],
            _ => vec![transfer],
        };
        if connection.send(&requests).is_err() {
            continue;
        }
        simulation::sleep_us(random.below(2_000) as u64);
        if random.chance(50) { connection.reset() } else { drop(connection) }
    }
}

fn refs(request: &[String]) -> Vec<&str> {
    request.iter().map(String::as_str).collect()
}
