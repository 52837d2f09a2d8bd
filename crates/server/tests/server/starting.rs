//! How the server starts: under a supervisor, with a unix socket, with another log format, and not at all where
//! its configuration requires an unsupported feature.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

use crate::support::directory::Directory;
use crate::support::{PATIENCE, Server, run, wait_for};

#[test]
fn systemd_is_notified_of_start_and_end() {
    let directory = Directory::new("systemd");
    let path = directory.path("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let next_notice = || {
        let mut bytes = [0; 256];
        let size = systemd.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..size].to_vec()).unwrap()
    };
    let mut server = Server::start_in(&[("NOTIFY_SOCKET", &path)], &["--supervised", "auto"]);
    assert!(next_notice().starts_with("STATUS="));
    assert!(next_notice().ends_with("READY=1\n"));
    assert_eq!(server.info(&mut server.client(), "process_supervised"), "systemd");
    server.signal("TERM");
    assert_eq!(next_notice(), "STOPPING=1\n");
    assert!(server.wait());
}

#[test]
fn the_unix_socket_has_its_permissions_and_its_group() {
    let directory = Directory::new("unix");
    let path = directory.path("socket");
    let group = std::fs::metadata(&directory.0).unwrap().gid().to_string();
    let options = ["--unixsocket", &path, "--unixsocketperm", "750", "--unixsocketgroup", &group];
    let server = Server::start(&options);
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o750);
    assert_eq!(metadata.gid().to_string(), group);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    drop(server);

    let options = ["--port", "0", "--unixsocket", &path, "--unixsocketgroup", "no such group"];
    let (text, succeeded) = run(&options, "");
    assert!(!succeeded && text.contains("no such group"), "{text}");

    let too_long = directory.path(&"s".repeat(108));
    let (text, succeeded) = run(&["--port", "0", "--unixsocket", &too_long], "");
    let is_named = text.contains("Failed opening Unix socket: bind: ") && text.contains(&too_long);
    assert!(!succeeded && is_named && !text.contains("Failed listening on port"), "{text}");
}

