//! `MIGRATE` between servers: options, errors, and what other clients see meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use crate::support::{self, Client, Server, shown};

/// Sends `MIGRATE` from `source` to a port, with the arguments from the key on.
fn migrate(source: &mut Client, port: u16, args: &[&str]) -> String {
    let port = port.to_string();
    let mut request = vec!["MIGRATE", "127.0.0.1", &port];
    request.extend_from_slice(args);
    source.text(&request)
}

fn pair() -> (Server, Server) {
    (Server::start(&["--enable-debug-command", "yes"]), Server::start(&["--enable-debug-command", "yes"]))
}

#[test]
fn keys_of_every_type_move() {
    let (source, target) = pair();
    let (mut here, mut there) = (source.client(), target.client());
    let keys = ["string", "number", "list", "set", "zset", "hash", "volatile", "stream"];
    here.text(&["MSET", "string", "some text", "number", "42"]);
    here.text(&["RPUSH", "list", "a", "b"]);
    here.text(&["SADD", "set", "1", "2", "x"]);
    here.text(&["ZADD", "zset", "1.5", "a", "2", "b"]);
    here.text(&["HSET", "hash", "f", "v"]);
    here.text(&["HSET", "volatile", "f", "v", "g", "w"]);
    here.text(&["HPEXPIREAT", "volatile", "9999999999999", "FIELDS", "1", "f"]);
    here.text(&["XADD", "stream", "1-1", "a", "b"]);
    here.text(&["XGROUP", "CREATE", "stream", "group", "0"]);
    here.text(&["PEXPIRE", "string", "1000000"]);
    let mut digest = vec!["DEBUG", "DIGEST-VALUE"];
    digest.extend(keys);
    let before = here.text(&digest);
    let mut request = vec!["", "3", "5000", "KEYS", "missing"];
    request.extend(keys);
    assert_eq!(migrate(&mut here, target.port, &request), "OK");
    assert_eq!(here.text(&["DBSIZE"]), "0");
    assert_eq!(there.text(&["SELECT", "3"]), "OK");
    assert_eq!(there.text(&digest), before);
    let ttl: i64 = there.text(&["PTTL", "string"]).parse().unwrap();
    assert!(ttl > 900_000 && ttl <= 1_000_000, "{ttl}");
    assert_eq!(migrate(&mut here, target.port, &["string", "3", "5000"]), "NOKEY");
}

#[test]
fn keys_that_the_target_has_stay() {
    let (source, target) = pair();
    let (mut here, mut there) = (source.client(), target.client());
    here.text(&["MSET", "a", "1", "b", "2", "c", "3"]);
    there.text(&["SET", "b", "other"]);
    let reply = migrate(&mut here, target.port, &["", "0", "5000", "KEYS", "a", "b", "c"]);
    assert!(reply.contains("Target instance replied with error: BUSYKEY"), "{reply}");
    assert_eq!(here.text(&["EXISTS", "a", "b", "c"]), "1");
    assert_eq!(there.text(&["GET", "b"]), "other");
    assert_eq!(migrate(&mut here, target.port, &["b", "0", "5000", "COPY", "REPLACE"]), "OK");
    assert_eq!((here.text(&["GET", "b"]), there.text(&["GET", "b"])), ("2".to_owned(), "2".to_owned()));
}

#[test]
fn the_target_may_demand_a_login() {
    let source = Server::start(&[]);
    let target = Server::start(&["--requirepass", "secret"]);
    let mut here = source.client();
    here.text(&["MSET", "a", "1", "b", "2"]);
    let refused = migrate(&mut here, target.port, &["a", "0", "5000"]);
    assert!(refused.contains("NOAUTH"), "{refused}");
    let refused = migrate(&mut here, target.port, &["a", "0", "5000", "AUTH", "wrong"]);
    assert!(refused.contains("WRONGPASS"), "{refused}");
    assert_eq!(here.text(&["EXISTS", "a"]), "1");
    assert_eq!(migrate(&mut here, target.port, &["a", "0", "5000", "AUTH", "secret"]), "OK");
    assert_eq!(migrate(&mut here, target.port, &["b", "0", "5000", "AUTH2", "default", "secret"]), "OK");
    assert_eq!(here.text(&["DBSIZE"]), "0");
}

