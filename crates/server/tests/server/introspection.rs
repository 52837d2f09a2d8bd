//! What the server shows of itself and its clients: INFO, CLIENT LIST and MONITOR.

use crate::support::{Client, Server, shown};

/// The lines of a section of INFO that begin with these words.
fn section(client: &mut Client, name: &str, prefix: &str) -> Vec<String> {
    let text = client.text(&["INFO", name]);
    text.lines().filter(|line| line.starts_with(prefix)).map(|line| line.trim_end().to_owned()).collect()
}

/// Each line of `INFO` is a row of `docs/info.md`, in its order; rows that are not always shown are missing here.
#[test]
fn info_shows_the_rows_of_its_page() {
    let page = include_str!("../../../../docs/info.md");
    let mut rows = page.lines().filter_map(|line| match line.strip_prefix("## ") {
        Some(section) => Some(section),
        None => line.strip_prefix("| `")?.split('`').next(),
    });
    let server = Server::start(&["--io-threads", "3"]);
    let mut client = server.client();
    client.text(&["SET", "a", "1"]);
    client.text(&["NOSUCH"]);
    let text = client.text(&["INFO", "everything", "debug", "workers"]);
    // A section without figures is not on the page.
    let lines = text.lines().filter(|line| !line.trim().is_empty() && line.trim() != "# Modules");
    // The lines of adjacent rows with one label alternate.
    let mut group: Vec<&str> = Vec::new();
    let mut missing = Vec::new();
    for line in lines {
        let name = match line.trim().strip_prefix("# ") {
            Some(title) => title.to_lowercase(),
            None => line.split(':').next().unwrap().to_owned(),
        };
        if group.iter().any(|row| is_of_row(&name, row)) {
            continue;
        }
        let before = missing.len();
        let row = rows.by_ref().find(|row| {
            let is_this = is_of_row(&name, row);
            missing.extend((!is_this).then_some(*row));
            is_this
        });
        let row = row
            .unwrap_or_else(|| panic!("{name} is not a row, or not in its place: {:?}", &missing[before..]));
        if !row.contains('{') || missing.len() > before {
            group.clear();
        }
        group.extend(row.contains('{').then_some(row));
    }
    missing.extend(rows);
    missing.retain(|row| !row.contains('{') && !row.starts_with("aof_") && !row.starts_with("loading_"));
    let of_a_replica = |row: &str| {
        let beginnings =
            ["master_host", "master_port", "master_link", "master_last", "master_sync", "slave_", "replica"];
        beginnings.iter().any(|beginning| row.starts_with(beginning))
    };
    missing.retain(|row| !of_a_replica(row));
    assert_eq!(missing, ["shutdown_in_milliseconds", "min_slaves_good_slaves"]);
}

/// Whether a line with this name belongs to a row, whose label is in braces.
fn is_of_row(name: &str, row: &str) -> bool {
    match row.split_once('{').map(|(before, rest)| (before, rest.split_once('}').unwrap().1)) {
        None => name == row,
        Some((before, after)) => {
            let label = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            label.is_some_and(|label| !label.is_empty())
        }
    }
}

#[test]
fn errors_are_counted_by_their_code() {
    let server = Server::start(&["--io-threads", "1"]);
    let (mut admin, mut limited) = (server.client(), server.client());
    admin.text(&["ACL", "SETUSER", "limited", "on", "nopass", "~a*", "+eval", "+get"]);
    limited.text(&["AUTH", "limited", "x"]);
    let mut codes_of = |of_limited: bool, request: &[&str]| {
        admin.text(&["CONFIG", "RESETSTAT"]);
        let client = if of_limited { &mut limited } else { &mut admin };
        client.text(request);
        section(&mut admin, "errorstats", "errorstat_")
    };
    let long = |len: usize| format!("return {{err='{} x'}}", "A".repeat(len));
    for (script, code) in [
        ("return redis.error_reply('MY error')".to_owned(), "MY".to_owned()),
        ("return redis.error_reply('FO:O#x error')".to_owned(), "FO_O_x".to_owned()),
        (long(30), "A".repeat(30)),
        (long(31), "ERR".to_owned()),
    ] {
        let expected = [format!("errorstat_{code}:count=1")];
        assert_eq!(codes_of(false, &["EVAL", &script, "0"]), expected, "{script}");
    }
    // Denials count as such, whatever the code of the reply in a script is.
    for script in ["return redis.pcall('SET', 'a', '1')", "redis.pcall('GET', 'b') return 1"] {
        assert_eq!(codes_of(true, &["EVAL", script, "0"]), ["errorstat_NOPERM:count=1"], "{script}");
    }
}