#[test]
fn the_log_can_be_json() {
    let server = Server::start(&[
        "--log-format",
        "json",
        "--log-timestamp-format",
        "milliseconds",
        "--enable-debug-command",
        "yes",
    ]);
    let mut client = server.client();
    assert_eq!(client.text(&["DEBUG", "LOG", "a \"b\"\t"]), "OK");
    let line = server.log_line("DEBUG LOG");
    assert!(line.ends_with(r#""level":"warning","message":"DEBUG LOG: a \"b\"\t"}"#), "{line}");
    assert_eq!(
        client.text(&["CONFIG", "SET", "log-format", "legacy", "log-timestamp-format", "iso8601"]),
        "OK"
    );
    assert_eq!(client.text(&["DEBUG", "LOG", "plain"]), "OK");
    assert!(server.log_line("plain").contains(" # DEBUG LOG: plain"));
}

#[test]
fn unsupported_directives_refuse_to_start() {
    for (input, words) in [
        ("user alice on >pw ~* +@all nonsense\n", "Error in user declaration 'nonsense': Syntax error"),
        ("aclfile users.acl\nuser alice on >pw\n", "define either an ACL file or declare users"),
        ("port 0\n\ncluster-enabled yes\n", "at line 3\n>>> 'cluster-enabled yes'"),
        ("cluster-enabled yes\n", "'cluster-enabled yes' is not supported"),
        ("loadmodule /x.so\n", "'/x.so' can't be loaded"),
    ] {
        let (text, succeeded) = run(&["-", "--check-config"], input);
        assert!(!succeeded && text.contains(words), "{text}");
        assert!(!text.contains(">pw"), "{text}");
    }
    for input in ["user alice on >pw ~app:* &* +@all -flushall\n", "replicaof 127.0.0.1 6379\n"] {
        let (text, succeeded) = run(&["-", "--check-config"], input);
        assert!(succeeded, "{text}");
    }
}

/// Lines as in guides for hardening, images and charts: they name commands that do not exist here.
#[test]
fn hardened_configurations_are_accepted() {
    let names = "CONFIG DEBUG SHUTDOWN FLUSHALL KEYS SLAVEOF REPLICAOF FAILOVER SYNC PSYNC REPLCONF CLUSTER MIGRATE MODULE \
         BGREWRITEAOF SENTINEL HOTKEYS STRALGO JSON.SET";
    let renames: String =
        names.split_whitespace().map(|name| format!("rename-command {name} \"\"\n")).collect();
    let users = "user default off\n\
         user app on >pw ~app:* &* +@all -@dangerous -@admin -acl -replicaof -slaveof -failover -psync -sync -replconf\n\
         user replica on >pw +psync +replconf +ping\n\
         user sentinel on >pw allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info \
         +client|setname +client|kill +script|kill\n\
         user search on >pw ~* +@read -@search -ft.search -vadd +cluster|failover -cluster|migration -client|no-touch\n";
    let (text, succeeded) = run(&["-", "--check-config"], &format!("{renames}{users}"));
    assert!(succeeded, "{text}");
    for (line, words) in [
        ("rename-command PSYNCC \"\"\n", "No such command in rename-command"),
        ("rename-command psync x\nrename-command sync x\n", "Target command name already exists"),
        ("user alice on +psyncc\n", "Unknown command or category name in ACL"),
    ] {
        let (text, succeeded) = run(&["-", "--check-config"], line);
        assert!(!succeeded && text.contains(words), "{text}");
    }
}

#[test]
fn errors_name_the_text_that_they_are_in() {
    for (options, input, place) in [
        (&["--prot", "1"][..], "", "Reading the options of the command line\n>>> 'prot"),
        (&["-", "--port", "x"], "hz 10\n", "Reading the options of the command line\n>>> 'port"),
        (&["-"], "\nport x\n", "Reading standard input, at line 2\n>>> 'port x'"),
    ] {
        let (text, succeeded) = run(options, input);
        assert!(!succeeded && text.contains(place), "{text}");
    }
}

#[test]
fn an_error_that_nobody_can_read_is_no_panic() {
    for arguments in [&["--maxmemory", "much"][..], &["--logfile", "/", "--port", "0"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_broadloom"));
        let status = command.args(arguments).stderr(full).stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn an_unread_log_pipe_does_not_block_the_server() {
    let directory = Directory::new("unread");
    let path = directory.path("socket");
    let mut child = Command::new(env!("CARGO_BIN_EXE_broadloom"))
        .args(["--port", "0", "--unixsocket", &path, "--enable-debug-command", "yes", "--save", ""])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut client = wait_for(|| UnixStream::connect(&path).ok());
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    // Together more than the capacity of a pipe.
    let request = format!("*3\r\n$5\r\nDEBUG\r\n$3\r\nLOG\r\n$60000\r\n{}\r\n", "x".repeat(60_000));
    for _ in 0..10 {
        client.write_all(request.as_bytes()).unwrap();
        let mut reply = [0; 5];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
    }
    let pipe = child.stdout.take();
    child.kill().unwrap();
    child.wait().unwrap();
    drop(pipe);
}

#[test]
fn select_reaches_every_database() {
    let server = Server::start(&["--databases", "65536"]);
    let mut client = server.client();
    assert_eq!(client.text(&["SELECT", "65535"]), "OK");
    assert_eq!(client.text(&["SET", "key", "value"]), "OK");
    assert!(server.info(&mut client, "db65535").starts_with("keys=1,"));
    // Counters exist for running threads only.
    let used: u64 = server.info(&mut client, "used_memory").parse().unwrap();
    assert!(used < 64 << 20, "{used}");
    let (text, succeeded) = run(&["--databases", "65537"], "");
    assert!(!succeeded && text.contains("between 1 and 65536"), "{text}");
}

#[test]
fn the_title_may_be_longer_than_the_arguments() {
    let words = "long ".repeat(100);
    let template = format!("{words} {{port}}");
    let server = Server::start_in(&[("KEPT", "value"), ("ROOM", &"r".repeat(1000))], &[]);
    let mut client = server.client();
    assert_eq!(client.text(&["CONFIG", "SET", "proc-title-template", &template]), "OK");
    let path = format!("/proc/{}/cmdline", server.info(&mut client, "process_id"));
    let title = std::fs::read_to_string(path).unwrap();
    assert_eq!(title.trim_end_matches('\0'), format!("{words} {}", server.port));
}

#[test]
fn the_mode_field_matches_the_emulated_product() {
    let directory = Directory::new("mode");
    let path = directory.path("valkey-server");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_broadloom"), &path).unwrap();
    for (program, as_redis, shown) in [
        (env!("CARGO_BIN_EXE_broadloom"), "no", vec!["redis_mode:standalone", "server_mode:standalone"]),
        (&path, "no", vec!["server_mode:standalone"]),
        (&path, "yes", vec!["redis_mode:standalone"]),
    ] {
        let server = Server::start_program(program, &[], &["--extended-redis-compatibility", as_redis]);
        let text = server.client().text(&["INFO", "server"]);
        let modes: Vec<&str> = text.lines().filter(|line| line.contains("_mode:")).collect();
        assert_eq!(modes, shown);
    }
}

#[test]
fn a_relative_log_file_is_in_the_directory_of_the_server() {
    let directory = Directory::new("log-file");
    let server = Directory::new("log-file-server");
    let log = format!("logfile log\ndir {}\nport 0\nunixsocket /no/such/folder/socket\n", server.0.display());
    directory.write("server.conf", log);
    let output = Command::new(env!("CARGO_BIN_EXE_broadloom"))
        .current_dir(&directory.0)
        .arg("server.conf")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = std::fs::read_to_string(server.path("log")).unwrap();
    assert!(text.contains("/no/such/folder/socket"), "{text}");
    assert!(!directory.0.join("log").exists());
}

#[test]
fn unsupported_program_modes_are_refused() {
    let (text, succeeded) = run(&["--sentinel"], "");
    assert!(!succeeded && text.contains("--sentinel is not supported"), "{text}");
    let (text, succeeded) = run(&["--logfile", "/no/such/folder/x.log"], "");
    assert!(!succeeded && text.contains("'/no/such/folder/x.log'"), "{text}");
    let (text, succeeded) = run(&["--test-memory", "10"], "");
    assert!(!succeeded && text.contains("--test-memory is not supported"), "{text}");
    let (text, _) = run(&["--check-system"], "");
    assert!(text.contains("[open-files]...") && text.contains("[io-uring]..."), "{text}");
    let (text, succeeded) = run(&["--version"], "");
    assert!(succeeded && text.starts_with("Broadloom server v="), "{text}");

    let directory = Directory::new("names");
    for (name, words) in [
        ("valkey-server", "Valkey server v="),
        ("redis-server", "Redis server v="),
        ("redis-sentinel", "is not supported"),
    ] {
        let path = directory.path(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_broadloom"), &path).unwrap();
        let output = Command::new(&path).arg("--version").output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn append_only_files_are_checked_and_repaired() {
    let directory = Directory::new("check-aof");
    let file = directory.path("appendonly.aof");
    let whole = "*1\r\n$4\r\nPING\r\n";
    std::fs::write(&file, format!("{whole}*1\r\n")).unwrap();
    let (text, succeeded) = run(&["check-aof", &file], "");
    assert!(!succeeded && text.contains("is not valid"), "{text}");
    let (text, succeeded) = run(&["check-aof", "--fix", &file], "n\n");
    assert!(!succeeded && text.contains("Continue? [y/N]: Aborting"), "{text}");
    let (text, succeeded) = run(&["check-aof", "--fix", &file], "y\n");
    assert!(succeeded && text.contains("Successfully truncated AOF"), "{text}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);

    let link = directory.path("redis-check-aof");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_broadloom"), &link).unwrap();
    let output = Command::new(&link).arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("is valid"), "{text}");
    let (text, succeeded) = run(&["check-aof"], "");
    assert!(!succeeded && text.starts_with("Usage: broadloom check-aof"), "{text}");
}

#[test]
fn standard_input_may_include_files_by_pattern() {
    let directory = Directory::new("include");
    std::fs::write(directory.path("a.conf"), "hz 20\nmaxmemory 5mb\n").unwrap();
    std::fs::write(directory.path("b.conf"), "hz 33\n").unwrap();
    let (text, succeeded) =
        run(&["-", "--check-config"], &format!("include {}/*.conf\n", directory.0.display()));
    assert!(succeeded, "{text}");
    std::fs::write(directory.path("c.conf"), "hz many\n").unwrap();
    let (text, succeeded) =
        run(&["-", "--check-config"], &format!("include {}/*.conf\n", directory.0.display()));
    assert!(!succeeded && text.contains("line 1 of") && text.contains("c.conf"), "{text}");
}
