//! Files, includes, repeated lines, and error messages.

use std::collections::BTreeMap;
use std::io;

use config::{
    ClientClass, CommandLine, Config, Files, Id, Invocation, LoadError, Loaded, LogLevel, SavePoint, load,
    load_text,
};

#[derive(Default)]
struct FakeFiles {
    files: BTreeMap<&'static str, &'static str>,
    stdin: &'static str,
}

impl Files for FakeFiles {
    fn read(&mut self, path: &str) -> io::Result<Vec<u8>> {
        self.files.get(path).map(|text| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn matching(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        let is_match = |path: &&&str| base::glob::matches(pattern.as_bytes(), path.as_bytes());
        Ok(self.files.keys().filter(is_match).map(|path| (*path).to_owned()).collect())
    }

    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.into())
    }
}

fn files(files: &[(&'static str, &'static str)]) -> FakeFiles {
    FakeFiles { files: files.iter().copied().collect(), stdin: "" }
}

fn read(text: &str) -> Loaded {
    load_text(text.as_bytes(), &mut FakeFiles::default()).expect("is accepted")
}

fn check_error(text: &str, expected: &str) {
    let error = load_text(text.as_bytes(), &mut FakeFiles::default()).expect_err("is refused").to_string();
    let headline = format!("\n*** FATAL CONFIG FILE ERROR (Broadloom {}) ***\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(error.strip_prefix(&headline), Some(expected));
}

#[test]
fn comments_spaces_quotes_and_case() {
    let config =
        read("# port 1\n\n  PORT   7000 \r\n\tlogfile \"a b\\x41\"\nunixsocket '/tmp/it\\'s'\n").config;
    assert_eq!(config.port, 7000);
    assert_eq!(config.logfile, "a bA");
    assert_eq!(config.unixsocket, "/tmp/it's");
}

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(read("").config, Config::default());
    assert_eq!(read("\n# only a comment").config, Config::default());
}

#[test]
fn later_lines_win_and_lists_may_be_quoted() {
    let config =
        read("timeout 1\ntimeout 2\nbind \"127.0.0.1 -::1\"\nclient-output-buffer-limit normal 1mb 0 0")
            .config;
    assert_eq!(config.timeout, 2);
    assert_eq!(config.bind.0, ["127.0.0.1", "-::1"]);
    assert_eq!(config.client_output_buffer_limit.of(ClientClass::Normal).hard_size, 1 << 20);
    assert_eq!(config.client_output_buffer_limit.of(ClientClass::Pubsub).hard_size, 32 << 20);
}

#[test]
fn save_lines_add_up() {
    let point = |seconds, changes| SavePoint { seconds, changes };
    assert_eq!(read("save 60 1").config.save.0, [point(60, 1)]);
    assert_eq!(read("save 60 1\nsave 10 2 5 3").config.save.0, [point(60, 1), point(10, 2), point(5, 3)]);
    assert_eq!(read("save \"60 1 10 2\"").config.save.0, [point(60, 1), point(10, 2)]);
    assert_eq!(read("save 60 1\nsave \"\"").config.save.0, []);
    assert_eq!(read("save \"\"\nsave 60 1").config.save.0, [point(60, 1)]);
    assert_eq!(read("save").config.save.0, []);
}

#[test]
fn lines_for_other_parts_keep_their_positions() {
    let loaded = read("rename-command FLUSHALL \"\"\nuser alice on >pw ~* +@all\n");
    assert_eq!(
        (loaded.renames[0].from.as_slice(), loaded.renames[0].to.as_slice()),
        (&b"FLUSHALL"[..], &b""[..])
    );
    assert_eq!(loaded.users[0].arguments[0], b"alice");
    assert_eq!(loaded.users[0].place.line, 2);
    let error =
        LoadError::at(loaded.renames[0].place.clone(), "No such command in rename-command").to_string();
    assert!(
        error.ends_with("at line 1\n>>> 'rename-command FLUSHALL \"\"'\nNo such command in rename-command")
    );
}

#[test]
fn includes_with_and_without_patterns() {
    let mut disk = files(&[
        ("a.conf", "port 1\ninclude b.conf\n"),
        ("b.conf", "timeout 2"),
        ("conf.d/1.conf", "maxclients 11"),
        ("conf.d/2.conf", "maxclients 22"),
    ]);
    let text = b"include a.conf\ninclude conf.d/*.conf\ninclude none.d/*.conf\n";
    let config = load_text(text, &mut disk).unwrap().config;
    assert_eq!((config.port, config.timeout, config.maxclients), (1, 2, 22));
}