#[test]
fn bad_requests_are_refused() {
    let source = Server::start(&[]);
    let mut here = source.client();
    here.text(&["SET", "a", "1"]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (args, expected) in [
        (vec!["a", "0", "x"], "ERR value is not an integer or out of range"),
        (vec!["a", "0", "5000", "WRONG"], "ERR syntax error"),
        (vec!["a", "0", "5000", "AUTH"], "ERR syntax error"),
        (vec!["a", "0", "5000", "AUTH2", "user"], "ERR syntax error"),
        (
            vec!["a", "0", "5000", "KEYS", "a"],
            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        ),
        (vec!["missing", "0", "5000"], "NOKEY"),
        (vec!["a", "0", "5000"], "IOERR error or timeout writing to target instance"),
    ] {
        assert_eq!(migrate(&mut here, free, &args), expected, "{args:?}");
    }
    assert_eq!(here.text(&["MULTI"]), "OK");
    migrate(&mut here, free, &["a", "0", "5000"]);
    let reply = here.text(&["EXEC"]);
    assert!(reply.contains("MIGRATE can't run within a transaction"), "{reply}");
    assert_eq!(here.text(&["GET", "a"]), "1");
}

/// A target that accepts a connection and reads the first request, and replies what the test sends.
struct SlowTarget {
    port: u16,
    received: mpsc::Receiver<()>,
    replies: mpsc::Sender<&'static [u8]>,
}

impl SlowTarget {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, received) = mpsc::channel();
        let (replies, told) = mpsc::channel::<&'static [u8]>();
        std::thread::spawn(move || {
            let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            assert!(stream.read(&mut bytes).unwrap() > 0);
            tell.send(()).unwrap();
            for reply in told {
                stream.write_all(reply).unwrap();
            }
        });
        Self { port, received, replies }
    }
}

#[test]
fn a_key_does_not_change_during_its_transfer() {
    let source = Server::start(&["--io-threads", "1"]);
    let (mut here, mut other, mut third) = (source.client(), source.client(), source.client());
    here.text(&["SET", "a", "1"]);
    let target = SlowTarget::start();
    let port = target.port.to_string();
    here.send(&["MIGRATE", "127.0.0.1", &port, "a", "0", "20000"]);
    target.received.recv().unwrap();
    // It waits for the key, while other keys are served by the same thread.
    other.send(&["APPEND", "a", "2"]);
    assert_eq!(third.text(&["SET", "b", "1"]), "OK");
    target.replies.send(b"+OK\r\n+OK\r\n").unwrap();
    assert_eq!(shown(&here.receive().unwrap()), "OK");
    // The key was moved first, so that this created another one.
    assert_eq!(shown(&other.receive().unwrap()), "1");
    assert_eq!(third.text(&["GET", "a"]), "2");
}

#[test]
fn a_silent_target_is_given_up() {
    let source = Server::start(&[]);
    let mut here = source.client();
    here.text(&["SET", "a", "1"]);
    let target = SlowTarget::start();
    let reply = migrate(&mut here, target.port, &["a", "0", "100"]);
    assert_eq!(reply, "IOERR error or timeout reading to target instance");
    assert_eq!(here.text(&["GET", "a"]), "1");
    assert_eq!(here.text(&["SET", "a", "2"]), "OK");
}

#[test]
fn replies_before_the_requests_confirm_nothing() {
    // Without compression the requests are longer than what the kernel takes.
    support::on_each_backend(&["--rdbcompression", "no"], |source| {
        let mut here = source.client();
        here.text(&["SETRANGE", "a", "100000000", "x"]);
        let target = SlowTarget::start();
        // It reads no more than the first bytes.
        target.replies.send(b"+OK\r\n+OK\r\n").unwrap();
        let reply = migrate(&mut here, target.port, &["a", "0", "20000"]);
        assert_eq!(reply, "IOERR error or timeout writing to target instance");
        assert_eq!(here.text(&["STRLEN", "a"]), "100000001");
    });
}

