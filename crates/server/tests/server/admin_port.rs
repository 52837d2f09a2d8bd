//! The admin port: metrics, figures and states over HTTP, its protection, and clients that misbehave.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};

use crate::certificates::{Authority, Files};
use crate::support::{PATIENCE, Server, free_port, run, wait_for};

/// Starts a server with an admin port.
fn start(options: &[&str]) -> (Server, u16) {
    let port = free_port();
    let number = port.to_string();
    let mut all = vec!["--admin-port", number.as_str(), "--admin-bind", "127.0.0.1"];
    all.extend_from_slice(options);
    (Server::start(&all), port)
}

/// A reply over HTTP.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

fn exchange(mut stream: impl Read + Write, path: &str, headers: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // The end of a TLS connection may be reported as an error.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status").parse().unwrap();
    Response { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn get(port: u16, path: &str) -> Response {
    exchange(connect(port), path, "")
}

/// The samples of a text, each with its labels.
fn samples(text: &str) -> HashMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parts = lines.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}")));
    parts.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

#[test]
fn metrics_show_what_clients_did() {
    let (server, port) = start(&["--io-threads", "2"]);
    let mut client = server.client();
    for number in 0..7 {
        client.text(&["SET", &format!("key{number}"), "value"]);
    }
    client.text(&["GET", "key0"]);
    client.text(&["GET", "absent"]);
    client.text(&["NOSUCHCOMMAND"]);
    client.text(&["SELECT", "3"]);
    client.text(&["SET", "other", "value", "EX", "1000"]);
    let response = get(port, "/metrics");
    assert_eq!(response.status, 200);
    assert!(response.head.contains("content-type: text/plain; version=0.0.4"), "{}", response.head);
    let samples = samples(&response.body);
    for (name, value) in [
        ("broadloom_cmdstat_calls_total{command=\"set\"}", 8.0),
        ("broadloom_db_keys{database=\"0\"}", 7.0),
        ("broadloom_db_expires{database=\"3\"}", 1.0),
        ("broadloom_keyspace_hits_total", 1.0),
        ("broadloom_keyspace_misses_total", 1.0),
        ("broadloom_errorstat_total{error=\"ERR\"}", 1.0),
        ("broadloom_connected_clients", 1.0),
        ("broadloom_rdb_last_bgsave_status", 1.0),
        ("broadloom_command_duration_seconds_count{command=\"set\"}", 8.0),
        ("broadloom_command_duration_seconds_bucket{command=\"set\",le=\"+Inf\"}", 8.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}");
    }
    let of_workers = |name: &str| -> f64 {
        let workers =
            ["0", "1"].map(|worker| samples[&format!("broadloom_worker_{name}{{worker=\"{worker}\"}}")]);
        workers.iter().sum()
    };
    assert_eq!(of_workers("commands_total"), samples["broadloom_commands_processed_total"]);
    assert!(samples["broadloom_used_memory_bytes"] > 10_000.0);
    let information = samples.keys().find(|name| name.starts_with("broadloom_server_info{")).unwrap();
    assert!(
        information.contains("broadloom_version=\"") && information.contains("run_id=\""),
        "{information}"
    );
}

/// Prometheus refuses a text with a family in two places, a doubled sample, or buckets that decrease.
#[test]
fn the_text_of_metrics_is_well_formed_in_both_formats() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    client.text(&["SET", "key", "value"]);
    client.text(&["EVAL", "return redis.error_reply('W\"ORD\\\\ with quotes')", "0"]);
    for (accept, is_open_metrics) in
        [("*/*", false), ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", true)]
    {
        let response = exchange(connect(port), "/metrics", &format!("Accept: {accept}\r\n"));
        assert_eq!(response.head.contains("content-type: application/openmetrics-text"), is_open_metrics);
        assert_eq!(response.body.ends_with("\n# EOF\n"), is_open_metrics);
        let (mut families, mut seen) = (HashSet::new(), HashSet::new());
        let (mut family, mut kind, mut last_bucket) = ("", "", 0.0);
        for line in response.body.lines().filter(|line| *line != "# EOF") {
            if let Some(heading) = line.strip_prefix("# HELP ") {
                let (name, help) = heading.split_once(' ').unwrap();
                assert!(families.insert(name) && help.ends_with('.'), "{line}");
                family = name;
            } else if let Some(heading) = line.strip_prefix("# TYPE ") {
                let (name, its_kind) = heading.split_once(' ').unwrap();
                assert_eq!(name, family);
                kind = its_kind;
            } else {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                assert!(seen.insert(sample.to_owned()), "{line} is there twice");
                let name = sample.split('{').next().unwrap();
                let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
                let expected: &[&str] = match (kind, is_open_metrics) {
                    ("histogram", _) => &["_bucket", "_sum", "_count"],
                    ("counter", true) => &["_total"],
                    ("info", true) => &["_info"],
                    _ => &[""],
                };
                assert!(expected.contains(&suffix), "{line} of {kind}");
                let value: f64 = value.parse().unwrap();
                if suffix == "_bucket" {
                    assert!(sample.contains("le=\"0.000001024\"") || value >= last_bucket, "{line}");
                    last_bucket = value;
                }
            }
        }
        assert!(families.len() > 100, "{}", families.len());
    }
}

#[test]
fn figures_as_json() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    client.text(&["SET", "key", "value"]);
    let response = get(port, "/api/figures");
    assert!(response.head.contains("content-type: application/json"), "{}", response.head);
    let figures: serde_json::Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(figures["keyspace"]["db"]["0"]["keys"], 1);
    assert_eq!(figures["commandstats"]["cmdstat"]["set"]["calls"], 1);
    assert_eq!(figures["replication"]["role"], "master");
    assert!(figures["workers"]["worker"]["0"]["commands"].as_u64() >= Some(1));
}

