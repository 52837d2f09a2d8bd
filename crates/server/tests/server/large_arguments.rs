//! Large arguments, which are received in buffers of their own: their memory, and what may happen before, in and behind
//! them.

use crate::support::{self, Client, Server, on_each_backend, shown, wait_for};

const LARGE_SIZE: usize = 1_500_000;

/// A value in which every piece differs, with bytes of the protocol.
fn value(size: usize) -> String {
    let mut value = String::with_capacity(size + 20);
    let mut number = size;
    while value.len() < size {
        value.push_str(&format!("{number}\r\n$"));
        number += 7;
    }
    value.truncate(size);
    value
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    request.into_bytes()
}

fn next(client: &mut Client) -> String {
    shown(&client.receive().expect("a reply"))
}

/// The most memory that the process has had, in bytes.
fn peak_of(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn a_large_value_is_in_memory_once() {
    const SIZE: usize = 48 << 20;
    let value = value(SIZE);
    let requests: [&[&str]; 8] = [
        &["SET", "key", &value],
        &["SET", "key", &value, "EX", "100", "NX"],
        &["SETEX", "key", "100", &value],
        &["PSETEX", "key", "100000", &value],
        &["SETNX", "key", &value],
        &["GETSET", "key", &value],
        &["MSET", "other", "small", "key", &value],
        &["APPEND", "key", &value],
    ];
    for (number, words) in requests.into_iter().enumerate() {
        let backend = support::backends()[number % support::backends().len()];
        let server = Server::start(&["--io-threads", "1", "--io-backend", backend, "--save", ""]);
        let mut client = server.client();
        assert_eq!(client.text(&["PING"]), "PONG");
        let before = peak_of(&server);
        client.send(words);
        next(&mut client);
        let grown = peak_of(&server) - before;
        assert!(grown < SIZE / 4 * 5, "{}: {grown} bytes for {SIZE}", words[0]);
        assert!(client.bytes(&["GET", "key"]) == value.as_bytes(), "{}", words[0]);
    }
}

#[test]
fn a_large_value_of_a_transaction_is_in_memory_once() {
    const SIZE: usize = 48 << 20;
    let value = value(SIZE);
    on_each_backend(&["--io-threads", "1", "--save", ""], |server| {
        let mut client = server.client();
        assert_eq!(client.text(&["MULTI"]), "OK");
        let before = peak_of(&server);
        for words in [["SET", "small", "x"], ["SET", "key", &value], ["APPEND", "small", "y"]] {
            assert_eq!(client.text(&words), "QUEUED");
        }
        assert_eq!(client.text(&["EXEC"]), "OK\nOK\n2");
        let grown = peak_of(&server) - before;
        assert!(grown < SIZE / 4 * 5, "{grown} bytes for {SIZE}");
        assert!(client.bytes(&["GET", "key"]) == value.as_bytes());
    });
}

#[test]
fn large_arguments_arrive_in_any_pieces() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut client = server.client();
        let value = value(LARGE_SIZE);
        let set = request(&["SET", "key", &value, "EX", "100", "GET"]);
        let head = set.len() - LARGE_SIZE - request(&["EX", "100", "GET"]).len() + 4 - 2;
        for (first, behind) in [(head - 3, 1), (head, 0), (head + 1, 1), (head + 70_000, 2), (10, 3)] {
            client.text(&["DEL", "key"]);
            // Small requests around it, in one input with it.
            let mut input = request(&["ECHO", "before"]);
            input.extend_from_slice(&set);
            input.extend(request(&["STRLEN", "key"]));
            input.extend(request(&["SET", "second", &value]));
            input.extend(request(&["STRLEN", "second"]));
            let first = first + request(&["ECHO", "before"]).len();
            let end_of_value = request(&["ECHO", "before"]).len() + head + LARGE_SIZE;
            let mut start = 0;
            for end in [first, end_of_value - 1, end_of_value + behind, input.len() - 5, input.len()] {
                client.send_raw(&input[start..end]);
                start = end;
                // The server, which has one thread, receives the piece before the next one is sent.
                server.client().text(&["PING"]);
            }
            let replies: Vec<_> = (0..5).map(|_| next(&mut client)).collect();
            let size = LARGE_SIZE.to_string();
            assert_eq!(replies, ["before", "", &size, "OK", &size]);
            assert!(client.bytes(&["GET", "key"]) == value.as_bytes());
            assert!(client.bytes(&["GET", "second"]) == value.as_bytes());
        }
    });
}

