//! Transactions that arrive in one piece run without being queued. The difference is not visible to clients.

use crate::support::{self, Client, Server, shown};

/// The results must not depend on how it is split.
const SESSION: &str = "\
    MULTI|SET k 1|INCR k|GET k|MGET k n x|EXEC\n\
    MULTI|INCR n|LPUSH k x|INCR n|HSET h f v|EXEC\n\
    MULTI|GET long|GET k|DEL k n|EXISTS k|EXEC\n\
    WATCH k n|MULTI|SET k 1|SET k 2|EXEC\n\
    WATCH k|SET k 3|MULTI|SET k 4|EXEC|GET k\n\
    WATCH k|WATCH n|UNWATCH|SET k 5|MULTI|INCR k|EXEC\n\
    WATCH k|WATCH n|MULTI|INCR k|GET n|EXEC|WATCH k n|WATCH n|MULTI|INCR k|EXEC\n\
    WATCH x|SET x 1|WATCH k|MULTI|SET k 1|EXEC|WATCH k k|MULTI|GET k|EXEC\n\
    WATCH k|MULTI|MULTI|EXEC|WATCH k|MULTI|WATCH n|DISCARD|WATCH k|MULTI|EXEC\n\
    WATCH k|MULTI|GET k|DISCARD|SET k 2|MULTI|GET k|EXEC|WATCH|MULTI|GET k|EXEC\n\
    WATCH due|MULTI|GET due|SET k 6|EXEC\n\
    MULTI|GET gone|INCR k|EXEC|EXISTS gone\n\
    MULTI|EXEC\n\
    MULTI|SET k 7|DISCARD|GET k\n\
    MULTI|SET k 8|NOTHING|INCR k|EXEC|GET k\n\
    MULTI|SET k|INCR k|EXEC|GET k\n\
    MULTI|SET k 9|PING|EXEC|MULTI|MULTI|EXEC|MULTI|WATCH k|INCR k|EXEC\n\
    EXEC|MULTI|LPUSH l a b c|LPOP l|LRANGE l 0 -1|EXEC|MULTI|RPUSH l d|SELECT 1|INCR k|SELECT 0|EXEC\n\
    SET k 1|MULTI|INCR k|INCR k|INCR k|EXEC|MULTI|INCR k|EXEC|GET k\n\
    MULTI|GET k|GET k|EXEC|MULTI|GET k";

fn requests() -> Vec<Vec<&'static str>> {
    let requests = SESSION.split(['|', '\n']).map(|request| request.split_whitespace().collect());
    requests.collect()
}