#[test]
fn the_dashboard_receives_samples() {
    let (server, port) = start(&[]);
    let page = get(port, "/");
    assert!(page.status == 200 && page.body.contains("dashboard.js"), "{page:?}");
    assert!(page.head.contains("content-security-policy: default-src 'self'"), "{}", page.head);
    let history: serde_json::Value = serde_json::from_str(&get(port, "/api/history").body).unwrap();
    let series = history["series"].as_array().unwrap();
    let commands = series.iter().position(|name| name == "commands").expect("a series of commands");
    let mut events = connect(port);
    events.write_all(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut client = server.client();
    (0..10).for_each(|_| drop(client.text(&["PING"])));
    let mut text = String::new();
    let sample = loop {
        let mut bytes = [0; 4096];
        let size = events.read(&mut bytes).unwrap();
        assert!(size > 0, "the events end: {text}");
        text.push_str(std::str::from_utf8(&bytes[..size]).unwrap());
        let newest = text.rsplit("data: ").next().and_then(|event| event.split_once("\n\n"));
        let sample = newest.and_then(|(json, _)| serde_json::from_str::<serde_json::Value>(json).ok());
        if let Some(sample) = sample.filter(|sample| sample[1][commands].as_u64() >= Some(10)) {
            break sample;
        }
    };
    assert_eq!(sample[1].as_array().map(Vec::len), Some(series.len()));
}

#[test]
fn a_replica_has_its_address_as_labels() {
    let (primary, port) = start(&[]);
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", primary.port)]);
    let metrics = wait_for(|| {
        Some(samples(&get(port, "/metrics").body))
            .filter(|metrics| metrics["broadloom_connected_slaves"] == 1.0)
    });
    let of_replica = format!("replica=\"0\",ip=\"127.0.0.1\",port=\"{}\"", replica.port);
    assert!(
        metrics
            .keys()
            .any(|name| name.starts_with("broadloom_slave_lag_seconds{") && name.contains(&of_replica))
    );
    assert!(
        metrics.keys().any(|name| name.starts_with("broadloom_slave_info{") && name.contains("state=\""))
    );
    // Nothing was measured yet.
    assert!(!metrics.contains_key("broadloom_aof_last_rewrite_time_seconds"));
}

#[test]
fn states_show_a_lost_primary() {
    let (server, port) = start(&[]);
    assert_eq!((get(port, "/healthz").status, get(port, "/readyz").status), (200, 200));
    let mut client = server.client();
    let nobody = free_port().to_string();
    client.text(&["REPLICAOF", "127.0.0.1", &nobody]);
    let state = wait_for(|| Some(get(port, "/readyz")).filter(|state| state.status == 503));
    assert!(
        state.body.contains(&format!("the link to the primary is down: 127.0.0.1:{nobody}")),
        "{}",
        state.body
    );
    assert_eq!(get(port, "/healthz").status, 200);
    client.text(&["REPLICAOF", "NO", "ONE"]);
    wait_for(|| (get(port, "/readyz").status == 200).then_some(()));
}

#[test]
fn a_password_is_required_and_can_be_changed() {
    let (server, port) = start(&["--admin-password", "first"]);
    let mut client = server.client();
    // `any:first` and `any:second`
    let (first, second) =
        ("Authorization: Basic YW55OmZpcnN0\r\n", "Authorization: Basic YW55OnNlY29uZA==\r\n");
    let with = |headers: &str| exchange(connect(port), "/metrics", headers).status;
    assert_eq!((with(""), with(first), with(second)), (401, 200, 401));
    assert_eq!(client.text(&["CONFIG", "SET", "admin-password", "second"]), "OK");
    assert_eq!((with(first), with(second)), (401, 200));
    assert_eq!((get(port, "/healthz").status, get(port, "/readyz").status), (200, 200));
}

#[test]
fn other_machines_need_a_password() {
    let port = free_port().to_string();
    let exposed = ["--admin-port", &port, "--admin-bind", "0.0.0.0", "--port", "0"];
    let (output, is_fine) = run(&exposed, "");
    assert!(!is_fine && output.contains("Set admin-password"), "{output}");
    let (server, _) = start(&["--admin-bind", "0.0.0.0", "--admin-password", "secret"]);
    let mut client = server.client();
    let refusal = client.text(&["CONFIG", "SET", "admin-password", ""]);
    assert!(refusal.contains("Set admin-password"), "{refusal}");
    assert_eq!(client.text(&["CONFIG", "GET", "admin-password"]), "admin-password\nsecret");
}

/// Both protections are exchanged for each other in one step only.
#[test]
fn one_protection_is_always_left() {
    let authority = Authority::new("authority");
    let files = Files::new("admin-protection", &authority);
    let (certificate, key, ca) = (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
    let tls = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let (server, _) = start(&[&tls[..], &["--admin-tls", "yes", "--admin-bind", "0.0.0.0"]].concat());
    let mut client = server.client();
    let mut set = |pairs: &[&str]| client.text(&[&["CONFIG", "SET"], pairs].concat());
    assert!(
        set(&["tls-auth-clients", "no"])
            .contains("CONFIG SET failed (possibly related to argument 'tls-auth-clients')")
    );
    assert_eq!(set(&["tls-auth-clients", "no", "admin-password", "secret"]), "OK");
    assert!(set(&["admin-password", ""]).contains("(possibly related to argument 'admin-password')"));
    assert_eq!(set(&["admin-password", "", "tls-auth-clients", "yes"]), "OK");
    // The certificates stay those of the admin port.
    assert_eq!(set(&["tls-port", "0"]), "OK");
}

#[test]
fn an_encrypted_port_checks_certificates() {
    let authority = Authority::new("authority");
    let files = Files::new("admin-port", &authority);
    let (certificate, key, ca) = (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
    let tls = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let (_server, port) = start(&[&tls[..], &["--admin-tls", "yes"]].concat());
    let connect_as = |own: Option<&_>| {
        let name = "localhost".try_into().unwrap();
        StreamOwned::new(ClientConnection::new(authority.client(own), name).unwrap(), connect(port))
    };
    let own = authority.issue("prometheus", &[]);
    assert_eq!(exchange(connect_as(Some(&own)), "/readyz", "").status, 200);
    let mut unauthenticated = connect_as(None);
    let mut bytes = Vec::new();
    let _ = stream_request(&mut unauthenticated);
    assert!(unauthenticated.read_to_end(&mut bytes).is_err() && bytes.is_empty(), "{bytes:?}");
}

fn stream_request(stream: &mut impl Write) -> std::io::Result<()> {
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn hostile_clients_cost_nothing_else() {
    let (server, port) = start(&[]);
    let mut garbage = connect(port);
    garbage
        .write_all(&[0xFF; 100_000])
        .or_else(|error| {
            // The server may have closed the connection meanwhile.
            let is_closed =
                matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe);
            if is_closed { Ok(()) } else { Err(error) }
        })
        .unwrap();
    let mut bytes = Vec::new();
    let _ = garbage.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP/1.1 200"), "{bytes:?}");
    let long = format!("/{}", "x".repeat(100_000));
    assert!(matches!(get_status_or_closed(port, &long), None | Some(400..=499)));
    let mut posted = connect(port);
    posted
        .write_all(
            b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000000\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut bytes = Vec::new();
    let _ = posted.read_to_end(&mut bytes);
    assert!(bytes.starts_with(b"HTTP/1.1 405"), "{}", String::from_utf8_lossy(&bytes));
    // Connections without a request leave places for others.
    let _idle: Vec<TcpStream> = (0..200).map(|_| connect(port)).collect();
    assert_eq!((get(port, "/healthz").status, get(port, "/metrics").status), (200, 200));
    assert_eq!(server.client().text(&["PING"]), "PONG");
}

/// The status of a reply; `None`: the connection was closed without one.
fn get_status_or_closed(port: u16, path: &str) -> Option<u16> {
    let mut stream = connect(port);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).split(' ').nth(1)?.parse().ok()
}
