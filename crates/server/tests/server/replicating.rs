//! A replica: its handshake, synchronisations, the stream and the end of the link, with a primary that a test plays, and with
//! a real one.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::support::directory::Directory;
use crate::support::{self, Client, PATIENCE, Server, replication_field as field, shown, wait_for};
use wire::response::Reply;

const ID: &str = "0123456789012345678901234567890123456789";
const OTHER_ID: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";

/// An RDB file with the key `k` and database 2 selected in the stream, without a checksum.
const SNAPSHOT: &[u8] = b"REDIS0011\xfa\x0erepl-stream-db\xc0\x02\xfe\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";

/// A primary that a test plays.
struct Primary {
    listener: TcpListener,
    port: String,
}

/// A connection of a replica.
struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Primary {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        Self { listener, port }
    }

    fn accept(&self) -> Link {
        self.listener.set_nonblocking(true).unwrap();
        let stream = wait_for(|| match self.listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Link { stream, buffer: Vec::new() }
    }

    /// Accepts a connection, and answers up to `PSYNC`, whose words it returns.
    fn accept_until_psync(&self) -> (Link, Vec<String>) {
        let mut link = self.accept();
        loop {
            let words = link.request().expect("the link is open");
            match words[0].as_str() {
                "PING" => link.send(b"+PONG\r\n"),
                "PSYNC" => return (link, words),
                _ => link.send(b"+OK\r\n"),
            }
        }
    }

    /// Accepts a connection, and sends the snapshot of this id and offset.
    fn accept_and_sync(&self, id: &str, offset: u64) -> Link {
        let (mut link, _) = self.accept_until_psync();
        link.send(format!("+FULLRESYNC {id} {offset}\r\n${}\r\n", SNAPSHOT.len()).as_bytes());
        link.send(SNAPSHOT);
        link
    }
}