#[test]
fn resetting_the_statistics_restarts_the_time_of_the_event_loop() {
    let server = Server::start(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let number = |client: &mut Client, field: &str| server.info(client, field).parse::<f64>().unwrap();
    client.text(&["EVAL", "for i = 1, 2000000 do end", "0"]);
    let before = number(&mut client, "eventloop_duration_sum");
    let active = number(&mut client, "used_active_time_main_thread");
    assert!(before > 1000.0, "{before}");
    client.text(&["CONFIG", "RESETSTAT"]);
    assert!(number(&mut client, "eventloop_duration_sum") < before);
    assert!(number(&mut client, "used_active_time_main_thread") >= active);
}

#[test]
fn a_transaction_that_can_only_fail_is_shown_empty() {
    let server = Server::start(&["--io-threads", "1"]);
    let (mut admin, mut client) = (server.client(), server.client());
    let id = client.text(&["CLIENT", "ID"]);
    let mut shows = |part: &str| {
        let line = admin.text(&["CLIENT", "LIST", "ID", &id]);
        assert!(line.contains(part), "{part}: {line}");
    };
    for request in [&["MULTI"][..], &["GET", "a"], &["GET", "b"]] {
        client.text(request);
    }
    shows(" multi=2 ");
    assert!(client.text(&["GET"]).starts_with("ERR wrong number"));
    shows(" multi=0 ");
    shows(" multi-mem=0 ");
    assert_eq!(client.text(&["GET", "c"]), "QUEUED");
    shows(" multi=0 ");
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
    shows(" multi=-1 ");
    for request in [&["WATCH", "k"][..], &["MULTI"], &["GET", "a"]] {
        client.text(request);
    }
    shows(" multi=1 ");
    server.client().text(&["SET", "k", "1"]);
    assert_eq!(client.text(&["GET", "b"]), "QUEUED");
    shows(" flags=xd ");
    shows(" multi=0 ");
}

#[test]
fn the_last_command_is_shown_although_it_was_queued_or_refused() {
    let server = Server::start(&["--io-threads", "1"]);
    let (mut admin, mut client) = (server.client(), server.client());
    let id = client.text(&["CLIENT", "ID"]);
    for (request, shown) in [
        (&["MULTI"][..], "multi"),
        (&["GET", "a"], "get"),
        (&["SET", "a"], "set"),
        (&["NOSUCH", "a"], "NULL"),
        (&["CONFIG", "GET", "port"], "config|get"),
        (&["CONFIG", "NOSUCH"], "NULL"),
        (&["WATCH", "a"], "watch"),
        (&["EXEC"], "exec"),
        (&["GET"], "get"),
        (&["GET", "a"], "get"),
        (&["NOSUCH"], "NULL"),
    ] {
        client.text(request);
        let line = admin.text(&["CLIENT", "LIST", "ID", &id]);
        assert!(line.contains(&format!(" cmd={shown} ")), "{request:?}: {line}");
    }
}

#[test]
fn readonly_is_shown_until_readwrite_or_reset() {
    let server = Server::start(&["--io-threads", "1"]);
    let mut client = server.client();
    for (request, flags) in [
        ("READONLY", " flags=r "),
        ("READWRITE", " flags=N "),
        ("READONLY", " flags=r "),
        ("RESET", " flags=N "),
    ] {
        client.text(&[request]);
        client.text(&["SET", "k", "1"]);
        let line = client.text(&["CLIENT", "INFO"]);
        assert!(line.contains(flags), "{request}: {line}");
    }
}

/// The requests that a monitoring client sees, without time and address, until one with the last argument `stop`.
fn monitored(monitor: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = shown(&monitor.receive().unwrap());
        if line.ends_with("\"stop\"") {
            return lines;
        }
        let (_, rest) = line.split_once('[').unwrap();
        let (db, rest) = rest.split_once(' ').unwrap();
        let (_, request) = rest.split_once("] ").unwrap();
        lines.push(format!("{db} {request}"));
    }
}

