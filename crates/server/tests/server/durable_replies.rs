//! With `appendfsync always` no reply shows data that is not in the file yet, whatever command shows it.

use std::collections::BTreeSet;

use crate::support::directory::Directory;
use crate::support::{self, Client, Server};
use wire::response::Reply;

/// Requests that show whether the key `{key}` exists, or how many keys there are.
const SHOWING_KEYS: &[&str] = &[
    "SCAN 0 COUNT 1000",
    "KEYS *",
    "RANDOMKEY",
    "DBSIZE",
    "INFO",
    "INFO keyspace",
    "INFO keysizes",
    "INFO everything",
    "MEMORY STATS",
    "MEMORY USAGE {key}",
    "DEBUG HTSTATS 0",
    "DEBUG DIGEST",
    "DEBUG OBJECT {key}",
    "GET {key}",
    "EXISTS {key}",
    "TYPE {key}",
    "OBJECT ENCODING {key}",
    "SORT sorted BY nosort GET key-*",
    "SETNX {key} x",
    "HGET {key} x",
    "COPY {key} {key}",
    "EVAL return(redis.call('get',KEYS[1])) 1 {key}",
    "EVAL return(redis.call('get',ARGV[1])) 0 {key}",
    "EVAL return(redis.call('dbsize')) 0",
    "EVAL return(redis.call('scan',0)) 0",
    "EVAL_RO return(redis.call('get',KEYS[1])) 1 {key}",
    "FCALL f 1 {key}",
    "FCALL_RO f 1 {key}",
];

/// Requests that show whether a database is empty.
const SHOWING_EMPTINESS: &[&str] = &[
    "DBSIZE",
    "RANDOMKEY",
    "SCAN 0 COUNT 1000",
    "KEYS *",
    "INFO keyspace",
    "MEMORY STATS",
    "DEBUG HTSTATS 0",
];

/// Requests that show whether a library exists.
const SHOWING_LIBRARIES: &[&str] =
    &["FUNCTION LIST", "FUNCTION DUMP", "FUNCTION STATS", "INFO memory", "FCALL f 1 key"];

/// Commands without keys that show no data, or none that is kept in the file.
const SHOWING_NOTHING: &[&str] = &[
    "acl",
    "asking",
    "auth",
    "bgrewriteaof",
    "bgsave",
    "client",
    "cluster",
    "clusterscan",
    "command",
    "commandlog",
    "config",
    "discard",
    "echo",
    "exec",
    "failover",
    "flushall",
    "flushdb",
    "hello",
    "lastsave",
    "latency",
    "lolwut",
    "module",
    "monitor",
    "multi",
    "pfselftest",
    "ping",
    "psubscribe",
    "psync",
    "publish",
    "pubsub",
    "punsubscribe",
    "quit",
    "readonly",
    "readwrite",
    "replconf",
    "replicaof",
    "reset",
    "role",
    "save",
    "script",
    "select",
    "shutdown",
    "slaveof",
    "slowlog",
    "spublish",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "swapdb",
    "sync",
    "time",
    "unsubscribe",
    "unwatch",
    "wait",
    "waitaof",
];

const LIBRARY: &str = "#!lua name=NAME\nredis.register_function{function_name='f', callback=function(keys) return \
    redis.call('exists', keys[1]) end, flags={'no-writes'}}";

/// The delay of each write of the file, in microseconds. A reply that does not wait for it arrives long before.
const WRITE_DELAY_US: &str = "100000";

/// How a request is sent.
#[derive(Clone, Copy, Debug)]
enum Form {
    Alone,
    /// In a transaction, each of whose requests is sent after the reply to the one before.
    Queued,
    /// In a transaction that is sent as a whole.
    Whole,
}

impl Form {
    /// Returns the last reply to the request, or the transaction with it.
    fn ask(self, client: &mut Client, request: &[&str]) -> String {
        match self {
            Self::Alone => client.text(request),
            Self::Queued => {
                assert_eq!(client.text(&["MULTI"]), "OK");
                assert_eq!(client.text(request), "QUEUED", "{request:?}");
                client.text(&["EXEC"])
            }
            Self::Whole => {
                let mut bytes = Vec::new();
                for words in [&["MULTI"], request, &["EXEC"]] {
                    bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
                    words
                        .iter()
                        .for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
                }
                client.send_raw(&bytes);
                (0..2).for_each(|_| drop(client.receive().unwrap()));
                support::shown(&client.receive().unwrap())
            }
        }
    }
}

struct Slow {
    _server: Server,
    directory: Directory,
    writer: Client,
    reader: Client,
}

impl Slow {
    fn start(name: &str) -> Self {
        let directory = Directory::new(name);
        let options = ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
        let server =
            Server::start(&[&options[..], &["--dir", &directory.path(""), "--io-threads", "1"]].concat());
        let writer = server.client();
        Self { directory, writer, reader: server.client(), _server: server }
    }

    /// Asserts that the reply to `shown` waits until the change is in the file, which then has `text`.
    fn check(&mut self, change: &[&str], text: &str, shown: &str) {
        self.check_in(Form::Alone, change, text, shown);
    }