/// All replies to the session, and how often each command ran, was rejected and failed.
fn replies(server: &Server, is_in_one_piece: bool) -> (Vec<String>, Vec<String>) {
    let mut admin = server.client();
    let long = "x".repeat(100_000);
    for request in [
        &["FLUSHALL"][..],
        &["SET", "long", &long],
        &["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
        &["SET", "gone", "v", "PX", "1"],
        &["SET", "due", "v", "PX", "1"],
        &["DEBUG", "SLEEP", "0.01"],
        &["CONFIG", "RESETSTAT"],
    ] {
        admin.text(request);
    }
    let mut client = server.client();
    let requests = requests();
    let receive = |client: &mut Client| shown(&client.receive().expect("the server stays"));
    let replies = if is_in_one_piece {
        let mut bytes = Vec::new();
        for request in &requests {
            bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
            request.iter().for_each(|word| {
                bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            });
        }
        client.send_raw(&bytes);
        requests.iter().map(|_| receive(&mut client)).collect()
    } else {
        let one_by_one = |request: &Vec<&str>| {
            client.send(request);
            receive(&mut client)
        };
        requests.iter().map(one_by_one).collect()
    };
    let statistics = admin.text(&["INFO", "commandstats"]);
    let counts = statistics.lines().filter(|line| line.starts_with("cmdstat_")).map(|line| {
        let is_count = |field: &&str| !field.starts_with("usec");
        line.split(',').filter(is_count).collect::<Vec<_>>().join(",")
    });
    (replies, counts.collect())
}

#[test]
fn whole_and_split_requests_get_equal_replies() {
    let server = Server::start(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    let (expected, expected_counts) = replies(&server, false);
    let (found, counts) = replies(&server, true);
    for ((request, expected), found) in requests().iter().zip(&expected).zip(&found) {
        assert_eq!(found, expected, "{request:?}");
    }
    assert!(expected.iter().any(|reply| reply.contains("WRONGTYPE")));
    assert_eq!(counts, expected_counts);
}

#[test]
fn blocked_clients_are_served_after_the_whole_transaction() {
    let server = Server::start(&["--io-threads", "1"]);
    let (mut admin, mut client) = (server.client(), server.client());
    client.send(&["BLPOP", "q", "0"]);
    support::wait_for(|| (server.info(&mut admin, "blocked_clients") == "1").then_some(()));
    let push = |item: &str| format!("*3\r\n$5\r\nRPUSH\r\n$1\r\nq\r\n$1\r\n{item}\r\n");
    let pop = "*2\r\n$4\r\nLPOP\r\n$1\r\nq\r\n";
    let bytes = format!("*1\r\n$5\r\nMULTI\r\n{}{}{pop}*1\r\n$4\r\nEXEC\r\n", push("a"), push("b"));
    admin.send_raw(bytes.as_bytes());
    let replies: Vec<String> = (0..5).map(|_| shown(&admin.receive().unwrap())).collect();
    assert_eq!(replies, ["OK", "QUEUED", "QUEUED", "QUEUED", "1\n2\na"]);
    assert_eq!(shown(&client.receive().unwrap()), "q\nb");
}

#[test]
fn changes_of_watched_keys_abort_the_transaction() {
    let server = Server::start(&["--io-threads", "2"]);
    let (mut client, mut other) = (server.client(), server.client());
    let transaction = b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*1\r\n$4\r\nEXEC\r\n";
    for (is_changed, expected) in [(false, "1"), (true, ""), (false, "2")] {
        client.text(&["WATCH", "k", "x"]);
        if is_changed {
            other.text(&["SET", "x", "v"]);
        }
        client.send_raw(transaction);
        let replies: Vec<String> = (0..3).map(|_| shown(&client.receive().unwrap())).collect();
        assert_eq!(replies, ["OK", "QUEUED", expected]);
    }
}

#[test]
fn requests_of_debug_are_queued_unchecked() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.send_raw(b"MULTI\r\nDEBUG none\r\nDEBUG SLEEP\r\nPING\r\nEXEC\r\n");
    let replies: Vec<String> = (0..5).map(|_| shown(&client.receive().unwrap())).collect();
    assert_eq!(&replies[..4], ["OK", "QUEUED", "QUEUED", "QUEUED"]);
    let lines: Vec<&str> = replies[4].split('\n').collect();
    assert!(lines[0].contains("unknown subcommand or wrong number of arguments for 'none'"), "{lines:?}");
    assert!(lines[1].contains("unknown subcommand or wrong number of arguments for 'SLEEP'"), "{lines:?}");
    assert_eq!(lines[2], "PONG");
}

#[test]
fn transactions_count_their_own_keys_and_find_random_ones() {
    let server = Server::start(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let mut exec = |transaction: &str| {
        assert_eq!(client.text(&["MULTI"]), "OK");
        for request in transaction.split('|') {
            assert_eq!(client.text(&request.split(' ').collect::<Vec<_>>()), "QUEUED");
        }
        client.text(&["EXEC"])
    };
    for count in [0, 3, 2_000] {
        exec(&format!("FLUSHALL|DEBUG POPULATE {count}"));
        let after = |own: usize| (count + own).to_string();
        let counts = ["OK", &after(1), "OK", "1", &after(1), "1", &after(0)].join("\n");
        assert_eq!(exec("SET a 1|DBSIZE|SET b 2|DEL a|DBSIZE|DEL b|DBSIZE"), counts);
        assert_eq!(exec("DBSIZE|DBSIZE"), [after(0), after(0)].join("\n"));
        assert_eq!(exec("SELECT 1|SET a 1|DBSIZE|DEL a|DBSIZE|SELECT 0"), "OK\nOK\n1\n1\n0\nOK");
        let random = exec("SET key:0 1|RANDOMKEY|DEL key:0|RANDOMKEY|RANDOMKEY|DBSIZE");
        let names: Vec<&str> = random.split('\n').collect();
        assert!(names[1].starts_with("key:"), "{names:?}");
        let is_found = |name: &&str| name.starts_with("key:") && *name != "key:0";
        assert_eq!([names[3], names[4]].iter().all(is_found), count > 0, "{names:?}");
        let random = exec("SET key:0 1|RANDOMKEY|DEL key:0|RANDOMKEY");
        let names: Vec<&str> = random.split('\n').collect();
        assert_eq!(is_found(&names[3]), count > 0, "{names:?}");
    }
    exec("FLUSHALL|SET gone v PX 1|DEBUG SLEEP 0.01");
    assert_eq!(exec("GET gone|DBSIZE|RANDOMKEY"), "\n0\n");
}
