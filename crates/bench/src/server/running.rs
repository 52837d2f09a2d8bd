//! A running server, started here or found. Dropping the value kills a started server.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tool::interrupt;

use crate::accounting::listens_on;
use crate::control::{Answer, Login, Target, info_field};
use crate::encryption::Encryption;
use crate::error::BenchError;
use crate::outcome::ServerInfo;
use crate::pinning::{CpuList, while_pinned};
use crate::server::spec::{Origin, ServerSpec, Variables, find_program, is_program};

/// Timeout until a started server replies to PING.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two connection attempts to a starting server.
const START_PAUSE: Duration = Duration::from_millis(20);

/// Number of log lines shown of a server that failed to start.
const LOG_TAIL_LINES: usize = 12;

/// INFO fields that contain a product's version. Products that also report a Redis version come first.
const VERSION_FIELDS: &[(&str, &str)] = &[
    ("broadloom_version", "broadloom"),
    ("valkey_version", "valkey"),
    ("dragonfly_version", "dragonfly"),
    ("redis_version", "redis"),
];

/// Options for starting servers.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// Value of `{threads}` in command lines.
    pub thread_count: usize,
    /// Value of `{io}` in command lines.
    pub io_backend: String,
    /// Value of `{self}` in command lines: this program and the words that select the benchmark.
    pub own_words: Vec<String>,
    /// CPUs that servers are bound to.
    pub cpus: CpuList,
    /// Login of every connection.
    pub login: Login,
    /// TLS of every connection, if they have it.
    pub encryption: Option<Arc<Encryption>>,
    /// Words appended to command lines: directives that all products support.
    pub further_words: Vec<String>,
}

/// A server that replied to PING.
#[derive(Debug)]
pub struct RunningServer {
    target: Target,
    command: Option<String>,
    version: Option<String>,
    process: Option<Process>,
}

/// A child in its own process group, and its directory.
#[derive(Debug)]
struct Process {
    child: Child,
    directory: TempDir,
}

impl RunningServer {
    /// Starts (or finds) the server, and waits until it replies to PING.
    ///
    /// The calling thread must live at least as long as the server: the server is killed when its parent
    /// thread ends.
    pub fn start(spec: &ServerSpec, options: &StartOptions) -> Result<Self, BenchError> {
        let mut server = match &spec.origin {
            Origin::Address(address) => Self {
                target: Target {
                    name: spec.name.clone(),
                    address: *address,
                    pid: None,
                    login: match spec.account.clone() {
                        None => options.login.clone(),
                        Some((user, password)) => {
                            Login { user: Some(user), password: Some(password), ..options.login.clone() }
                        }
                    },
                    encryption: options.encryption.clone(),
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

    /// Returns the connection data of the server.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the server was started here, so that its data may be deleted.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        self.process.is_some()
    }

    /// Describes the server for reports.
    #[must_use]
    pub fn info(&self) -> ServerInfo {
        let Target { name, address, pid, encryption, .. } = &self.target;
        let with_tls = if encryption.is_some() { " with TLS" } else { "" };
        let origin = self.command.clone().unwrap_or_else(|| format!("{address}{with_tls}"));
        ServerInfo { name: name.clone(), version: self.version.clone(), origin, pid: *pid }
    }

    fn spawn(name: &str, words: &[String], options: &StartOptions) -> Result<Self, BenchError> {
        let failed = |doing: &str| BenchError::environment(format!("server {name}: {doing}"));
        if let Some(program) = words.first().filter(|program| !is_program(program)) {
            return Err(BenchError::server(name, format!("program '{program}' not found")));
        }
        let directory = TempDir::with_prefix("broadloom-bench-").map_err(failed("creating a directory"))?;
        let port = free_port().map_err(failed("finding a free port"))?;
        let variables = Variables {
            port,
            dir: directory.path(),
            thread_count: options.thread_count,
            io_backend: &options.io_backend,
            own_words: &options.own_words,
            issued: options.encryption.as_ref().and_then(|encryption| encryption.issued()),
        };
        let words = &[words, &options.further_words].concat();
        let line = ServerSpec::command_line(words, &variables);
        let log = File::create(directory.path().join("server.log")).map_err(failed("creating a log file"))?;
        let log_too = log.try_clone().map_err(failed("creating a log file"))?;

        // `setpriv`, where available, kills the server even if this process is killed with SIGKILL.
        let guard =
            find_program("setpriv").map(|setpriv| [setpriv.into(), "--pdeathsig".into(), "KILL".into()]);
        let mut all_words = guard.into_iter().flatten().chain(line.iter().cloned());
        let program = all_words.next().ok_or_else(|| BenchError::server(name, "empty command"))?;
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
                encryption: options.encryption.clone(),
            },
            command: Some(variables.describe(words)),
            version: None,
            process: Some(Process { child, directory }),
        })
    }

    fn await_ping(&mut self) -> Result<(), BenchError> {
        let begin = Instant::now();
        loop {
            let seen = match self.target.send_command(&["PING"]) {
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
                let reason = format!("exited during start ({status})\n{}", process.log_tail());
                return Err(BenchError::server(&self.target.name, reason));
            }
            if begin.elapsed() > START_TIMEOUT {
                let reason = format!("no reply to PING: {seen}\n{}", process.log_tail());
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
    /// Kills the server and all processes that it has started. The directory is deleted, so no state needs
    /// saving.
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        // Until the child is waited for, its process id can't be reused.
        if let (Some(group), false) = (group, has_ended) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a loopback port that was free at the time of the call.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Returns the process id behind a loopback address, if the server reports one that is valid on this machine.
fn local_pid(target: &Target, info: &str) -> Option<u32> {
    let pid = info_field(info, "process_id")?.parse().ok()?;
    (target.address.ip().is_loopback() && listens_on(pid, target.address)).then_some(pid)
}
