//! Clients that read slowly, send slowly, or disconnect midway: other clients are not affected, and no state of
//! them remains.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use wire::response::Reply;

use crate::support::{self, Client, PATIENCE, Server, on_each_backend, shown, wait_for};

fn number(server: &Server, client: &mut Client, field: &str) -> usize {
    server.info(client, field).parse().unwrap()
}

const LARGE_SIZE: usize = 10_000_000;

#[test]
fn replies_share_large_values() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        let value = "v".repeat(LARGE_SIZE);
        admin.text(&["SET", "large", &value]);
        let mut readers: Vec<Client> = (0..30).map(|_| server.client()).collect();
        for reader in &mut readers {
            reader.send(&["GET", "large"]);
        }
        wait_for(|| {
            let calls = server.info(&mut admin, "total_net_output_bytes").parse::<usize>().unwrap();
            (calls > readers.len() * LARGE_SIZE).then_some(())
        });
        let used = number(&server, &mut admin, "used_memory");
        assert!(used < 3 * LARGE_SIZE, "the value is copied for its readers: {used}");
        // The readers get the value of the time of their requests.
        assert_eq!(admin.text(&["SETRANGE", "large", "0", "w"]), LARGE_SIZE.to_string());
        assert_eq!(admin.text(&["APPEND", "large", "x"]), (LARGE_SIZE + 1).to_string());
        assert_eq!(admin.text(&["GETRANGE", "large", "0", "1"]), "wv");
        for reader in &mut readers {
            reader.send(&["PING"]);
            let reply = reader.receive().unwrap();
            assert!(reply.text() == Some(value.as_bytes()));
            assert_eq!(support::shown(&reader.receive().unwrap()), "PONG");
        }
        drop(readers);
        admin.text(&["DEL", "large"]);
        wait_for(|| (number(&server, &mut admin, "used_memory") < LARGE_SIZE).then_some(()));
    });
}