    /// As [`Self::check`], for a request in this form.
    fn check_in(&mut self, form: Form, change: &[&str], text: &str, shown: &str) {
        self.reader.text(&["DEBUG", "AOF-FLUSH-SLEEP", WRITE_DELAY_US]);
        self.writer.send(change);
        // Its name shows that the change has run, whose reply is held.
        let name = format!("after-{form:?}-{}", shown.replace(' ', "-"));
        self.writer.send(&["CLIENT", "SETNAME", &name]);
        support::wait_for(|| self.reader.text(&["CLIENT", "LIST"]).contains(&name).then_some(()));
        let reply = form.ask(&mut self.reader, &shown.split(' ').collect::<Vec<_>>());
        let file = std::fs::read(self.directory.path("appendonlydir/appendonly.aof.1.incr.aof")).unwrap();
        assert!(file.windows(text.len()).any(|part| part == text.as_bytes()), "{form:?} {shown}: {reply}");
        (0..2).for_each(|_| drop(self.writer.receive().unwrap()));
        self.reader.text(&["DEBUG", "AOF-FLUSH-SLEEP", "0"]);
    }
}

#[test]
fn a_reply_that_shows_keys_waits_until_they_are_durable() {
    let mut slow = Slow::start("durable-keys");
    slow.writer.text(&["FUNCTION", "LOAD", &LIBRARY.replace("NAME", "own")]);
    for (number, shown) in SHOWING_KEYS.iter().enumerate() {
        let key = format!("key-{number}");
        // RANDOMKEY finds no other key.
        slow.writer.text(&["FLUSHDB"]);
        if shown.starts_with("SORT") {
            slow.writer.text(&["RPUSH", "sorted", &number.to_string()]);
        }
        slow.check(&["SET", &key, "value"], &key, &shown.replace("{key}", &key));
    }
}

#[test]
fn a_transaction_that_shows_keys_waits_until_they_are_durable() {
    let mut slow = Slow::start("durable-transactions");
    slow.writer.text(&["FUNCTION", "LOAD", &LIBRARY.replace("NAME", "own")]);
    for form in [Form::Queued, Form::Whole] {
        for (number, shown) in SHOWING_KEYS.iter().enumerate() {
            let key = format!("key-{number}-{form:?}");
            slow.writer.text(&["FLUSHDB"]);
            if shown.starts_with("SORT") {
                slow.writer.text(&["RPUSH", "sorted", &format!("{number}-{form:?}")]);
            }
            slow.check_in(form, &["SET", &key, "value"], &key, &shown.replace("{key}", &key));
        }
        for (number, shown) in SHOWING_EMPTINESS.iter().enumerate() {
            let key = format!("empty-{number}-{form:?}");
            slow.writer.text(&["FLUSHDB"]);
            slow.writer.text(&["SET", &key, "value"]);
            slow.check_in(form, &["DEL", &key], &format!("DEL\r\n${}\r\n{key}", key.len()), shown);
        }
        for (number, shown) in SHOWING_LIBRARIES.iter().enumerate() {
            let name = format!("library{number}{form:?}");
            slow.writer.text(&["FUNCTION", "FLUSH"]);
            slow.check_in(form, &["FUNCTION", "LOAD", &LIBRARY.replace("NAME", &name)], &name, shown);
        }
        slow.writer.text(&["FUNCTION", "FLUSH"]);
        slow.writer.text(&["FUNCTION", "LOAD", &LIBRARY.replace("NAME", "own")]);
    }
}

#[test]
fn a_reply_that_shows_an_emptied_database_waits_until_that_is_durable() {
    let mut slow = Slow::start("durable-flush");
    for (number, shown) in SHOWING_EMPTINESS.iter().enumerate() {
        let key = format!("key-{number}");
        slow.writer.text(&["FLUSHDB"]);
        slow.writer.text(&["SET", &key, "value"]);
        slow.check(&["DEL", &key], &format!("DEL\r\n${}\r\n{key}", key.len()), shown);
    }
}

#[test]
fn a_reply_that_shows_libraries_waits_until_they_are_durable() {
    let mut slow = Slow::start("durable-libraries");
    for (number, shown) in SHOWING_LIBRARIES.iter().enumerate() {
        let name = format!("library{number}");
        slow.writer.text(&["FUNCTION", "FLUSH"]);
        slow.check(&["FUNCTION", "LOAD", &LIBRARY.replace("NAME", &name)], &name, shown);
    }
}

/// The name and the first key's position of each command.
fn commands(client: &mut Client) -> Vec<(String, String)> {
    client.send(&["COMMAND"]);
    let Some(Reply::Array(commands)) = client.receive() else { panic!("no list") };
    let facts = |command: &Reply| {
        let Reply::Array(facts) = command else { panic!("no facts") };
        (support::shown(&facts[0]), support::shown(&facts[3]))
    };
    commands.iter().map(facts).collect()
}

#[test]
fn every_command_without_keys_is_classified() {
    let server = Server::start(&[]);
    let shown: BTreeSet<String> = [SHOWING_KEYS, SHOWING_EMPTINESS, SHOWING_LIBRARIES]
        .concat()
        .iter()
        .map(|request| request.split(' ').next().unwrap().to_lowercase())
        .collect();
    for (name, first_key) in commands(&mut server.client()) {
        // The latches of the keys note what is read. Counted keys are found by the handlers.
        let has_keys =
            first_key != "0" || ["evalsha", "evalsha_ro", "migrate", "debug", "object"].contains(&&*name);
        let is_counted =
            ["lmpop", "blmpop", "zmpop", "bzmpop", "sintercard", "zintercard", "zunion", "zinter", "zdiff"];
        let is_listed = shown.contains(&name) || SHOWING_NOTHING.contains(&&*name);
        let is_stream_read = ["xread", "xreadgroup", "xgroup", "xinfo", "msetex"].contains(&&*name);
        assert!(
            has_keys || is_listed || is_stream_read || is_counted.contains(&&*name),
            "{name}: a request belongs into a table, or the name into SHOWING_NOTHING"
        );
    }
}
