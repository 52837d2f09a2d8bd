//! A server for a test, on a free port and on either I/O backend, and a client for it.

#![allow(dead_code)] // Not every test uses all of it.

pub mod directory;
pub mod peer;
pub mod primary;
pub mod rdb_file;
pub mod synchronising;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wire::response::Reply;

/// The time limit of all waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The I/O backends that this machine offers.
pub fn backends() -> Vec<&'static str> {
    let server = Server::start(&["--io-backend", "auto"]);
    match server.log_line("I/O backend") {
        line if line.contains("io_uring:") || !line.contains("io_uring") => vec!["epoll"],
        _ => vec!["epoll", "io_uring"],
    }
}

/// The programs of the real servers that are installed.
pub fn peers() -> Vec<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.peers");
    let peers = std::env::var_os("BROADLOOM_PEERS").map_or_else(default, PathBuf::from);
    let names = ["valkey-server", "redis-server", "redis-next-server"];
    let found: Vec<PathBuf> =
        names.iter().map(|name| peers.join("bin").join(name)).filter(|path| path.is_file()).collect();
    if found.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "no peers: run tests/peers/install");
        eprintln!("skipped: no peers: run tests/peers/install");
    }
    found
}

/// Runs a test on each backend, with a server started with these options.
pub fn on_each_backend(options: &[&str], test: impl Fn(Server)) {
    for backend in backends() {
        let mut all = vec!["--io-backend", backend];
        all.extend_from_slice(options);
        test(Server::start(&all));
    }
}

/// A running server. It is killed when dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    log: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    /// Its working directory.
    _directory: directory::Directory,
}

impl Server {
    /// Starts a server with these options, and waits until it is ready.
    pub fn start(options: &[&str]) -> Self {
        Self::start_in(&[], options)
    }

    /// Starts a server with these options and these variables in its environment.
    pub fn start_in(environment: &[(&str, &str)], options: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_broadloom"), environment, options)
    }

    /// Starts a server with these options, waits until it accepts connections, and not until it is ready.
    pub fn start_loading(options: &[&str]) -> Self {
        Self::start_until("Server initialized", env!("CARGO_BIN_EXE_broadloom"), &[], &[], options)
    }

    /// Starts a server from a program of this name.
    pub fn start_program(program: &str, environment: &[(&str, &str)], options: &[&str]) -> Self {
        Self::start_until("Ready to accept connections", program, &[], environment, options)
    }

    /// Starts a server with a configuration file.
    pub fn start_from(file: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_broadloom");
        Self::start_until("Ready to accept connections", program, &[file], &[], &[])
    }