#[test]
fn includes_are_relative_to_an_earlier_dir() {
    let mut disk = files(&[("/data/a.conf", "port 1"), ("/b.conf", "timeout 2")]);
    let config = load_text(b"dir /data/\ninclude a.conf\ninclude /b.conf", &mut disk).unwrap().config;
    assert_eq!((config.port, config.timeout), (1, 2));
}

#[test]
fn broken_includes() {
    let mut disk = files(&[("self.conf", "include self.conf"), ("bad.conf", "\nport x")]);
    let mut message = |text: &str| load_text(text.as_bytes(), &mut disk).unwrap_err().to_string();
    assert!(message("include none.conf").starts_with("Fatal error, can't open config file 'none.conf': "));
    assert!(
        message("include self.conf")
            .contains("includes are nested too deeply: at most 16 levels are allowed")
    );
    assert!(message("include bad.conf").contains("at line 2 of bad.conf\n>>> 'port x'\n"));
}

#[test]
fn errors_name_the_line_the_reason_and_the_remedy() {
    check_error(
        "timeout 1\nport 70000",
        "Reading the configuration file, at line 2\n>>> 'port 70000'\n\
         argument must be between 0 and 65535 inclusive\n\
         'port' was given '70000'; it takes a whole number from 0 to 65535.",
    );
    check_error(
        "maxmemory-polcy noeviction",
        "Reading the configuration file, at line 1\n>>> 'maxmemory-polcy noeviction'\n\
         Bad directive or wrong number of arguments\nDid you mean 'maxmemory-policy'?",
    );
    check_error(
        "max_memory 1gb",
        "Reading the configuration file, at line 1\n>>> 'max_memory 1gb'\n\
         Bad directive or wrong number of arguments\nDid you mean 'maxmemory'?",
    );
    check_error(
        "gibberish 1",
        "Reading the configuration file, at line 1\n>>> 'gibberish 1'\n\
         Bad directive or wrong number of arguments",
    );
    check_error(
        "port 1 2",
        "Reading the configuration file, at line 1\n>>> 'port 1 2'\nwrong number of arguments\n\
         'port' was given '1 2'; it takes a whole number from 0 to 65535.",
    );
    check_error(
        "appendonly maybe",
        "Reading the configuration file, at line 1\n>>> 'appendonly maybe'\n\
         argument must be 'yes' or 'no'\n'appendonly' was given 'maybe'; it takes yes or no.",
    );
    check_error(
        "logfile \"x",
        "Reading the configuration file, at line 1\n>>> 'logfile \"x'\nUnbalanced quotes in configuration line",
    );
    check_error(
        "include",
        "Reading the configuration file, at line 1\n>>> 'include'\nBad directive or wrong number of arguments",
    );
    check_error(
        "sentinel monitor x",
        "Reading the configuration file, at line 1\n>>> 'sentinel monitor x'\n\
         sentinel directive while not in sentinel mode",
    );
    check_error("cluster-enabled yes\nreplicaof h 1", "replicaof directive not allowed in cluster mode");
}

#[test]
fn unsupported_values_are_refused() {
    check_error(
        "port 1\ncluster-enabled yes\nport 2",
        "Reading the configuration file, at line 2\n>>> 'cluster-enabled yes'\n\
         'cluster-enabled yes' is not supported by this version of Broadloom: there is no cluster mode yet. The server would \
         serve all slots alone instead of joining the cluster.\n\
         The server does not start, because it does not support this value. Remove the line, or set \
         'cluster-enabled' to its default, no.",
    );
    for (line, words) in [
        ("cluster-enabled yes", "'cluster-enabled yes' is not supported"),
        ("loadmodule /x.so a", "'/x.so' can't be loaded"),
    ] {
        let error = load_text(line.as_bytes(), &mut FakeFiles::default()).expect_err(line).to_string();
        assert!(error.contains(words) && error.contains("at line 1\n"), "{error}");
    }
    for text in [
        "cluster-enabled yes\ncluster-enabled no",
        "replicaof no one",
        "replicaof h 1",
        "slaveof h 1",
        "cluster-enabled no",
        "tls-port 0",
        "aclfile \"\"",
        "save 3600 1",
    ] {
        read(text);
    }
}