/// A request that is refused between its runs leaves nothing that a later one would continue.
#[test]
fn a_transfer_ends_if_its_request_is_refused_later() {
    let source = Server::start(&[]);
    let (mut control, mut here) = (source.client(), source.client());
    assert_eq!(control.text(&["ACL", "SETUSER", "mover", "on", "nopass", "~*", "+@all"]), "OK");
    assert_eq!(here.text(&["AUTH", "mover", "any"]), "OK");
    here.text(&["SET", "a", "1"]);
    let target = SlowTarget::start();
    let port = target.port.to_string();
    let request = ["MIGRATE", "127.0.0.1", &port, "a", "0", "20000", "COPY"];
    here.send(&request);
    target.received.recv().unwrap();
    assert_eq!(control.text(&["ACL", "SETUSER", "mover", "-migrate"]), "OK");
    target.replies.send(b"+OK\r\n+OK\r\n").unwrap();
    let refused = shown(&here.receive().unwrap());
    assert!(refused.starts_with("NOPERM"), "{refused}");
    assert_eq!(control.text(&["ACL", "SETUSER", "mover", "+migrate"]), "OK");
    assert_eq!(here.text(&["MULTI"]), "OK");
    assert_eq!(here.text(&request), "QUEUED");
    let reply = here.text(&["EXEC"]);
    assert!(reply.contains("MIGRATE can't run within a transaction"), "{reply}");
}

#[test]
fn a_closed_client_releases_its_keys() {
    let source = Server::start(&[]);
    let mut here = source.client();
    here.text(&["SET", "a", "1"]);
    let id = here.text(&["CLIENT", "ID"]);
    let target = SlowTarget::start();
    let port = target.port.to_string();
    here.send(&["MIGRATE", "127.0.0.1", &port, "a", "0", "20000"]);
    target.received.recv().unwrap();
    let mut other = source.client();
    assert_eq!(other.text(&["CLIENT", "KILL", "ID", &id]), "1");
    assert_eq!(other.text(&["APPEND", "a", "2"]), "2");
}

#[test]
fn the_move_is_logged_as_a_deletion() {
    let directory = support::directory::Directory::new("migrating");
    let target = Server::start(&[]);
    let path = directory.path("");
    let options = ["--dir", &path, "--appendonly", "yes", "--appendfsync", "always"];
    let source = Server::start(&options);
    let mut here = source.client();
    here.text(&["MSET", "a", "1", "b", "2"]);
    assert_eq!(migrate(&mut here, target.port, &["a", "0", "5000"]), "OK");
    drop((here, source));
    let again = Server::start(&options);
    assert_eq!(again.client().text(&["EXISTS", "a"]), "0");
    assert_eq!(again.client().text(&["GET", "b"]), "2");
    assert_eq!(target.client().text(&["GET", "a"]), "1");
}

#[test]
fn large_keys_move_on_each_backend() {
    let target = Server::start(&["--proto-max-bulk-len", "1gb"]);
    support::on_each_backend(&[], |source| {
        let mut here = source.client();
        here.text(&["SETRANGE", "a", "100000000", "x"]);
        assert_eq!(migrate(&mut here, target.port, &["a", "0", "5000", "REPLACE"]), "OK");
        assert_eq!(here.text(&["EXISTS", "a"]), "0");
        assert_eq!(target.client().text(&["STRLEN", "a"]), "100000001");
    });
}

