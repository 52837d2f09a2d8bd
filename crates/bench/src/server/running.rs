//! A server that was started, or one that ran already; what was started ends with this value, however it ends.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::accounting::listens_on;
use crate::control::{Answer, Login, Target, info_field};
use crate::error::BenchError;
use crate::interrupt;
use crate::outcome::ServerInfo;
use crate::pinning::{CpuList, while_pinned};
use crate::server::spec::{Origin, ServerSpec, Variables, find_program, is_program};

/// How long a server may take until it answers PING.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two attempts to reach a starting server.
const START_PAUSE: Duration = Duration::from_millis(20);

/// How much of a failed server's output is shown.
const LOG_TAIL_LINES: usize = 12;

/// Where products put their version in INFO; those who also claim to be Redis come first.
const VERSION_FIELDS: &[(&str, &str)] = &[
    ("broadloom_version", "broadloom"),
    ("valkey_version", "valkey"),
    ("dragonfly_version", "dragonfly"),
    ("redis_version", "redis"),
];

/// How servers are started.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// `{threads}` of command lines.
    pub thread_count: usize,
    /// `{io}` of command lines.
    pub io_backend: String,
    /// `{self}` of command lines: this program and the words that lead to the benchmark.
    pub own_words: Vec<String>,
    /// Where they may run.
    pub cpus: CpuList,
    /// For every connection.
    pub login: Login,
    /// At the end of command lines: directives that all products know.
    pub further_words: Vec<String>,
}

/// A server that answers PING.
#[derive(Debug)]
pub struct RunningServer {
    target: Target,
    command: Option<String>,
    version: Option<String>,
    process: Option<Process>,
}

/// A child in a process group of its own, and its directory.
#[derive(Debug)]
struct Process {
    child: Child,
    directory: TempDir,
}

impl RunningServer {
    /// Starts (or finds) the server, and waits until it answers PING.
    ///
    /// Call it on a thread that lives as long as the server should: the server is set to die with its parent.
    pub fn start(spec: &ServerSpec, options: &StartOptions) -> Result<Self, BenchError> {
        let mut server = match &spec.origin {
            Origin::Address(address) => Self {
                target: Target {
                    name: spec.name.clone(),
                    address: *address,
                    pid: None,
                    login: options.login.clone(),
                },
                command: None,
                version: None,
                process: None,
            },
            Origin::Command(words) => Self::spawn(&spec.name, words, options)?,
        };
        server.await_ping()?;
        let info = server.target.info().unwrap_or_default();
        if server.target.pid.is_none() {
            server.target.pid = local_pid(&server.target, &info);
        }
        server.version = VERSION_FIELDS.iter().find_map(|(field, product)| {
            info_field(&info, field).map(|version| format!("{product} {version}"))
        });
        Ok(server)
    }

    /// What the load generator needs of it.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Whether it was started here, so that its data is nobody's.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        self.process.is_some()
    }

    /// How it appears in reports.
    #[must_use]
    pub fn info(&self) -> ServerInfo {
        let origin = self.command.clone().unwrap_or_else(|| self.target.address.to_string());
        let Target { name, pid, .. } = &self.target;
        ServerInfo { name: name.clone(), version: self.version.clone(), origin, pid: *pid }
    }

    fn spawn(name: &str, words: &[String], options: &StartOptions) -> Result<Self, BenchError> {
        let failed = |doing: &str| BenchError::environment(format!("server {name}: {doing}"));
        if let Some(program) = words.first().filter(|program| !is_program(program)) {
            return Err(BenchError::server(name, format!("there is no program '{program}'")));
        }
        let directory = TempDir::with_prefix("broadloom-bench-").map_err(failed("making a directory"))?;
        let port = free_port().map_err(failed("finding a free port"))?;
        let variables = Variables {
            port,
            dir: directory.path(),
            thread_count: options.thread_count,
            io_backend: &options.io_backend,
            own_words: &options.own_words,
        };
        let words = &[words, &options.further_words].concat();
        let line = ServerSpec::command_line(words, &variables);
        let log = File::create(directory.path().join("server.log")).map_err(failed("making a log file"))?;
        let log_too = log.try_clone().map_err(failed("making a log file"))?;

        // Where `setpriv` exists, the server dies even if this process is killed outright.
        let guard =
            find_program("setpriv").map(|setpriv| [setpriv.into(), "--pdeathsig".into(), "KILL".into()]);
        let mut all_words = guard.into_iter().flatten().chain(line.iter().cloned());
        let program = all_words.next().ok_or_else(|| BenchError::server(name, "an empty command"))?;
        let mut command = Command::new(program);
        command
            .args(all_words)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .process_group(0);
        let child = while_pinned(&options.cpus, || command.spawn()).map_err(failed("starting it"))?;
        let pid = child.id();
        Ok(Self {
            target: Target {
                name: name.to_owned(),
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                pid: Some(pid),
                login: options.login.clone(),
            },
            command: Some(variables.describe(words)),
            version: None,
            process: Some(Process { child, directory }),
        })
    }

    fn await_ping(&mut self) -> Result<(), BenchError> {
        let begin = Instant::now();
        loop {
            let seen = match self.target.ask(&["PING"]) {
                Ok(Answer::Error(text)) if !text.starts_with("LOADING") => {
                    return Err(BenchError::server(&self.target.name, format!("PING: {text}")));
                }
                Ok(Answer::Error(text)) => text,
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            };
            let Some(process) = &mut self.process else {
                return Err(BenchError::server(&self.target.name, seen));
            };
            if let Ok(Some(status)) = process.child.try_wait() {
                let reason = format!("it ended at once ({status})\n{}", process.log_tail());
                return Err(BenchError::server(&self.target.name, reason));
            }
            if begin.elapsed() > START_TIMEOUT {
                let reason = format!("no answer to PING: {seen}\n{}", process.log_tail());
                return Err(BenchError::server(&self.target.name, reason));
            }
            interrupt::check()?;
            std::thread::sleep(START_PAUSE);
        }
    }
}

impl Process {
    fn log_tail(&self) -> String {
        let log = std::fs::read(self.directory.path().join("server.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    /// Kills the server and whatever it has started: its directory goes with it, nothing is worth saving.
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        // Until it is waited for, the number can't belong to anyone else.
        if let (Some(group), false) = (group, has_ended) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The process behind a loopback address, if it says its number and the number is true here.
fn local_pid(target: &Target, info: &str) -> Option<u32> {
    let pid = info_field(info, "process_id")?.parse().ok()?;
    (target.address.ip().is_loopback() && listens_on(pid, target.address)).then_some(pid)
}
