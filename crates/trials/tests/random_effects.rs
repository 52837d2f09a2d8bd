//! The effects of random commands of all types, alone and in transactions, are known to other servers, and give the same data
//! there.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trials::connection::Connection;
use trials::differential::ensembles::data_families;
use trials::differential::sequence::{Recipe, Step};
use trials::effects::data::{self, Data, differing, expiries, is_hash, let_pass};
use trials::effects::requests::{Request, load, logged};
use trials::effects::subset::{is_known, is_known_to_successors};
use trials::random::Random;
use trials::server::{Program, Server, peers_or_skip};

const SEQUENCE_COUNT: usize = 15;
const SEQUENCE_LENGTH: usize = 200;
const TRANSACTION_PERCENT: usize = 20;
const DB_COUNT: usize = 16;
/// The latest expiry of a field in Redis, as a Unix time in milliseconds.
const FIELD_EXPIRY_MAX: i64 = (1 << 46) - 1;
/// Keys that expire so soon are not compared.
const SOON: Duration = Duration::from_secs(600);
const EXPIRY_TIME: Duration = Duration::from_millis(5);

/// Sends the requests of a sequence, batch by batch. Some batches are transactions.
fn play(connection: &mut Connection, family: &str, random: &mut Random) {
    let recipe = Recipe::new(Some(family), SEQUENCE_LENGTH).expect("the family exists");
    let sequence = recipe.make(random.next_u64());
    for batch in sequence.batches() {
        let is_played = |step: &&Step| !step.may_wait() && !step.chooses_what_is_logged();
        let mut requests: Vec<Vec<u8>> = batch.iter().filter(is_played).map(Step::bytes).collect();
        if random.chance(TRANSACTION_PERCENT) {
            requests.insert(0, b"MULTI\r\n".to_vec());
            requests.push(b"EXEC\r\n".to_vec());
        }
        for request in requests {
            connection.send(&request).unwrap();
            connection.receive().unwrap();
        }
        if batch.iter().any(|step| step.expires_soon) {
            let_pass(connection, EXPIRY_TIME);
        }
    }
}

/// Whether Redis refuses a request, because no field of its hashes expires after the year 4199.
fn is_beyond_redis(request: &Request) -> bool {
    let expiry = || std::str::from_utf8(&request[2]).ok()?.parse::<i64>().ok();
    request[0] == b"HPEXPIREAT" && expiry().is_some_and(|expiry| expiry > FIELD_EXPIRY_MAX)
}

/// Prints what differs after loading the requests in a server. Hashes are compared if `has_field_expiries`. Returns whether
/// anything was printed.
fn differs_in(
    peer: &Program,
    (server, requests): (&Server, &[Request]),
    expected: &Data,
    has_field_expiries: bool,
) -> bool {
    let there = Server::start(peer).unwrap();
    let refused_count = load(&there, server.data_dir(), requests).unwrap();
    if refused_count > 0 {
        println!("{} refuses {refused_count} requests", there.name());
    }
    let found = data::read(&mut there.connect().unwrap(), DB_COUNT);
    let soon = (SystemTime::now() + SOON).duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let mut differing = differing(expected, &found);
    differing.retain(|place| {
        let contents = || [expected, &found].into_iter().filter_map(|data| data.get(*place));
        let has_hash = contents().any(|content| is_hash(content));
        let times = || contents().flat_map(|content| expiries(content));
        let is_volatile =
            times().any(|time| time < soon) || has_hash && times().any(|time| time > FIELD_EXPIRY_MAX);
        !is_volatile && (has_field_expiries || !has_hash)
    });
    for place in &differing {
        println!("{}, db {} {}:", there.name(), place.0, place.1.escape_ascii());
        println!("  expected {:?}\n  found    {:?}", expected.get(*place), found.get(*place));
        let is_about = |request: &&Request| request.get(1) == Some(&place.1);
        for request in requests.iter().filter(is_about).rev().take(20) {
            println!("    before: {}", request.join(&b' ').escape_ascii());
        }
    }
    refused_count > 0 || !differing.is_empty()
}

#[test]
fn random_effects_give_the_same_data_everywhere() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let program =
        ours.with_arguments(&["--appendonly", "yes", "--appendfsync", "always", "--rdb-version", "11"]);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut random = Random::new(seed);
    for family in data_families().map(|family| family.name) {
        let server = Server::start(&program).unwrap();
        let mut here = server.connect().unwrap();
        (0..SEQUENCE_COUNT).for_each(|_| play(&mut here, family, &mut random));
        let expected = data::read(&mut server.connect().unwrap(), DB_COUNT);
        let mut requests = logged(server.data_dir()).unwrap();
        let is_unknown = |request: &&Request| !is_known(request) && !is_known_to_successors(request);
        let mut has_failed = false;
        for request in requests.iter().filter(is_unknown) {
            println!("older servers do not know {}", request.join(&b' ').escape_ascii());
            has_failed = true;
        }
        requests.retain(|request| !is_beyond_redis(request));
        for peer in &peers {
            has_failed |= differs_in(peer, (&server, &requests), &expected, true);
        }
        requests.retain(|request| !is_known_to_successors(request));
        for peer in Program::oldest_peers() {
            has_failed |= differs_in(&peer, (&server, &requests), &expected, false);
        }
        assert!(!has_failed, "seed {seed}, {family}: see above");
    }
}