#[test]
fn errors_redact_secrets() {
    check_error(
        "requirepass hush hush",
        "Reading the configuration file, at line 1\n>>> 'requirepass (redacted)'\nwrong number of arguments\n\
         'requirepass' was given a secret; it takes a text, in quotes if it has spaces.",
    );
}

#[test]
fn inert_directives_are_reported_once() {
    let loaded =
        read("sanitize-dump-payload yes\nport 1\nsave \"\"\nrdbcompression yes\nrepl-mptcp yes\nfoo.bar 1");
    assert_eq!(loaded.inert, [Id::sanitize_dump_payload, Id::repl_mptcp]);
    assert_eq!(
        loaded.inert_notice().unwrap(),
        "These settings are accepted but have no effect: sanitize-dump-payload (every payload is fully verified); \
         repl-mptcp (replication does not need them); foo.bar (there are no modules)"
    );
    assert_eq!(read("port 1\nappendonly no").inert_notice(), None);
}

#[test]
fn obsolete_directives_are_skipped() {
    assert_eq!(read("list-max-ziplist-entries 5\nlua-replicate-commands no").config, Config::default());
}

#[test]
fn file_then_stdin_then_options() {
    let mut disk = files(&[("a.conf", "port 1\ntimeout 1\nmaxclients 1")]);
    disk.stdin = "timeout 2\nmaxclients 2";
    let arguments = ["a.conf", "--maxclients", "3", "-"].map(Into::into);
    let Ok(Invocation::Serve(line)) = CommandLine::parse(arguments) else { panic!("serves") };
    let config = load(&line, &mut disk).unwrap().config;
    assert_eq!((config.port, config.timeout, config.maxclients), (1, 2, 3));
}

#[test]
fn command_line_errors_show_the_resulting_line() {
    for (arguments, line, reason) in [
        (&["--invalid"][..], "invalid", "Bad directive or wrong number of arguments"),
        (&["--port"], "port", "wrong number of arguments"),
        (&["--port", "6380", "--loglevel"], "loglevel", "wrong number of arguments"),
        (&["--port", "6379", "6380"], "port \"6379\" \"6380\"", "wrong number of arguments"),
        (
            &["--port", "--loglevel", "verbose"],
            "port \"--loglevel\" \"verbose\"",
            "wrong number of arguments",
        ),
        (
            &["--port", "--bla", "--loglevel", "verbose"],
            "port \"--bla\"",
            "argument couldn't be parsed into an integer",
        ),
        (&["--loglevel", "--bla"], "loglevel \"--bla\"", "argument(s) must be one of the following: debug,"),
        (
            &["--shutdown-on-sigint"],
            "shutdown-on-sigint",
            "argument(s) must be one of the following: default,",
        ),
        (&["--replicaof", "h", "abc"], "replicaof \"h\" \"abc\"", "Invalid primary port"),
        (&["--replicaof", "--h", "--abc"], "replicaof \"--h\"", "wrong number of arguments"),
    ] {
        let Ok(Invocation::Serve(options)) = CommandLine::parse(arguments.iter().map(Into::into)) else {
            panic!("{arguments:?} serves")
        };
        let error = load(&options, &mut FakeFiles::default()).unwrap_err().to_string();
        assert!(error.contains(&format!(">>> '{line}'\n{reason}")), "{arguments:?}: {error}");
    }
}

#[test]
fn options_without_dashes_and_in_one_argument() {
    let arguments =
        ["a.conf", "loglevel", "verbose", "--maxmemory '700mb'", "--save", "100 100", "--shutdown-on-sigint"];
    let arguments = arguments.into_iter().chain(["nosave", "force", "now"]).map(Into::into);
    let Ok(Invocation::Serve(line)) = CommandLine::parse(arguments) else { panic!("serves") };
    let config = load(&line, &mut files(&[("a.conf", "save 900 1")])).unwrap().config;
    assert_eq!((config.loglevel, config.maxmemory), (LogLevel::Verbose, 700 << 20));
    assert_eq!(config.matching(&[b"save"])[0].1, b"900 1 100 100");
    assert_eq!(config.matching(&[b"shutdown-on-sigint"])[0].1, b"nosave now force");
}
