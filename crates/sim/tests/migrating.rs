//! `MIGRATE` between two servers of one simulation: each key is on exactly one of them, whatever the network does.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;

use reactor::simulated::{Network, Settings};
use server::simulated::Server;
use sim::connection::Connection;
use sync::simulation::{self, FreedMemory, Scheduler, SchedulerOptions, Task};
use trials::reply::Reply;

const PORTS: [u16; 2] = [6379, 6380];
const CLIENT_COUNT: usize = 3;
const KEY_COUNT: usize = 12;

fn open(port: u16) -> Connection {
    Connection::open(SocketAddr::from(([127, 0, 0, 1], port)), "client")
}

fn key(client: usize, number: usize) -> String {
    format!("key:{client}:{number}")
}

/// Moves the keys of a client, one or several at a time.
fn move_keys(client: usize, from: u16, to: u16) {
    let mut connection = open(from);
    let to = to.to_string();
    let keys: Vec<String> = (0..KEY_COUNT).map(|number| key(client, number)).collect();
    for part in keys.chunks(1 + client) {
        let mut request = vec!["MIGRATE", "127.0.0.1", &to, "", "0", "60000", "KEYS"];
        request.extend(part.iter().map(String::as_str));
        connection.expect_ok(&request);
    }
}

fn check(seed: u64) {
    let servers = PORTS.map(|port| {
        let text = format!("bind 127.0.0.1\nport {port}\nio-threads 2\nsave \"\"\n");
        Server::start(&text).unwrap_or_else(|error| panic!("the server does not start: {error}"))
    });
    let mut admins = PORTS.map(open);
    for client in 0..CLIENT_COUNT {
        for number in 0..KEY_COUNT {
            // Some are longer than the buffers of the network.
            let value = number.to_string().repeat(if number == 0 { 20_000 } else { 1 });
            admins[0].expect_ok(&["SET", &key(client, number), &value]);
        }
    }
    let refused = admins[0].call(&["MIGRATE", "127.0.0.1", "1", &key(0, 0), "0", "60000"]);
    let expected = b"IOERR error or timeout writing to target instance";
    assert!(matches!(&refused, Reply::Error(text) if text == expected), "{refused:?}");
    for [from, to] in [[0, 1], [1, 0], [0, 1]] {
        let movers: Vec<Task> = (0..CLIENT_COUNT)
            .map(|client| {
                let body = move || move_keys(client, PORTS[from], PORTS[to]);
                simulation::spawn(&format!("mover {client}"), body).unwrap()
            })
            .collect();
        // The workers of transfers end and begin meanwhile.
        for count in ["1", "2", "1"] {
            admins[from].expect_ok(&["CONFIG", "SET", "io-threads", count]);
        }
        movers.iter().for_each(Task::join);
        assert_eq!(admins[from].number(&["DBSIZE"]), 0, "seed {seed}");
        assert_eq!(admins[to].number(&["DBSIZE"]), (CLIENT_COUNT * KEY_COUNT) as i64, "seed {seed}");
    }
    for client in 0..CLIENT_COUNT {
        assert_eq!(admins[1].text(&["GET", &key(client, 0)]), "0".repeat(20_000));
        assert_eq!(admins[1].text(&["GET", &key(client, 7)]), "7");
    }
    drop(admins);
    for server in servers {
        server.stop().unwrap();
        server.wait();
        assert_eq!(server.leftovers(), [""; 0]);
    }
}

#[test]
fn each_key_is_on_one_server() {
    for seed in 0..8 {
        let options = SchedulerOptions { steps_max: 50_000_000, ..SchedulerOptions::default() };
        let scheduler = Scheduler::new(seed, options);
        scheduler.set_extension(Network::new(seed, Settings::draw(seed)));
        scheduler.set_extension(Arc::new(FreedMemory::default()));
        let outcome = scheduler.run(move || check(seed));
        assert!(outcome.failure.is_none(), "seed {seed}: {:?}", outcome.failure);
    }
}