impl Link {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The words of the next request; `None`: the link is closed. Empty lines are passed over.
    fn request(&mut self) -> Option<Vec<String>> {
        loop {
            while self.buffer.first() == Some(&b'\n') {
                self.buffer.remove(0);
            }
            if let Some((Reply::Array(words), size)) = Reply::parse(&self.buffer).unwrap() {
                self.buffer.drain(..size);
                return Some(words.iter().map(shown).collect());
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(size) => self.buffer.extend_from_slice(&chunk[..size]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until the replica has acknowledged this offset.
    fn expect_acknowledged(&mut self, offset: u64) {
        loop {
            let words = self.request().expect("the link is open");
            assert_eq!(words[..2], ["REPLCONF", "ACK"]);
            let acknowledged: u64 = words[2].parse().unwrap();
            assert!(acknowledged <= offset, "{acknowledged} instead of {offset}");
            if acknowledged == offset {
                return;
            }
        }
    }

    fn expect_closed(&mut self) {
        while self.request().is_some() {}
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    support::request(words).into_bytes()
}

fn replicate(client: &mut Client, port: &str) {
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", port]), "OK");
}

fn expect_text(client: &mut Client, words: &[&str], expected: &str) {
    wait_for(|| (client.text(words) == expected).then_some(()));
}

#[test]
fn a_handshake_introduces_the_replica() {
    let primary = Primary::new();
    let server = Server::start(&[
        "--masteruser",
        "someone",
        "--masterauth",
        "secret",
        "--replica-announce-ip",
        "10.1.2.3",
        "--replica-announce-port",
        "1234",
    ]);
    let mut client = server.client();
    assert_eq!(client.text(&["ROLE"]), "master\n0\n");
    replicate(&mut client, &primary.port);
    assert_eq!(
        client.text(&["SLAVEOF", "127.0.0.1", &primary.port]),
        "OK Already connected to specified master"
    );
    let mut link = primary.accept();
    let mut said = Vec::new();
    for answer in ["-NOAUTH Authentication required.", "+OK", "+OK", "+OK", "+OK", "-ERR no version"] {
        said.push(link.request().unwrap().join(" "));
        link.send(format!("{answer}\r\n").as_bytes());
    }
    said.push(link.request().unwrap().join(" "));
    let expected = [
        "PING",
        "AUTH someone secret",
        "REPLCONF listening-port 1234",
        "REPLCONF ip-address 10.1.2.3",
        "REPLCONF capa eof capa psync2",
    ];
    assert_eq!(said[..5], expected);
    assert!(said[5].starts_with("REPLCONF version "));
    // The data of a primary may be a prefix of those of its former replica.
    let id = field(&mut client, "master_replid");
    assert_eq!(said[6], format!("PSYNC {id} 1"));
    assert!(client.text(&["ROLE"]).starts_with("slave\n127.0.0.1\n"));
    assert_eq!(field(&mut client, "master_link_status"), "down");
    assert_eq!(field(&mut client, "role"), "slave");
}

#[test]
fn a_snapshot_and_the_stream_follow() {
    let primary = Primary::new();
    let server = Server::start(&[]);
    let mut client = server.client();
    client.text(&["SET", "old", "1"]);
    replicate(&mut client, &primary.port);
    let (mut link, _) = primary.accept_until_psync();
    link.send(format!("\n+FULLRESYNC {ID} 1000\r\n\n\n$EOF:{OTHER_ID}\r\n").as_bytes());
    for byte in SNAPSHOT {
        link.send(&[*byte]);
    }
    wait_for(|| (field(&mut client, "master_sync_in_progress") == "1").then_some(()));
    link.send(OTHER_ID.as_bytes());
    link.expect_acknowledged(1000);
    assert_eq!(client.text(&["GET", "k"]), "v");
    assert_eq!(client.text(&["DBSIZE"]), "1");
    assert_eq!(field(&mut client, "master_replid"), ID);
    assert_eq!(field(&mut client, "master_repl_offset"), "1000");
    // Database 2 is selected, as the snapshot says.
    let mut stream = request(&["SET", "a", "1"]);
    stream.extend(request(&["MULTI"]));
    stream.extend(request(&["INCR", "a"]));
    stream.extend(request(&["SELECT", "3"]));
    stream.extend(request(&["SET", "b", "1"]));
    stream.extend(request(&["EXEC"]));
    stream.extend(request(&["PING"]));
    link.send(&stream);
    let end = 1000 + stream.len() as u64;
    link.expect_acknowledged(end);
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["GET", "a"]), "2");
    client.text(&["SELECT", "3"]);
    assert_eq!(client.text(&["GET", "b"]), "1");
    assert_eq!(field(&mut client, "slave_repl_offset"), end.to_string());
    assert_eq!(field(&mut client, "master_repl_offset"), end.to_string());
    assert_eq!(client.text(&["SET", "c", "1"]), "READONLY You can't write against a read only replica.");
    let list = client.text(&["CLIENT", "LIST", "TYPE", "master"]);
    assert!(list.contains(" flags=M ") && list.lines().count() == 1, "{list}");
    assert!(client.text(&["ROLE"]).ends_with(&format!("connected\n{end}")));
}

/// What has expired stays until the primary deletes it, and it may be kept instead.
#[test]
fn past_expiries_of_the_primary_are_kept() {
    let primary = Primary::new();
    let server = Server::start(&[]);
    let mut client = server.client();
    replicate(&mut client, &primary.port);
    let mut link = primary.accept_and_sync(ID, 1000);
    let mut end = 1000;
    let mut apply = |requests: &[&str]| {
        for words in requests {
            let words: Vec<&str> = words.split(' ').collect();
            let bytes = request(&words);
            end += bytes.len() as u64;
            link.send(&bytes);
        }
        link.expect_acknowledged(end);
    };
    apply(&[
        "SELECT 0",
        "SET text v PXAT 1",
        "SET old v",
        "PEXPIREAT old 1",
        "HSET hash a 1 b 2",
        "HPEXPIREAT hash 1 FIELDS 1 a",
    ]);
    assert_eq!(client.text(&["MGET", "text", "old"]), "\n");
    assert_eq!(client.text(&["HGET", "hash", "a"]), "");
    assert_eq!(client.text(&["HLEN", "hash"]), "2");
    apply(&["PERSIST text", "PERSIST old", "HPERSIST hash FIELDS 1 a"]);
    assert_eq!(client.text(&["MGET", "text", "old"]), "v\nv");
    assert_eq!(client.text(&["HGET", "hash", "a"]), "1");
    assert!(client.text(&["INFO", "stats"]).contains("expired_fields:0\r"));
}

/// The primary does not know these keys, and its own ones are not the replica's to delete.
#[test]
fn keys_of_clients_expire_in_a_writable_replica() {
    let primary = Primary::new();
    let server = Server::start(&["--replica-read-only", "no"]);
    let mut client = server.client();
    replicate(&mut client, &primary.port);
    let mut link = primary.accept_and_sync(ID, 10);
    let stream = [request(&["SELECT", "0"]), request(&["SET", "kept", "v", "PX", "1"])].concat();
    link.send(&stream);
    link.expect_acknowledged(10 + stream.len() as u64);
    client.text(&["SELECT", "5"]);
    client.text(&["SET", "set", "v", "PX", "1"]);
    client.text(&["SET", "later", "v"]);
    client.text(&["PEXPIRE", "later", "2"]);
    client.text(&["EVAL", "redis.call('set',KEYS[1],'v','px',3)", "1", "script"]);
    client.text(&["SET", "persistent", "v", "EX", "100"]);
    client.text(&["PERSIST", "persistent"]);
    wait_for(|| (client.text(&["DBSIZE"]) == "1").then_some(()));
    wait_for(|| server.info(&mut client, "slave_expires_tracked_keys").eq("0").then_some(()));
    client.text(&["SELECT", "0"]);
    assert_eq!((client.text(&["DBSIZE"]), client.text(&["GET", "kept"])), ("2".into(), String::new()));
    assert_eq!(field(&mut client, "master_repl_offset"), (10 + stream.len()).to_string());
}

#[test]
fn a_link_that_ends_continues() {
    let primary = Primary::new();
    let server = Server::start(&["--replicaof", "127.0.0.1", &primary.port]);
    let mut client = server.client();
    let mut link = primary.accept_and_sync(ID, 5);
    let complete = request(&["SET", "a", "1"]);
    let mut stream = complete.clone();
    stream.extend(request(&["MULTI"]));
    stream.extend(request(&["SET", "a", "2"]));
    link.send(&stream);
    expect_text(&mut client, &["GET", "k"], "v");
    client.text(&["SELECT", "2"]);
    expect_text(&mut client, &["GET", "a"], "1");
    drop(link);
    // The transaction comes again, as it was not complete.
    let offset = 5 + complete.len();
    let (mut link, words) = primary.accept_until_psync();
    assert_eq!(words[1..], [ID, &(offset + 1).to_string()]);
    link.send(b"+CONTINUE\r\n");
    stream.extend(request(&["EXEC"]));
    link.send(&stream[complete.len()..]);
    link.expect_acknowledged(5 + stream.len() as u64);
    assert_eq!(client.text(&["GET", "a"]), "2");
    // Another primary continues the data with an id of its own.
    assert_eq!(client.text(&["CLIENT", "KILL", "TYPE", "master"]), "1");
    link.expect_closed();
    let (mut link, words) = primary.accept_until_psync();
    let end = 5 + stream.len();
    assert_eq!(words[1..], [ID, &(end + 1).to_string()]);
    link.send(format!("+CONTINUE {OTHER_ID}\r\n").as_bytes());
    link.expect_acknowledged(end as u64);
    assert_eq!(field(&mut client, "master_replid"), OTHER_ID);
    assert_eq!(field(&mut client, "master_replid2"), ID);
    assert_eq!(field(&mut client, "second_repl_offset"), (end + 1).to_string());
    assert_eq!(field(&mut client, "master_link_status"), "up");
}

#[test]
fn a_promotion_begins_another_history() {
    let primary = Primary::new();
    let server = Server::start(&[]);
    let (mut client, mut blocked) = (server.client(), server.client());
    blocked.send(&["BLPOP", "nothing", "0"]);
    wait_for(|| (client.text(&["INFO", "clients"]).contains("blocked_clients:1")).then_some(()));
    replicate(&mut client, &primary.port);
    let error = shown(&blocked.receive().unwrap());
    assert!(error.starts_with("UNBLOCKED force unblock"), "{error}");
    assert!(blocked.receive().is_none());
    let mut link = primary.accept_and_sync(ID, 100);
    link.expect_acknowledged(100);
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    link.expect_closed();
    assert_eq!(client.text(&["SET", "own", "1"]), "OK");
    assert_eq!(client.text(&["GET", "k"]), "v");
    assert_eq!(field(&mut client, "role"), "master");
    assert_eq!(field(&mut client, "master_replid2"), ID);
    assert_eq!(field(&mut client, "second_repl_offset"), "101");
    let id = field(&mut client, "master_replid");
    assert!(id != ID && id.len() == 40);
    let offset: u64 = field(&mut client, "master_repl_offset").parse().unwrap();
    assert_eq!(offset, 100 + (request(&["SELECT", "0"]).len() + request(&["SET", "own", "1"]).len()) as u64);
    // A former primary asks to continue its own data.
    replicate(&mut client, &primary.port);
    let (_link, words) = primary.accept_until_psync();
    assert_eq!(words[1..], [id, (offset + 1).to_string()]);
}

#[test]
fn what_a_primary_refuses_is_tried_again() {
    let primary = Primary::new();
    let server = Server::start(&["--masterauth", "wrong", "--replicaof", "127.0.0.1", &primary.port]);
    let mut client = server.client();
    let mut link = primary.accept();
    link.request();
    link.send(b"-ERR max number of clients reached\r\n");
    server.log_line("Error reply to PING from primary: '-ERR max number of clients reached'");
    let mut link = primary.accept();
    link.request();
    link.send(b"+PONG\r\n-WRONGPASS invalid\r\n");
    server.log_line("Unable to AUTH to PRIMARY: -WRONGPASS invalid");
    let (mut link, _) = primary.accept_until_psync();
    link.send(b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n");
    server.log_line("Primary is currently unable to PSYNC but should be in the future: -NOMASTERLINK");
    let (mut link, _) = primary.accept_until_psync();
    link.send(b"-ERR unknown command\r\n");
    assert_eq!(link.request().unwrap(), ["SYNC"]);
    link.send(b"-ERR no\r\n");
    server.log_line("PRIMARY aborted replication with an error: ERR no");
    let (mut link, _) = primary.accept_until_psync();
    link.send(format!("+FULLRESYNC {ID} 0\r\n+OK\r\n").as_bytes());
    server.log_line("Bad protocol from PRIMARY");
    // A file that can't be loaded at all replaces nothing.
    client.text(&["REPLICAOF", "NO", "ONE"]);
    client.text(&["SET", "own", "1"]);
    replicate(&mut client, &primary.port);
    let (mut link, _) = primary.accept_until_psync();
    link.send(format!("+FULLRESYNC {ID} 0\r\n$7\r\nREDIS99").as_bytes());
    server.log_line("Failed trying to load the PRIMARY synchronization DB from disk");
    assert_eq!(client.text(&["GET", "own"]), "1");
    let mut link = primary.accept_and_sync(ID, 0);
    link.expect_acknowledged(0);
    assert_eq!(client.text(&["DBSIZE"]), "1");
}

#[test]
fn a_silent_primary_is_left() {
    let primary = Primary::new();
    let server = Server::start(&["--repl-timeout", "1", "--replicaof", "127.0.0.1", &primary.port]);
    let mut link = primary.accept();
    link.expect_closed();
    server.log_line("Timeout connecting to the PRIMARY...");
    let mut link = primary.accept_and_sync(ID, 0);
    link.expect_acknowledged(0);
    link.expect_closed();
    server.log_line("PRIMARY timeout: no data nor PING received...");
    let (_link, words) = primary.accept_until_psync();
    assert_eq!(words[1..], [ID, "1"]);
}

#[test]
fn a_shorter_timeout_holds_for_the_attempt_under_way() {
    let primary = Primary::new();
    let server = Server::start(&["--replicaof", "127.0.0.1", &primary.port]);
    let (mut link, _) = primary.accept_until_psync();
    assert_eq!(server.client().text(&["CONFIG", "SET", "repl-timeout", "1"]), "OK");
    link.expect_closed();
    server.log_line("Timeout connecting to the PRIMARY...");
}

#[test]
fn what_is_durable_is_acknowledged() {
    let primary = Primary::new();
    let server = Server::start(&["--appendonly", "yes", "--replicaof", "127.0.0.1", &primary.port]);
    let mut client = server.client();
    let mut link = primary.accept_and_sync(ID, 1000);
    let stream = request(&["SET", "a", "1"]);
    link.send(&stream);
    let end = (1000 + stream.len()).to_string();
    wait_for(|| {
        (link.request().expect("the link is open")[2..] == [end.as_str(), "FACK", &end]).then_some(())
    });
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    wait_for(|| (link.request().expect("the link is open")[2..] == [end.as_str()]).then_some(()));
}

/// It would take the place of the dump of the new data.
#[test]
fn a_dump_of_the_former_data_ends() {
    let primary = Primary::new();
    let server = Server::start(&["--rdb-key-save-delay", "100000000"]);
    let mut client = server.client();
    client.text(&["SET", "old", "1"]);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    replicate(&mut client, &primary.port);
    let mut link = primary.accept_and_sync(ID, 1000);
    link.expect_acknowledged(1000);
    server.log_line("Background saving cancelled");
}

#[test]
fn stale_data_are_served_or_not() {
    let primary = Primary::new();
    let server = Server::start(&["--replica-serve-stale-data", "no"]);
    let mut client = server.client();
    replicate(&mut client, &primary.port);
    assert!(client.text(&["GET", "k"]).starts_with("MASTERDOWN "));
    let mut link = primary.accept_and_sync(ID, 0);
    link.expect_acknowledged(0);
    assert_eq!(client.text(&["GET", "k"]), "v");
    drop(link);
    wait_for(|| client.text(&["GET", "k"]).starts_with("MASTERDOWN ").then_some(()));
    assert_eq!(client.text(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]), "OK");
    assert_eq!(client.text(&["GET", "k"]), "v");
    assert_eq!(client.text(&["CONFIG", "SET", "replica-read-only", "no"]), "OK");
    assert_eq!(client.text(&["SET", "local", "1"]), "OK");
}

#[test]
fn invalid_addresses_are_refused() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for port in ["x", "-1", "65536"] {
        assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", port]), "ERR Invalid master port");
    }
    assert_eq!(field(&mut client, "role"), "master");
    assert_eq!(client.text(&["REPLICAOF", "no.such.host.invalid", "1"]), "OK");
    server.log_line("no.such.host.invalid:1");
    assert_eq!(client.text(&["CONFIG", "GET", "replicaof"]), "replicaof\nno.such.host.invalid 1");
    let own = server.port.to_string();
    replicate(&mut client, &own);
    // It is no primary of itself.
    server.log_line("sync started");
    wait_for(|| (field(&mut client, "master_link_status") == "down").then_some(()));
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
}

#[test]
fn a_restart_continues() {
    let primary = Primary::new();
    let directory = Directory::new("restarted-replica");
    let dir = directory.0.to_str().unwrap();
    let options = ["--dir", dir, "--replicaof", "127.0.0.1", &primary.port];
    let mut server = Server::start(&options);
    let mut client = server.client();
    let mut link = primary.accept_and_sync(ID, 10);
    let mut stream = request(&["SET", "a", "1", "PX", "1"]);
    stream.extend(request(&["SET", "b", "1"]));
    link.send(&stream);
    let end = 10 + stream.len() as u64;
    link.expect_acknowledged(end);
    client.send(&["SHUTDOWN", "SAVE"]);
    assert!(server.wait());
    link.expect_closed();
    let mut server = Server::start(&options);
    let mut client = server.client();
    let (mut link, words) = primary.accept_until_psync();
    assert_eq!(words[1..], [ID, &(end + 1).to_string()]);
    link.send(b"+CONTINUE\r\n");
    link.send(&request(&["INCR", "b"]));
    let end = end + request(&["INCR", "b"]).len() as u64;
    link.expect_acknowledged(end);
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["MGET", "a", "b"]), "\n2");
    // The expired key is there until the primary deletes it.
    assert_eq!(client.text(&["DBSIZE"]), "2");
    client.send(&["SHUTDOWN", "SAVE"]);
    assert!(server.wait());
    // As a primary it has a new id, and deletes the key itself.
    let server = Server::start(&["--dir", dir]);
    let mut client = server.client();
    assert_eq!(field(&mut client, "role"), "master");
    assert_eq!(field(&mut client, "master_replid2"), ID);
    assert_eq!(field(&mut client, "second_repl_offset"), (end + 1).to_string());
    client.text(&["SELECT", "2"]);
    wait_for(|| (client.text(&["DBSIZE"]) == "1").then_some(()));
    let deleted = request(&["SELECT", "2"]).len() + request(&["UNLINK", "a"]).len();
    let offset = end + deleted as u64;
    wait_for(|| (field(&mut client, "master_repl_offset") == offset.to_string()).then_some(()));
}

