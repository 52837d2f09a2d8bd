//! A small fake server inside the test, and the benchmark as a process.
#![allow(clippy::unwrap_used, reason = "all of it is test code")]
#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// Faults and options of a fake server; none by default.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// At this request, counted over all connections, the server stops replying for this time.
    pub stall: Option<(u64, Duration)>,
    /// At this request, counted over all connections, the server closes the connection without a reply.
    pub close_at: Option<u64>,
    /// Notified of the first request that is neither PING nor INFO.
    pub first_request: Option<mpsc::Sender<()>>,
    /// Appends the name for each accepted connection.
    pub accepted: Option<(char, Arc<Mutex<String>>)>,
    /// The server has TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

#[derive(Debug, Default)]
struct State {
    strings: HashMap<Vec<u8>, Vec<u8>>,
    request_count: u64,
    command_counts: HashMap<String, u64>,
}

/// Implements GET, SET, PING and FLUSHALL; any other command is an error.
#[derive(Debug)]
pub struct FakeServer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl FakeServer {
    /// Listens on a free port until the test process ends.
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if let Some((name, log)) = &behaviour.accepted {
                    log.lock().unwrap().push(*name);
                }
                let (state, behaviour) = (shared.clone(), behaviour.clone());
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    stream.set_nodelay(true).unwrap();
                    match behaviour.tls.clone() {
                        None => serve(stream, &state, &behaviour),
                        Some(tls) => {
                            let tls = ServerConnection::new(tls).unwrap();
                            serve(StreamOwned::new(tls, stream), &state, &behaviour);
                        }
                    }
                });
            }
        });
        Self { address, state }
    }

    /// Returns how often a command was received.
    pub fn command_count(&self, name: &str) -> u64 {
        self.state.lock().unwrap().command_counts.get(name).copied().unwrap_or(0)
    }

    /// Returns the number of keys.
    pub fn key_count(&self) -> usize {
        self.state.lock().unwrap().strings.len()
    }
}

fn serve(stream: impl Read + Write, state: &Mutex<State>, behaviour: &Behaviour) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let name = String::from_utf8(request[0].clone()).unwrap();
        if name != "PING" && name != "INFO" {
            let _ = behaviour.first_request.as_ref().map(|sender| sender.send(()));
        }
        let mut state = state.lock().unwrap();
        state.request_count += 1;
        *state.command_counts.entry(name.clone()).or_default() += 1;
        if let Some((at, length)) = behaviour.stall
            && state.request_count == at
        {
            // Holds the lock, so that no other connection receives a reply either.
            let (_sender, receiver) = mpsc::channel::<()>();
            let _ = receiver.recv_timeout(length);
        }
        if behaviour.close_at == Some(state.request_count) {
            return;
        }
        let reply = match (name.as_str(), &request[1..]) {
            ("PING", []) => b"+PONG\r\n".to_vec(),
            ("FLUSHALL", []) => {
                state.strings.clear();
                b"+OK\r\n".to_vec()
            }
            ("SET", [key, value]) => {
                state.strings.insert(key.clone(), value.clone());
                b"+OK\r\n".to_vec()
            }
            ("GET", [key]) => match state.strings.get(key) {
                Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
                None => b"$-1\r\n".to_vec(),
            },
            _ => format!("-ERR the fake server does not implement {name}\r\n").into_bytes(),
        };
        drop(state);
        if reader.get_mut().write_all(&reply).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let count = read_number(reader, '*')?;
    (0..count)
        .map(|_| {
            let size = read_number(reader, '$')?;
            let mut argument = vec![0; size + 2];
            reader.read_exact(&mut argument).ok()?;
            argument.truncate(size);
            Some(argument)
        })
        .collect()
}

fn read_number(reader: &mut impl BufRead, mark: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}

/// Returns the benchmark with these arguments.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broadloom-bench"));
    command.args(args);
    command
}

/// Runs the benchmark and reads its report.
pub fn report(args: &[&str]) -> (Output, Value) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let output = command(args).args([Path::new("--json"), &path]).output().unwrap();
    let json = std::fs::read_to_string(&path).unwrap_or_else(|_| {
        panic!(
            "no report: {}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (output, serde_json::from_str(&json).unwrap())
}

/// Returns the samples of one server in a report's first case.
pub fn samples<'a>(report: &'a Value, server: &str) -> &'a [Value] {
    let server_outcomes =
        report["sections"][0]["findings"]["comparison"][0]["server_outcomes"].as_array().unwrap();
    let server_outcome =
        server_outcomes.iter().find(|server_outcome| server_outcome["server"] == server).unwrap();
    server_outcome["samples"].as_array().unwrap()
}