#[test]
fn every_command_takes_large_arguments() {
    on_each_backend(&["--io-threads", "2", "--enable-debug-command", "yes"], |server| {
        let mut client = server.client();
        let value = value(LARGE_SIZE);
        let size = LARGE_SIZE.to_string();
        assert!(client.bytes(&["ECHO", &value]) == value.as_bytes());
        assert_eq!(client.text(&["SET", &value, "v"]), "OK");
        assert_eq!(client.text(&["GET", &value]), "v");
        assert_eq!(client.text(&["HSET", "hash", "field", &value]), "1");
        assert_eq!(client.text(&["HSTRLEN", "hash", "field"]), size);
        assert_eq!(client.text(&["EVAL", "return #ARGV[1]", "0", &value]), size);
        assert_eq!(client.text(&["MSET", "a", &value, "b", &value]), "OK");
        assert_eq!(client.text(&["MGET", "a", "b"]), format!("{value}\n{value}"));
        assert_eq!(client.text(&["MSETEX", "2", "a", "1", "b", &value, "EX", "100"]), "1");
        assert_eq!(client.text(&["STRLEN", "b"]), size);
        assert_eq!(client.text(&["MULTI"]), "OK");
        assert_eq!(client.text(&["SET", "queued", &value]), "QUEUED");
        assert_eq!(client.text(&["STRLEN", "queued"]), "QUEUED");
        assert_eq!(client.text(&["EXEC"]), format!("OK\n{size}"));
        // The value may be changed and read at the same time.
        assert_eq!(client.text(&["SET", "key", &value]), "OK");
        assert_eq!(client.text(&["OBJECT", "ENCODING", "key"]), "raw");
        assert_eq!(client.text(&["APPEND", "key", "x"]), (LARGE_SIZE + 1).to_string());
        assert_eq!(client.text(&["SETRANGE", "key", "0", "y"]), (LARGE_SIZE + 1).to_string());
        assert!(client.text(&["SET", "key", &value, "NOSUCHOPTION"]).starts_with("ERR syntax"));
        assert!(client.text(&["NOSUCHCOMMAND", &value]).starts_with("ERR unknown command"));
        assert_eq!(client.text(&["GETRANGE", "key", "0", "1"]), format!("y{}", &value[1..2]));
        // Without its line end.
        let mut broken = request(&["SET", "key", &value]);
        let end = broken.len() - 2;
        broken[end..].copy_from_slice(b"xx");
        client.send_raw(&broken);
        assert!(next(&mut client).starts_with("ERR Protocol error"));
        assert!(client.receive().is_none());
    });
}

#[test]
fn a_request_with_a_large_argument_may_wait() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let (mut admin, mut client) = (server.client(), server.client());
        let id = client.text(&["CLIENT", "ID"]);
        let value = value(LARGE_SIZE);
        let is_blocked = |admin: &mut Client| {
            let line = admin.text(&["CLIENT", "LIST", "ID", &id]);
            line.contains(" flags=b ").then_some(())
        };
        // It is parsed again when the pause ends.
        for _ in 0..2 {
            assert_eq!(admin.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
            client.send_raw(&[request(&["SET", "key", &value]), request(&["STRLEN", "key"])].concat());
            wait_for(|| is_blocked(&mut admin));
            assert_eq!(admin.text(&["EXISTS", "key"]), "0");
            assert_eq!(admin.text(&["CLIENT", "UNPAUSE"]), "OK");
            assert_eq!((next(&mut client), next(&mut client)), ("OK".to_owned(), LARGE_SIZE.to_string()));
            assert!(client.bytes(&["GETDEL", "key"]) == value.as_bytes());
        }
        // It waits for a key with a large name.
        client.send(&["BLPOP", &value, "0"]);
        wait_for(|| is_blocked(&mut admin));
        assert_eq!(admin.text(&["RPUSH", &value, "element"]), "1");
        assert_eq!(next(&mut client), format!("{value}\nelement"));
        // Its connection moves to another worker while it arrives.
        let input = request(&["SET", "key", &value]);
        let cut = input.len() / 2;
        for count in [1, 2, 1] {
            client.send_raw(&input[..cut]);
            wait_for(|| {
                let line = admin.text(&["CLIENT", "LIST", "ID", &id]);
                let size = line.split(' ').find_map(|field| field.strip_prefix("qbuf=")).unwrap();
                (size.parse::<usize>().unwrap() > cut - 100).then_some(())
            });
            admin.set_thread_count(count);
            client.send_raw(&input[cut..]);
            assert_eq!(next(&mut client), "OK");
            assert!(client.bytes(&["GETDEL", "key"]) == value.as_bytes());
        }
    });
}

#[test]
fn large_values_are_in_the_append_only_file() {
    let directory = support::directory::Directory::new("large-arguments");
    let options = ["--dir", &directory.path(""), "--appendonly", "yes", "--io-threads", "1"];
    let value = value(LARGE_SIZE);
    let mut server = Server::start(&options);
    let mut client = server.client();
    assert_eq!(client.text(&["SET", "plain", &value]), "OK");
    assert_eq!(client.text(&["SETEX", "expiring", "1000", &value]), "OK");
    assert_eq!(client.text(&["MSET", "first", &value, "second", "2"]), "OK");
    client.send_raw_if_open(&request(&["SHUTDOWN", "NOSAVE"]));
    assert!(server.wait());
    let server = Server::start(&options);
    let mut client = server.client();
    for key in ["plain", "expiring", "first"] {
        assert!(client.bytes(&["GET", key]) == value.as_bytes(), "{key}");
    }
    assert_eq!(client.text(&["GET", "second"]), "2");
}
