//! Moves between servers, as the program makes them.

#![allow(dead_code)] // Not every test uses all of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use tempfile::TempDir;
use trials::connection::Connection;
use trials::reply::Reply;
use trials::server::{Program, Server, programs_or_skip};

/// A source, a target, and the options that name them.
pub struct Move {
    pub source: Server,
    pub target: Server,
    state: TempDir,
    /// The password of the source.
    pub password: Option<&'static str>,
    /// The TLS ports of source and target, and the options for them.
    pub tls: Option<(u16, u16, Vec<String>)>,
    /// Where the tool reaches the source, if not at its address.
    pub proxy: Option<SocketAddr>,
    /// The value of `--timeout`.
    pub timeout: &'static str,
}

impl Move {
    pub fn new(source: &Program, target: &Program) -> Self {
        let (source, target) = (Server::start(source).unwrap(), Server::start(target).unwrap());
        let state = TempDir::new().unwrap();
        Self { source, target, state, password: None, tls: None, proxy: None, timeout: "20" }
    }

    /// The file of the record.
    pub fn state(&self) -> PathBuf {
        self.state.path().join("state.json")
    }

    /// The tool with these options.
    pub fn command(&self, options: &str) -> Command {
        let login = self.password.map_or_else(String::new, |password| format!(":{password}@"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_broadloom-migrate"));
        let (from, to) = match &self.tls {
            None => (
                format!("redis://{login}{}", self.proxy.unwrap_or(self.source.address())),
                format!("redis://{}", self.target.address()),
            ),
            Some((from, to, options)) => {
                command.args(options);
                (format!("rediss://{login}127.0.0.1:{from}"), format!("rediss://127.0.0.1:{to}"))
            }
        };
        command.args(["--from", &from, "--to", &to, "--state"]).arg(self.state());
        if self.proxy.is_some() {
            command.args(["--from-as", &self.source.address().to_string()]);
        }
        command.args(["--timeout", self.timeout]).args(options.split_whitespace());
        command
    }

    /// Gives the source data and a password.
    pub fn fill_and_protect(&mut self) {
        fill(&mut self.source());
        assert_eq!(call(&mut self.source(), &["CONFIG", "SET", "requirepass", "secret"]), "OK");
        self.password = Some("secret");
    }

    pub fn run(&self, options: &str) -> Output {
        self.command(options).output().unwrap()
    }

    /// Runs a step that must succeed and print these words.
    pub fn step(&self, options: &str, words: &str) {
        let output = self.run(options);
        let text = text(&output);
        assert!(output.status.success() && text.contains(words), "{options}: {text}");
    }

    /// Runs a step that must fail with this status and these words.
    pub fn refused(&self, options: &str, status: i32, words: &str) {
        let output = self.run(options);
        let text = text(&output);
        assert!(output.status.code() == Some(status) && text.contains(words), "{options}: {text}");
    }

    pub fn source(&self) -> Connection {
        let mut connection = self.source.connect().unwrap();
        if let Some(password) = self.password {
            assert_eq!(call(&mut connection, &["AUTH", password]), "OK");
        }
        connection
    }

    pub fn target(&self) -> Connection {
        self.target.connect().unwrap()
    }
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub fn call(connection: &mut Connection, words: &[&str]) -> String {
    match connection.call(words).unwrap().reply {
        Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) => String::from_utf8(text).unwrap(),
        Reply::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Every type, expiries of keys and fields, two databases.
pub fn fill(connection: &mut Connection) {
    for request in [
        "SET string hello",
        "SET expiring soon EX 10000",
        "RPUSH list a b 3",
        "SADD set a b 3",
        "ZADD zset 1.1 a -inf b",
        "HSET hash a 1 b two",
        "HPEXPIRE hash 10000000 FIELDS 1 a",
        "XADD stream 1-1 a b",
        "XADD stream 2-1 a b",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "PFADD hll a b c",
        "SELECT 3",
        "SET other 1",
        "SELECT 0",
    ] {
        let reply = call(connection, &request.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with("ERR"), "{request}: {reply}");
    }
    for number in 0..5_000 {
        connection.send(&trials::connection::encode(&["SET", &format!("key:{number}"), "value"])).unwrap();
    }
    (0..5_000).for_each(|_| drop(connection.receive().unwrap()));
}

/// Returns the targets that accept `REPLICAOF`.
pub fn replicas(valkey: &Program) -> Vec<Program> {
    let accepts = |program: &Program| {
        let server = Server::start(program).unwrap();
        // A port that nobody listens on: accepted, or refused at once.
        call(&mut server.connect().unwrap(), &["REPLICAOF", "127.0.0.1", "1"]) == "OK"
    };
    [valkey.clone()].into_iter().chain(Program::broadloom().filter(accepts)).collect()
}

pub fn valkey() -> Option<Program> {
    programs_or_skip([("valkey", Program::valkey())]).map(|[valkey]| valkey)
}

/// Sends a signal to a process. A stopped one has stopped when this returns.
pub fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &id.to_string()]).status().unwrap();
    assert!(sent.success());
    let is_stopped = || {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        state.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    while name == "STOP" && !is_stopped() {
        thread::yield_now();
    }
}

/// Whether a request has these words, the last of them not at its end.
pub fn has(request: &[u8], words: &str) -> bool {
    let words = format!("\r\n{words}\r\n");
    request.windows(words.len()).any(|found| found == words.as_bytes())
}

/// Forwards connections to a server. `change` sees each request before the server does.
pub fn proxy(server: SocketAddr, change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static) -> SocketAddr {
    proxy_to(move || server, change)
}

/// Forwards each connection to a server that is asked for when it is opened.
pub fn proxy_to(
    server: impl Fn() -> SocketAddr + Send + 'static,
    change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let change = Arc::new(change);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(server()).unwrap());
            let (mut replies, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            // Either connection may be closed at any time.
            thread::spawn(move || {
                drop(io::copy(&mut replies, &mut to_client));
                drop(to_client.shutdown(std::net::Shutdown::Both));
            });
            let change = Arc::clone(&change);
            thread::spawn(move || {
                let mut bytes = vec![0; 64 * 1024];
                while let Ok(size @ 1..) = client.read(&mut bytes) {
                    let mut request = bytes[..size].to_vec();
                    change(&mut request);
                    if server.write_all(&request).is_err() {
                        break;
                    }
                }
                drop(server.shutdown(std::net::Shutdown::Both));
            });
        }
    });
    address
}