#[test]
fn real_primaries_are_followed() {
    for path in support::peers() {
        for diskless in ["yes", "no"] {
            let options = [
                "--repl-diskless-sync",
                diskless,
                "--repl-diskless-sync-delay",
                "0",
                "--enable-debug-command",
                "yes",
            ];
            let primary = Server::start_program(path.to_str().unwrap(), &[], &options);
            let server = Server::start(&[]);
            let (mut there, mut here) = (primary.client(), server.client());
            there.text(&["DEBUG", "POPULATE", "30000", "key", "40"]);
            there.text(&["RPUSH", "list", "a", "b"]);
            here.text(&["SET", "old", "1"]);
            replicate(&mut here, &primary.port.to_string());
            wait_for(|| (field(&mut here, "master_link_status") == "up").then_some(()));
            assert_eq!(here.text(&["DBSIZE"]), "30001");
            assert_eq!(here.text(&["LRANGE", "list", "0", "-1"]), "a\nb");
            let write = |there: &mut Client, value: &str| {
                there.text(&["SELECT", "5"]);
                there.text(&["HSET", "hash", "field", value]);
                there.text(&["SELECT", "0"]);
                there.text(&["SET", "text", value]);
                there.text(&[
                    "EVAL",
                    "redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[2])",
                    "2",
                    "one",
                    "two",
                ]);
                assert_eq!(there.text(&["WAIT", "1", "10000"]), "1");
            };
            write(&mut there, "first");
            assert_eq!(here.text(&["MGET", "text", "one", "two"]), "first\n1\n1");
            // The link is cut.
            there.text(&["CLIENT", "KILL", "TYPE", "replica"]);
            write(&mut there, "second");
            assert_eq!(here.text(&["MGET", "text", "one", "two"]), "second\n2\n2");
            here.text(&["SELECT", "5"]);
            assert_eq!(here.text(&["HGET", "hash", "field"]), "second");
            let text = there.text(&["INFO", "stats"]);
            assert!(text.contains("sync_full:1\r") && text.contains("sync_partial_ok:1\r"), "{text}");
            assert_eq!(field(&mut here, "slave_repl_offset"), field(&mut there, "master_repl_offset"));
            // After another id the data are transferred once more.
            assert_eq!(there.text(&["DEBUG", "CHANGE-REPL-ID"]), "OK");
            there.text(&["CLIENT", "KILL", "TYPE", "replica"]);
            write(&mut there, "third");
            here.text(&["SELECT", "0"]);
            assert_eq!(here.text(&["MGET", "text", "one", "two"]), "third\n3\n3");
        }
    }
}

#[test]
fn a_former_primary_continues_with_its_replica() {
    for path in support::peers() {
        let options = ["--repl-diskless-sync-delay", "0"];
        let other = Server::start_program(path.to_str().unwrap(), &[], &options);
        let server = Server::start(&[]);
        let (mut there, mut here) = (other.client(), server.client());
        replicate(&mut here, &other.port.to_string());
        wait_for(|| (field(&mut here, "master_link_status") == "up").then_some(()));
        there.text(&["SET", "a", "1"]);
        assert_eq!(there.text(&["WAIT", "1", "10000"]), "1");
        // A link with a wrong password stays down, and the data stay.
        there.text(&["CONFIG", "SET", "requirepass", "secret"]);
        there.text(&["CLIENT", "KILL", "TYPE", "replica"]);
        server.log_line("is currently unable to PSYNC").clear();
        assert_eq!(here.text(&["CONFIG", "SET", "primaryauth", "secret"]), "OK");
        wait_for(|| (field(&mut here, "master_link_status") == "up").then_some(()));
        assert!(there.text(&["INFO", "stats"]).contains("sync_full:1\r"));
        assert_eq!(here.text(&["GET", "a"]), "1");
    }
}
