//! The command line, compared with the interpretation by `redis-server` 7.

use config::{CommandLine, Invocation, UsageError};

fn parse(arguments: &[&str]) -> Result<Invocation, UsageError> {
    CommandLine::parse(arguments.iter().map(Into::into))
}

fn serve(arguments: &[&str]) -> CommandLine {
    match parse(arguments) {
        Ok(Invocation::Serve(line)) => line,
        other => panic!("{arguments:?} gives {other:?}"),
    }
}

fn check_options(arguments: &[&str], expected: &str) {
    let line = serve(arguments);
    assert_eq!(String::from_utf8_lossy(&line.options), expected, "{arguments:?}");
    assert_eq!((line.config_path, line.reads_stdin), (None, false), "{arguments:?}");
}

#[test]
fn options_become_lines() {
    check_options(&[], "");
    check_options(&["--port", "6380"], "port \"6380\" ");
    check_options(&["--port 6380"], "port 6380 ");
    check_options(
        &["--port", "6380", "--bind", "127.0.0.1", "-::1"],
        "port \"6380\" \nbind \"127.0.0.1\" \"-::1\" ",
    );
    check_options(&["--save", "60 1", "--dir", "a b"], "save \"60 1\" \ndir \"a b\" ");
    check_options(&["--port 6380", "--timeout", "1"], "port 6380 \ntimeout \"1\" ");
}

#[test]
fn a_value_may_start_with_dashes() {
    check_options(&["--requirepass", "--x", "--port", "1"], "requirepass \"--x\" \nport \"1\" ");
}

#[test]
fn save_without_a_value_is_empty() {
    check_options(&["--save"], "save \"\"");
    check_options(&["--save", "--port", "1"], "save \"\"\nport \"1\" ");
    check_options(&["--save", "", "--port", "1"], "save \"\" \nport \"1\" ");
}

#[test]
fn file_and_standard_input() {
    let line = serve(&["a.conf", "--port", "1"]);
    assert_eq!(line.config_path.as_deref(), Some("a.conf"));
    assert!(!line.reads_stdin);
    for arguments in [&["-"][..], &["-", "--port", "1"], &["--port", "1", "-"], &["a.conf", "-"]] {
        assert!(serve(arguments).reads_stdin, "{arguments:?}");
    }
    let line = serve(&["--requirepass", "-", "--port", "1"]);
    assert!(!line.reads_stdin);
    assert_eq!(line.options, b"requirepass \"-\" \nport \"1\" ");
}

#[test]
fn informational_and_unsupported_options() {
    assert_eq!(parse(&["-v"]), Ok(Invocation::Version));
    assert_eq!(parse(&["--version"]), Ok(Invocation::Version));
    assert_eq!(parse(&["-h"]), Ok(Invocation::Help));
    assert_eq!(parse(&["--help"]), Ok(Invocation::Help));
    assert_eq!(parse(&["a.conf", "--sentinel"]), Err(UsageError::Unsupported("--sentinel".into())));
    assert_eq!(parse(&["--test-memory", "5"]), Err(UsageError::Unsupported("--test-memory".into())));
    let line = serve(&["a.conf", "--check-config", "--port", "1"]);
    assert!(line.only_checks);
    assert_eq!(line.options, b"port \"1\" ");
    let line = serve(&["--check-config", "a.conf", "--port", "1"]);
    assert!(line.only_checks);
    assert_eq!((line.config_path.as_deref(), &line.options[..]), (Some("a.conf"), &b"port \"1\" "[..]));
}