#[test]
fn monitor_shows_what_fails_and_the_selected_database() {
    let server = Server::start(&["--io-threads", "1"]);
    let (mut monitor, mut client, mut other) = (server.client(), server.client(), server.client());
    monitor.text(&["MONITOR"]);
    let absent = "x".repeat(40);
    for (request, expected) in [
        (&["EVALSHA", &absent, "0"][..], &[&*format!("0 \"EVALSHA\" \"{absent}\" \"0\"")][..]),
        (&["FCALL", "absent", "0"], &["0 \"FCALL\" \"absent\" \"0\""]),
        // Numbers of keys that are not valid.
        (&["EVAL", "return 1", "2", "k"], &["0 \"EVAL\" \"return 1\" \"2\" \"k\""]),
        (&["EVALSHA", &absent, "-1"], &[&*format!("0 \"EVALSHA\" \"{absent}\" \"-1\"")]),
        (&["EVAL_RO", "return 1", "x"], &["0 \"EVAL_RO\" \"return 1\" \"x\""]),
        (&["FCALL", "absent", "2"], &["0 \"FCALL\" \"absent\" \"2\""]),
        (&["FCALL_RO", "absent", "x"], &["0 \"FCALL_RO\" \"absent\" \"x\""]),
        (&["EVAL", "return (", "0"], &["0 \"EVAL\" \"return (\" \"0\""]),
        (
            &["EVAL", "return redis.call('GET', 'k')", "0"],
            &["0 \"EVAL\" \"return redis.call('GET', 'k')\" \"0\"", "0 \"GET\" \"k\""],
        ),
        (&["SELECT", "3"], &["3 \"SELECT\" \"3\""]),
        (&["SELECT", "99"], &["3 \"SELECT\" \"99\""]),
        (&["GET", "k"], &["3 \"GET\" \"k\""]),
        (&["RESET"], &["0 \"RESET\""]),
    ] {
        client.text(request);
        other.text(&["ECHO", "stop"]);
        assert_eq!(monitored(&mut monitor), expected, "{request:?}");
    }
    for request in [&["MULTI"][..], &["SELECT", "2"], &["EXEC"]] {
        client.text(request);
    }
    other.text(&["ECHO", "stop"]);
    assert_eq!(monitored(&mut monitor), ["0 \"MULTI\"", "2 \"SELECT\" \"2\"", "2 \"EXEC\""]);
}

#[test]
fn a_monitoring_client_may_not_use_the_data() {
    let server = Server::start(&["--io-threads", "1"]);
    let mut monitor = server.client();
    monitor.text(&["MONITOR"]);
    let refusal = "ERR Replica can't interact with the keyspace";
    let mut reply = |request: &[&str]| {
        monitor.send(request);
        loop {
            let line = shown(&monitor.receive().unwrap());
            if !line.contains("] \"") {
                return line;
            }
        }
    };
    for request in [
        &["GET", "k"][..],
        &["SET", "k", "1"],
        &["PUBLISH", "c", "m"],
        &["EVAL", "return 1", "0"],
        &["PFCOUNT", "k"],
    ] {
        assert_eq!(reply(request), refusal, "{request:?}");
    }
    assert_eq!(reply(&["PING"]), "PONG");
    assert_eq!(reply(&["ECHO", "x"]), "x");
    assert_eq!(reply(&["RESET"]), "RESET");
    assert_eq!(reply(&["SET", "k", "1"]), "OK");
}