    fn start_until(
        awaited: &'static str,
        program: &str,
        first: &[&str],
        environment: &[(&str, &str)],
        options: &[&str],
    ) -> Self {
        // So that a test has its connections on several threads without load. Redis does not know the directive.
        let is_ours = program == env!("CARGO_BIN_EXE_broadloom");
        let spread: &[&str] = if is_ours { &["--io-threads-always-active", "yes"] } else { &[] };
        // Another process may take the port in the meantime: then another one is tried.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let directory = directory::Directory::new(&format!("server-{port}"));
            let mut child = Command::new(program)
                .current_dir(&directory.0)
                .args(first)
                .args(["--bind", "127.0.0.1", "--save", "", "--loglevel", "verbose", "--port"])
                .arg(port.to_string())
                .args(spread)
                .args(options)
                .envs(environment.iter().copied())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let seen = std::sync::Arc::clone(&log);
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    let is_ready = line.contains(awaited);
                    seen.lock().unwrap().push(line);
                    if is_ready {
                        // The receiver no longer exists from the second such line on.
                        let _ = sender.send(());
                    }
                }
            });
            if receiver.recv_timeout(PATIENCE).is_ok() {
                return Self { child, port, log, _directory: directory };
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("no server starts");
    }

    /// Six connections, each of which has received a reply. New ones go to the thread with the fewest: with two
    /// threads, every second one is on the same thread.
    pub fn six_clients(&self) -> Vec<Client> {
        let greeted = || {
            let mut client = self.client();
            assert_eq!(client.text(&["PING"]), "PONG");
            client
        };
        (0..6).map(|_| greeted()).collect()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }

    /// The first line of the log that contains this text; waits for it.
    pub fn log_line(&self, text: &str) -> String {
        let find = || self.log.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
        wait_for(find)
    }

    /// Whether the log contains this text by now.
    pub fn has_logged(&self, text: &str) -> bool {
        self.count_logged(text) > 0
    }

    /// How many lines of the log contain this text by now.
    pub fn count_logged(&self, text: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    /// The value of a field of `INFO`.
    pub fn info(&self, client: &mut Client, field: &str) -> String {
        info_field(client, "everything", field)
    }

    /// CPU time that the server has used.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The names of its threads, with the field of this number in their `/proc/PID/task/TID/stat` (see proc(5)).
    pub fn thread_fields(&self, number: usize) -> Vec<(String, i64)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // A thread may end in the meantime.
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
        let field = |stat: String| {
            let (head, fields) = stat.rsplit_once(')').unwrap();
            let value = fields.split_ascii_whitespace().nth(number - 3).unwrap().parse().unwrap();
            (head.split_once('(').unwrap().1.to_owned(), value)
        };
        stats.map(field).collect()
    }

    /// The kernel's numbers of the scheduling policies of its workers, ascending.
    pub fn scheduling_policies(&self) -> Vec<i64> {
        const POLICY: usize = 41;
        let all = self.thread_fields(POLICY).into_iter();
        let mut policies: Vec<_> =
            all.filter(|(name, _)| name.starts_with("broadloom-io-")).map(|(_, policy)| policy).collect();
        policies.sort_unstable();
        policies
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the process to end. Returns whether it succeeded.
    pub fn wait(&mut self) -> bool {
        wait_for(|| self.child.try_wait().unwrap()).success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until there is a result.
pub fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = poll() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "the wait timed out");
        std::thread::yield_now();
        let (_keep, nothing) = std::sync::mpsc::channel::<()>();
        // Times out: the sender is kept.
        let _ = nothing.recv_timeout(Duration::from_millis(5));
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The bytes of a request.
pub fn request(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text
}

/// A field of `INFO replication`.
pub fn replication_field(client: &mut Client, name: &str) -> String {
    info_field(client, "replication", name)
}

/// A field of a section of `INFO`.
pub fn info_field(client: &mut Client, section: &str, name: &str) -> String {
    let text = client.text(&["INFO", section]);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no field {name} in {text}")).to_owned()
}

/// Waits until a field of `INFO replication` has a value.
pub fn wait_for_replication_field(client: &mut Client, name: &str, value: &str) {
    wait_for(|| (replication_field(client, name) == value).then_some(()));
}

/// A connection with one request at a time.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(port: u16) -> Self {
        Self::connect_to("127.0.0.1", port)
    }

    pub fn connect_to(address: &str, port: u16) -> Self {
        let stream = TcpStream::connect((address, port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// The connection, on which a test then plays a replica.
    pub fn into_peer(self) -> peer::Peer {
        peer::Peer(self.stream)
    }

    /// Sends a request.
    pub fn send(&mut self, words: &[&str]) {
        self.send_raw(request(words).as_bytes());
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a request, if the server has not closed the connection.
    pub fn send_raw_if_open(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Closes the sending direction.
    pub fn shut_down_writing(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// The next reply; `None`: the server has closed the connection.
    pub fn receive(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, size)) = Reply::parse(&self.buffer).unwrap() {
                self.buffer.drain(..size);
                return Some(reply);
            }
            let mut chunk = [0; 65_536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(size) => self.buffer.extend_from_slice(&chunk[..size]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Reads for this long, and expects no data.
    pub fn expect_no_data(&mut self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let error = self.stream.read(&mut [0]).unwrap_err();
        assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Sends a request and returns its reply as text, integers in decimal.
    pub fn text(&mut self, words: &[&str]) -> String {
        self.send(words);
        let reply = self.receive().expect("the server stays");
        shown(&reply)
    }

    /// Sends a request and returns the bytes of its reply.
    pub fn bytes(&mut self, words: &[&str]) -> Vec<u8> {
        self.send(words);
        let reply = self.receive().expect("the server stays");
        reply.text().unwrap().to_vec()
    }

    /// Sets the number of threads, and waits until exactly these serve.
    pub fn set_thread_count(&mut self, count: usize) {
        assert_eq!(self.text(&["CONFIG", "SET", "io-threads", &count.to_string()]), "OK");
        wait_for(|| {
            let threads = self.text(&["INFO", "threads"]);
            (threads.matches("io_thread_").count() == count).then_some(())
        });
    }
}

/// A reply as text: a line for each element.
pub fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Integer(number) => number.to_string(),
        Reply::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join("\n"),
        other => other.text().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default(),
    }
}

/// The output of the binary run with these arguments and this input, and whether it succeeded.
pub fn run(arguments: &[&str], input: &str) -> (String, bool) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_broadloom"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that does not read it has ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.success())
}