#[test]
fn replies_can_count_as_whole_output_blocks() {
    on_each_backend(&["--requirepass", "secret", "--enable-debug-command", "yes"], |server| {
        let mut admin = server.client();
        assert_eq!(admin.text(&["AUTH", "secret"]), "OK");
        let mut unauthenticated = server.client();
        assert!(unauthenticated.text(&["GET", "key"]).starts_with("NOAUTH"));
        assert_eq!(admin.text(&["DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "1"]), "OK");
        unauthenticated.send(&["GET", "key"]);
        assert!(unauthenticated.receive().is_none());
        // A client that has authenticated once is not limited; a failed AUTH does not count.
        let mut known = server.client();
        known.send(&["AUTH", "wrong"]);
        assert!(known.receive().is_none());
        let mut known = server.client();
        assert_eq!(admin.text(&["DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "0"]), "OK");
        assert_eq!(known.text(&["AUTH", "secret"]), "OK");
        assert_eq!(known.text(&["RESET"]), "RESET");
        assert_eq!(admin.text(&["DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "1"]), "OK");
        assert!(known.text(&["GET", "key"]).starts_with("NOAUTH"));
        assert_eq!(admin.text(&["DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "0"]), "OK");
        assert!(server.client().text(&["GET", "key"]).starts_with("NOAUTH"));
    });
}

#[test]
fn the_size_of_a_reply_buffer_follows_the_replies() {
    on_each_backend(&["--enable-debug-command", "yes"], |server| {
        let mut admin = server.client();
        let mut reader = server.client();
        let id = reader.text(&["CLIENT", "ID"]);
        let mut shown_size = |reader: Option<&mut Client>| -> usize {
            if let Some(reader) = reader {
                reader.text(&["GETRANGE", "value", "0", "-1"]);
            }
            let line = admin.text(&["CLIENT", "LIST", "ID", &id]);
            let size = line.split(' ').find_map(|field| field.strip_prefix("rbs="));
            size.unwrap().parse().unwrap()
        };
        wait_for(|| (shown_size(None) == 1024).then_some(()));
        assert_eq!(server.client().text(&["SET", "value", &"v".repeat(40_000)]), "OK");
        let mut other = server.client();
        assert_eq!(other.text(&["DEBUG", "REPLYBUFFER", "PEAK-RESET-TIME", "never"]), "OK");
        wait_for(|| (shown_size(Some(&mut reader)) == 16_384).then_some(()));
        assert_eq!(other.text(&["DEBUG", "REPLYBUFFER", "PEAK-RESET-TIME", "100"]), "OK");
        wait_for(|| (shown_size(None) == 1024).then_some(()));
        for wrong in [["PEAK-RESET-TIME", "soon"], ["NOPE", "1"]] {
            assert!(other.text(&["DEBUG", "REPLYBUFFER", wrong[0], wrong[1]]).starts_with("ERR "));
        }
    });
}

#[test]
fn large_values_keep_the_reply_order() {
    on_each_backend(
        &["--io-threads", "1", "--min-string-size-avoid-copy-reply-threaded", "2000"],
        |server| {
            let mut client = server.client();
            let (long, longer) = ("a".repeat(2000), "b".repeat(70_000));
            assert_eq!(client.text(&["MSET", "short", "s", "long", &long, "longer", &longer]), "OK");
            let all = format!("{long}\ns\n{longer}\n\n{long}");
            let requests: &[(&[&str], &str)] = &[
                (&["MGET", "long", "short", "longer", "none", "long"], &all),
                (&["GET", "short"], "s"),
                (&["CLIENT", "REPLY", "SKIP"], ""),
                (&["GET", "long"], ""),
                (&["SET", "long", "now short", "GET"], &long),
                (&["GET", "long"], "now short"),
                (&["MULTI"], "OK"),
                (&["GET", "longer"], "QUEUED"),
                (&["INCR", "longer"], "QUEUED"),
                (&["GETDEL", "longer"], "QUEUED"),
                (&["GET", "longer"], "QUEUED"),
                (&["EXEC"], &format!("{longer}\nERR value is not an integer or out of range\n{longer}\n")),
                (&["PING"], "PONG"),
            ];
            for (words, _) in requests {
                client.send(words);
            }
            for (words, expected) in requests.iter().filter(|(_, expected)| !expected.is_empty()) {
                assert!(support::shown(&client.receive().unwrap()) == *expected, "{words:?}");
            }
        },
    );
}

#[test]
fn requests_sent_byte_by_byte_are_served() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut slow: Vec<Client> = (0..20).map(|_| server.client()).collect();
        let mut quick = server.client();
        let request = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n";
        for (index, byte) in request.iter().enumerate() {
            for client in &mut slow {
                client.send_raw(&[*byte]);
            }
            let expected = if index + 1 < request.len() { "0" } else { "1" };
            if expected == "0" {
                assert_eq!(quick.text(&["EXISTS", "k"]), expected);
            }
        }
        for client in &mut slow {
            assert_eq!(support::shown(&client.receive().unwrap()), "OK");
        }
    });
}

#[test]
fn a_transaction_above_the_query_limit_closes_its_client() {
    on_each_backend(&["--io-threads", "2", "--client-query-buffer-limit", "1mb"], |server| {
        let mut client = server.client();
        client.text(&["MULTI"]);
        let value = "v".repeat(200_000);
        for _ in 0..5 {
            assert_eq!(client.text(&["SET", "k", &value]), "QUEUED");
        }
        client.send(&["SET", "k", &value]);
        assert!(client.receive().is_none());
        let mut admin = server.client();
        assert_eq!(server.info(&mut admin, "client_query_buffer_limit_disconnections"), "1");
    });
}

#[test]
fn complete_arguments_do_not_count_as_query_buffer() {
    on_each_backend(&["--io-threads", "2", "--client-query-buffer-limit", "1mb"], |server| {
        let argument = format!("$200000\r\n{}\r\n", "v".repeat(200_000));
        let mut client = server.client();
        client.send_raw(b"*11\r\n$3\r\nDEL\r\n");
        for _ in 0..10 {
            client.send_raw(argument.as_bytes());
        }
        assert_eq!(shown(&client.receive().unwrap()), "0");

        let mut greedy = server.client();
        greedy.send_raw_if_open(
            format!("*2\r\n$4\r\nECHO\r\n$2000000\r\n{}", "v".repeat(1_900_000)).as_bytes(),
        );
        assert!(greedy.receive().is_none());
        let mut admin = server.client();
        assert_eq!(server.info(&mut admin, "client_query_buffer_limit_disconnections"), "1");
    });
}

#[test]
fn half_closed_clients_get_all_replies() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut admin = server.client();
        let value = "v".repeat(LARGE_SIZE);
        admin.text(&["SET", "large", &value]);
        for _ in 0..3 {
            let mut half = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            half.set_read_timeout(Some(PATIENCE)).unwrap();
            // The last request is not complete.
            half.write_all(b"GET large\r\nPING\r\nGET lar").unwrap();
            half.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            half.read_to_end(&mut answer).unwrap();
            assert_eq!(answer.len(), b"$10000000\r\n\r\n+PONG\r\n".len() + LARGE_SIZE);
            assert!(answer.ends_with(b"v\r\n+PONG\r\n"));
        }
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 1).then_some(()));
    });
}

#[test]
fn connection_storms_above_the_limit_are_refused() {
    on_each_backend(&["--io-threads", "2", "--maxclients", "10"], |server| {
        let mut kept: Vec<Client> = (0..10).map(|_| server.client()).collect();
        kept.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        for _ in 0..5 {
            let mut storm: Vec<Client> = (0..100).map(|_| server.client()).collect();
            // Some send a request, some disconnect before the refusal.
            storm.iter_mut().take(30).for_each(|client| client.send_raw_if_open(b"PING\r\n"));
            storm.truncate(60);
            for client in &mut storm {
                let refusal = client.receive().map(|reply| support::shown(&reply));
                assert!(refusal.is_none_or(|text| text.starts_with("ERR max number of clients")));
            }
            kept.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        }
        assert_eq!(number(&server, &mut kept[0], "rejected_connections"), 500);
        assert_eq!(number(&server, &mut kept[0], "connected_clients"), 10);
    });
}

#[test]
fn oversized_queries_close_after_earlier_replies() {
    on_each_backend(&["--io-threads", "1", "--client-query-buffer-limit", "1mb"], |server| {
        let mut greedy = server.client();
        greedy.send_raw_if_open(
            format!("PING\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$2000000\r\n{}", "v".repeat(1_900_000)).as_bytes(),
        );
        for _ in 0..2 {
            assert_eq!(shown(&greedy.receive().unwrap()), "PONG");
        }
        assert!(greedy.receive().is_none());
        let mut admin = server.client();
        assert_eq!(server.info(&mut admin, "client_query_buffer_limit_disconnections"), "1");
    });
}

#[test]
fn unauthenticated_clients_may_leave_little_unread() {
    on_each_backend(&["--io-threads", "1", "--requirepass", "secret"], |server| {
        let mut unauthenticated = server.client();
        unauthenticated.send_raw("PING\r\n".repeat(480).as_bytes());
        for _ in 0..480 {
            assert_eq!(shown(&unauthenticated.receive().unwrap()), "NOAUTH Authentication required.");
        }
        unauthenticated.send_raw("PING\r\n".repeat(2000).as_bytes());
        let answered = std::iter::from_fn(|| unauthenticated.receive()).count();
        assert!(answered < 2000, "{answered}");
    });
}

const ELEMENT_COUNT: usize = 12_000;

/// Fills a collection under `key` with elements that begin with their numbers, some hundred a request.
fn fill(client: &mut Client, command: &[&str], element: impl Fn(usize) -> Vec<String>) {
    for start in (0..ELEMENT_COUNT).step_by(500) {
        let elements: Vec<String> = (start..start + 500).flat_map(&element).collect();
        let words: Vec<&str> = command.iter().copied().chain(elements.iter().map(String::as_str)).collect();
        client.text(&words);
    }
}

#[test]
fn long_replies_are_whole() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut client = server.client();
        let member = |number: usize| format!("member {number:>20}");
        fill(&mut client, &["RPUSH", "list"], |number| vec![member(number)]);
        fill(&mut client, &["SADD", "set"], |number| vec![member(number)]);
        fill(&mut client, &["HSET", "hash"], |number| vec![member(number), String::new()]);
        fill(&mut client, &["ZADD", "sorted"], |number| vec![number.to_string(), member(number)]);
        client.text(&["COPY", "hash", "expiring"]);
        client.text(&["HSETEX", "expiring", "EX", "1000", "FIELDS", "1", &member(0), ""]);
        for number in 0..ELEMENT_COUNT {
            client.send(&["XADD", "stream", &format!("{}-0", number + 1), "", &member(number)]);
        }
        for _ in 0..ELEMENT_COUNT {
            client.receive().unwrap();
        }
        let requests: &[&[&str]] = &[
            &["LRANGE", "list", "0", "-1"],
            &["SMEMBERS", "set"],
            &["SUNION", "set", "none"],
            &["SINTER", "set", "set"],
            &["SDIFF", "set", "none"],
            &["HKEYS", "hash"],
            &["HGETALL", "hash"],
            &["HGETALL", "expiring"],
            &["ZRANGE", "sorted", "0", "-1"],
            &["ZUNION", "2", "sorted", "none"],
            &["SORT", "list", "ALPHA"],
            &["XRANGE", "stream", "-", "+"],
        ];
        let expected: Vec<String> = (0..ELEMENT_COUNT).map(member).collect();
        let check = |text: &str, words: &[&str]| {
            let mut found: Vec<&str> = text.lines().filter(|line| line.starts_with("member")).collect();
            found.sort_unstable();
            assert!(found == expected, "{words:?}: {} members", found.len());
        };
        for words in requests {
            check(&client.text(words), words);
        }
        for some in requests.chunks(3) {
            assert_eq!(client.text(&["MULTI"]), "OK");
            for words in some {
                assert_eq!(client.text(words), "QUEUED");
                assert_eq!(client.text(&["INCR", "set"]), "QUEUED");
            }
            client.send(&["EXEC"]);
            let Reply::Array(replies) = client.receive().unwrap() else { panic!("no array") };
            assert_eq!(replies.len(), 2 * some.len());
            for (pair, words) in replies.chunks(2).zip(some) {
                check(&shown(&pair[0]), words);
                assert!(shown(&pair[1]).starts_with("WRONGTYPE"));
            }
        }
        assert_eq!(client.text(&["PING"]), "PONG");
    });
}

#[test]
fn other_clients_are_served_between_long_transactions() {
    const TRANSACTION_COUNT: usize = 20;
    on_each_backend(&["--io-threads", "1", "--enable-debug-command", "yes"], |server| {
        let (mut long, mut other) = (server.client(), server.client());
        assert_eq!((long.text(&["PING"]), other.text(&["PING"])), ("PONG".to_owned(), "PONG".to_owned()));
        long.send_raw(&b"MULTI\r\nDEBUG SLEEP 0.01\r\nINCR done\r\nEXEC\r\n".repeat(TRANSACTION_COUNT));
        // The first reply is sent at the end of the turn.
        assert_eq!(shown(&long.receive().unwrap()), "OK");
        let done_count: usize = other.text(&["GET", "done"]).parse().unwrap();
        assert!(done_count < TRANSACTION_COUNT, "{done_count}");
    });
}

#[test]
fn sent_chunks_of_a_long_reply_are_freed() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut admin = server.client();
        let text = "x".repeat(1000);
        fill(&mut admin, &["RPUSH", "list"], |_| vec![text.clone()]);
        let used = number(&server, &mut admin, "used_memory");
        let mut reader = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        reader.write_all(b"LRANGE list 0 -1\r\n").unwrap();
        reader.read_exact(&mut vec![0; ELEMENT_COUNT * 700]).unwrap();
        wait_for(|| {
            let more = number(&server, &mut admin, "used_memory").saturating_sub(used);
            (more < ELEMENT_COUNT * 400).then_some(())
        });
    });
}

#[test]
fn output_limits_shrink_with_the_total_pending_output() {
    const SIZE: usize = 32 << 10;
    const REQUESTS: usize = 1000;
    on_each_backend(&["--io-threads", "1", "--maxmemory", "64mb"], |server| {
        let mut admin = server.client();
        assert_eq!(admin.text(&["SET", "key", &"x".repeat(SIZE)]), "OK");
        // 128 MiB of replies that are not read.
        let mut greedy: Vec<Client> = (0..4).map(|_| server.client()).collect();
        greedy.iter_mut().for_each(|client| client.send_raw("GET key\r\n".repeat(REQUESTS).as_bytes()));
        wait_for(|| (number(&server, &mut admin, "mem_clients_normal") > 6 << 20).then_some(()));
        for _ in 0..50 {
            let used = number(&server, &mut admin, "mem_clients_normal");
            assert!(used < 24 << 20, "{used}");
        }
        for client in &mut greedy {
            for _ in 0..REQUESTS {
                assert_eq!(shown(&client.receive().unwrap()).len(), SIZE);
            }
            assert_eq!(client.text(&["PING"]), "PONG");
        }
    });
}
