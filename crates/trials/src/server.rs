//! Server processes: finding the programs, starting one on a free port, and ending it with its data.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, process, thread};

use crate::connection::Connection;

const START_TIME_MAX: Duration = Duration::from_secs(20);
const START_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of starts if another process takes the chosen port.
const START_ATTEMPTS_MAX: usize = 5;

/// A server program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name in reports.
    pub name: &'static str,
    path: PathBuf,
    extra_arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Program {
    /// A program at an existing path.
    pub fn new(name: &'static str, path: &Path) -> Program {
        Program { name, path: path.to_owned(), extra_arguments: Vec::new(), environment: Vec::new() }
    }

    /// Returns our own server: `BROADLOOM_BIN`, or the build beside the running test.
    pub fn broadloom() -> Option<Program> {
        let beside = || {
            let running = env::current_exe().ok()?;
            running.ancestors().skip(1).take(2).map(|dir| dir.join("broadloom")).find(|path| path.is_file())
        };
        let path =
            env::var_os("BROADLOOM_BIN").map(PathBuf::from).filter(|path| path.is_file()).or_else(beside)?;
        Some(Program::new("broadloom", &path))
    }

    /// Returns our own server, built with the feature `tiny`: `BROADLOOM_TINY_BIN`.
    pub fn tiny_broadloom() -> Option<Program> {
        let path = env::var_os("BROADLOOM_TINY_BIN").map(PathBuf::from).filter(|path| path.is_file())?;
        Some(Program::new("tiny broadloom", &path))
    }

    /// Returns the newest Redis that `tests/peers/install` built.
    pub fn newest_redis() -> Option<Program> {
        Program::peer("redis-next", "redis-next-server")
    }

    /// Returns the Valkey that `tests/peers/install` built.
    pub fn valkey() -> Option<Program> {
        Program::peer("valkey", "valkey-server")
    }

    /// Returns the Redis that `tests/peers/install` built.
    pub fn redis() -> Option<Program> {
        Program::peer("redis", "redis-server")
    }

    /// Returns the oldest servers that must understand our append-only files, if they are beside the peers: Redis 7.2 and
    /// Valkey 8.0. `tests/peers/install` does not build them.
    pub fn oldest_peers() -> Vec<Program> {
        let names = [("redis-7.2", "redis-7.2-server"), ("valkey-8.0", "valkey-8.0-server")];
        names.into_iter().filter_map(|(name, file)| Program::peer(name, file)).collect()
    }

    /// Adds directives to the program's command line.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Program {
        self.extra_arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Gives our own server this many threads, all of which have connections also without load.
    pub fn with_threads(self, count: &str) -> Program {
        self.with_arguments(&["--io-threads", count, "--io-threads-always-active", "yes"])
    }

    /// Adds variables to the program's environment.
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(&'static str, PathBuf)>) -> Program {
        self.environment.extend(variables);
        self
    }

    fn peer(name: &'static str, file: &str) -> Option<Program> {
        let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.peers");
        let peers = env::var_os("BROADLOOM_PEERS").map_or_else(default, PathBuf::from);
        let path = peers.join("bin").join(file);
        path.is_file().then(|| Program::new(name, &path))
    }
}

/// Returns the programs that a test needs, or prints the reason to skip it. With `CI` set, a missing program
/// is a failure.
pub fn programs_or_skip<const N: usize>(found: [(&str, Option<Program>); N]) -> Option<[Program; N]> {
    let missing: Vec<&str> =
        found.iter().filter(|(_, program)| program.is_none()).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Some(found.map(|(_, program)| program.expect("none is missing")));
    }
    let reason = format!("no {}: run tests/peers/install, and build the server", missing.join(", "));
    assert!(env::var_os("CI").is_none(), "{reason}");
    eprintln!("skipped: {reason}");
    None
}

/// Returns our own server and every peer, or prints the reason to skip a test, as [`programs_or_skip`].
pub fn peers_or_skip() -> Option<(Program, [Program; 3])> {
    let [ours, peers @ ..] = programs_or_skip([
        ("broadloom", Program::broadloom()),
        ("valkey", Program::valkey()),
        ("redis", Program::redis()),
        ("redis-next", Program::newest_redis()),
    ])?;
    Some((ours, peers))
}

/// A running server. Dropping it kills the process and removes its data.
pub struct Server {
    program: Program,
    child: Child,
    data_dir: PathBuf,
    address: SocketAddr,
}

impl Server {
    /// Starts a program on a free loopback port and waits until it replies.
    pub fn start(program: &Program) -> io::Result<Server> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS_MAX {
            match Server::start_once(program) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns the name in reports.
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Opens a new connection.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address)
    }

    /// If the server has ended, starts it again, empty, and returns its exit status and the end of its log.
    pub fn revive(&mut self) -> io::Result<Option<String>> {
        let ended = self.ended()?;
        if ended.is_some() {
            *self = Server::start(&self.program)?;
        }
        Ok(ended)
    }

    /// Whether it has ended by itself: then its exit status and the end of its log.
    pub fn ended(&mut self) -> io::Result<Option<String>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        let log = fs::read(self.data_dir.join("log")).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(4000)..]).into_owned();
        Ok(Some(format!("{status}; the end of its log:\n{tail}")))
    }

    /// Kills the process. Its data stay, for [`Self::start_again`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Starts a killed server with the data that it has left, on another port, and waits until it replies.
    pub fn start_again(&mut self) -> io::Result<()> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS_MAX {
            // A connection may have taken the former port.
            let port = free_port()?;
            self.address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            self.child = spawn(&self.program, port, &self.data_dir)?;
            match self.wait_until_up() {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
            // An error if it has ended.
            let _ = self.kill();
        }
        Err(last)
    }

    /// Returns the directory of its data.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    fn start_once(program: &Program) -> io::Result<Server> {
        let port = free_port()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let data_dir = env::temp_dir().join(format!(
            "trials-{}-{}-{port}",
            program.name.replace(' ', "-"),
            process::id()
        ));
        fs::create_dir_all(&data_dir)?;
        let child = spawn(program, port, &data_dir)?;
        let mut server = Server { program: program.clone(), child, data_dir, address };
        server.wait_until_up()?;
        Ok(server)
    }

    fn wait_until_up(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIME_MAX;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(self.data_dir.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("{} ended with {status}:\n{log}", self.program.name)));
            }
            if let Ok(reply) = self.connect().and_then(|mut connection| connection.call(&["PING"]))
                && reply.bytes == b"+PONG\r\n"
            {
                return self.check_identity();
            }
            thread::sleep(START_POLL_INTERVAL);
        }
        Err(io::Error::other(format!("{} does not reply", self.program.name)))
    }

    /// Another process may have taken the port before this one could: then the replies are those of that process.
    fn check_identity(&self) -> io::Result<()> {
        let reply = self.connect()?.call(&["INFO", "server"])?;
        let line = format!("process_id:{}\r\n", self.child.id());
        let is_ours = String::from_utf8_lossy(&reply.bytes).contains(&line);
        is_ours.then_some(()).ok_or_else(|| io::Error::other("another process has taken its port"))
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn spawn(program: &Program, port: u16, data_dir: &Path) -> io::Result<Child> {
    let log = File::create(data_dir.join("log"))?;
    Command::new(&program.path)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--enable-debug-command", "yes", "--dir"])
        .arg(data_dir)
        .args(&program.extra_arguments)
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed instead of shut down, because no data is kept. Both calls fail only if the process has
        // already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data_dir);
    }
}