#[test]
fn a_connection_is_cached_and_replaced_if_the_target_has_closed_it() {
    let source = Server::start(&["--io-threads", "2"]);
    let mut here = source.client();
    here.text(&["MSET", "a", "1", "b", "2", "c", "3"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (cached, is_cached) = mpsc::channel();
    let (closed, is_closed) = mpsc::channel();
    // It serves two transfers on its first connection, of which only the first selects a database, and then closes it.
    let serving = std::thread::spawn(move || {
        let answer = |stream: &mut TcpStream, replies: &[u8]| {
            let mut bytes = [0; 1024];
            let size = stream.read(&mut bytes).unwrap();
            stream.write_all(replies).unwrap();
            bytes[..size].starts_with(b"*2\r\n$6\r\nSELECT")
        };
        let (mut first, _) = listener.accept().unwrap();
        let selects = [answer(&mut first, b"+OK\r\n+OK\r\n"), answer(&mut first, b"+OK\r\n")];
        assert_eq!(selects, [true, false]);
        is_cached.recv().unwrap();
        drop(first);
        closed.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        assert!(answer(&mut second, b"+OK\r\n+OK\r\n"));
        // Then it replies more than it was asked for.
        second.write_all(b"+OK\r\n").unwrap();
    });
    for key in ["a", "b", "c"] {
        // Another connection, likely of the other worker, uses the same one.
        let mut other = source.client();
        assert_eq!(migrate(&mut other, port, &[key, "0", "5000"]), "OK", "{key}");
        assert_eq!(here.text(&["EXISTS", key]), "0");
        if key != "c" {
            assert_eq!(source.info(&mut here, "migrate_cached_sockets"), "1");
        }
        if key == "b" {
            cached.send(()).unwrap();
            is_closed.recv().unwrap();
        }
    }
    serving.join().unwrap();
}

#[test]
fn a_cached_connection_whose_target_violates_the_protocol_is_closed_and_replaced() {
    support::on_each_backend(&[], |source| {
        // The second one is resolved before the target is connected again.
        for host in ["127.0.0.1", "localhost"] {
            let mut here = source.client();
            here.text(&["MSET", "a", "1", "b", "2"]);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            let serving = std::thread::spawn(move || {
                let read = |stream: &mut TcpStream| stream.read(&mut [0; 1024]).unwrap();
                let (mut first, _) = listener.accept().unwrap();
                first.set_read_timeout(Some(support::PATIENCE)).unwrap();
                assert!(read(&mut first) > 0);
                first.write_all(b"+OK\r\n+OK\r\n").unwrap();
                assert!(read(&mut first) > 0);
                // No line of a reply is that long.
                first.write_all(&[b'x'; 5000]).unwrap();
                let (mut second, _) = listener.accept().unwrap();
                assert!(read(&mut second) > 0);
                second.write_all(b"+OK\r\n+OK\r\n").unwrap();
                let end = first.read(&mut [0; 1]).map_err(|error| error.kind());
                assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
            });
            for key in ["a", "b"] {
                assert_eq!(here.text(&["MIGRATE", host, &port, key, "0", "5000"]), "OK", "{host}, {key}");
            }
            assert_eq!(here.text(&["EXISTS", "a", "b"]), "0");
            serving.join().unwrap();
        }
    });
}

#[test]
fn names_are_resolved() {
    let (source, target) = pair();
    let mut here = source.client();
    here.text(&["SET", "a", "1"]);
    let port = target.port.to_string();
    let not_connected = "IOERR error or timeout connecting to the client";
    for port in ["port", "70000"] {
        assert_eq!(here.text(&["MIGRATE", "127.0.0.1", port, "a", "0", "1000"]), not_connected);
    }
    assert_eq!(here.text(&["MIGRATE", "no name", &port, "a", "0", "1000"]), not_connected);
    assert_eq!(here.text(&["MIGRATE", "localhost", &port, "a", "0", "1000"]), "OK");
    assert_eq!(target.client().text(&["GET", "a"]), "1");
}

/// The worker of a transfer ends only after it; its client continues on another one.
#[test]
fn a_transfer_survives_the_end_of_its_worker() {
    let source = Server::start(&["--io-threads", "4"]);
    let mut control = source.client();
    control.text(&["MSET", "a", "1", "b", "2", "c", "3", "d", "4"]);
    let targets: Vec<SlowTarget> = (0..4).map(|_| SlowTarget::start()).collect();
    let mut clients = Vec::new();
    for (target, key) in targets.iter().zip(["a", "b", "c", "d"]) {
        let mut client = source.client();
        let port = target.port.to_string();
        // With COPY no latch is kept, so that the client can be moved.
        client.send(&["MIGRATE", "127.0.0.1", &port, key, "0", "20000", "COPY"]);
        target.received.recv().unwrap();
        clients.push(client);
    }
    assert_eq!(control.text(&["CONFIG", "SET", "io-threads", "1"]), "OK");
    assert_eq!(control.text(&["PING"]), "PONG");
    for (target, mut client) in targets.iter().zip(clients) {
        target.replies.send(b"+OK\r\n+OK\r\n").unwrap();
        assert_eq!(shown(&client.receive().unwrap()), "OK");
    }
    control.set_thread_count(1);
}

#[test]
fn the_end_of_the_server_ends_transfers() {
    let mut source = Server::start(&[]);
    let mut here = source.client();
    here.text(&["SET", "a", "1"]);
    let target = SlowTarget::start();
    let port = target.port.to_string();
    here.send(&["MIGRATE", "127.0.0.1", &port, "a", "0", "600000"]);
    target.received.recv().unwrap();
    source.signal("TERM");
    assert!(source.wait());
}
