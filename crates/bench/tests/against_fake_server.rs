//! The complete benchmark, as a process, against a small fake server in the test, or against its own limit
//! server.

mod support;

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{Behaviour, FakeServer, command, report, samples};

/// The echo server, started by the benchmark like any other program.
fn echo_spec() -> String {
    format!("limit={} --echo --port {{port}} --io-backend epoll", env!("CARGO_BIN_EXE_broadloom-bench"))
}

#[test]
fn fills_each_key_once_and_counts_every_reply() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake={}", server.address);
    let args =
        ["--server", &spec, "--keys", "500", "--requests", "2000", "--connections", "5", "--threads", "2"];
    let (output, report) =
        report(&[&args[..], &["--pipeline", "4", "--rounds", "2", "--warmup", "0"]].concat());
    assert!(output.status.success());
    assert_eq!(server.key_count(), 500);
    assert_eq!(server.command_count("SET"), 500, "the keys are written once for both rounds");
    assert_eq!(server.command_count("GET"), 4_000);
    let samples = samples(&report, "fake");
    assert_eq!(samples.len(), 2);
    for sample in samples {
        assert_eq!(sample["request_count"], 2_000);
        assert_eq!((&sample["error_count"], &sample["null_count"]), (&0.into(), &0.into()));
        assert!(sample["latency"]["p50_ns"].as_u64() > Some(0));
    }
    assert_eq!(report["remarks"].as_array().map(Vec::len), Some(0), "{}", report["remarks"]);
}

#[test]
fn errors_are_reported_and_fail_the_run() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake={}", server.address);
    let args = ["--server", &spec, "--command", "LPUSH {key} {value}", "--requests", "100", "--rounds", "1"];
    let (output, report) = report(&[&args[..], &["--warmup", "0", "--keys", "10"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(samples(&report, "fake")[0]["error_count"], 100);
    let remark = report["remarks"][0].as_str().unwrap();
    assert!(remark.contains("100 error replies") && remark.contains("does not implement LPUSH"), "{remark}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(remark), "the remark is on the terminal too");

    let (output, _) =
        support::report(&[&args[..], &["--warmup", "0", "--keys", "10", "--allow-errors"]].concat());
    assert!(output.status.success());
}

#[test]
fn blocking_requests_use_separate_connections() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake={}", server.address);
    let args =
        ["--server", &spec, "--workload", "queue", "--requests", "200", "--rounds", "1", "--warmup", "0"];
    let (output, report) = report(&[&args[..], &["--allow-errors"]].concat());
    assert!(output.status.success());
    assert_eq!(server.command_count("LPUSH"), 200);
    assert!(server.command_count("BRPOP") >= 150, "each of 150 connections sends at least one request");
    assert!(samples(&report, "fake")[0]["request_count"].as_u64() > Some(200), "both count");
}

#[test]
fn missing_keys_are_reported() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake={}", server.address);
    let args = ["--server", &spec, "--keys", "10", "--requests", "50", "--rounds", "1", "--warmup", "0"];
    // The fill writes other keys than those read.
    let fill = ["--command", "GET other:{key}", "--fill-command", "SET {key} {value}"];
    let (_, report) = report(&[&args[..], &fill].concat());
    assert!(report["remarks"][0].as_str().unwrap().contains("50 null replies"), "{}", report["remarks"]);
}

#[test]
fn open_loop_stall_shows_in_every_delayed_request() {
    let stall = Duration::from_millis(400);
    let behaviour = Behaviour { stall: Some((500, stall)), ..Behaviour::default() };
    let server = FakeServer::start(behaviour);
    let spec = format!("fake={}", server.address);
    let args = ["--server", &spec, "--workload", "ping", "--rate", "1000", "--seconds", "1", "--warmup", "0"];
    let (_, report) = report(&[&args[..], &["--rounds", "1", "--connections", "4"]].concat());
    let sample = &samples(&report, "fake")[0];
    let ns = |name: &str| Duration::from_nanos(sample["latency"][name].as_u64().unwrap());
    // About 400 of 1,000 requests were due during the stall: the slowest percent waited for nearly all of it.
    assert!(ns("p99_ns") > stall * 8 / 10, "{sample}");
    assert!(ns("max_ns") >= stall * 95 / 100, "{sample}");
    // All requests were sent in the end, and each is counted.
    assert_eq!(sample["unanswered_count"], 0);
    assert_eq!(server.command_count("PING"), 1_000 + 1, "and one PING that waits for the server");
}

#[test]
fn closed_loop_stall_is_one_slow_round_trip() {
    let stall = Duration::from_millis(300);
    let server = FakeServer::start(Behaviour { stall: Some((500, stall)), ..Behaviour::default() });
    let spec = format!("fake={}", server.address);
    let args =
        ["--server", &spec, "--workload", "ping", "--requests", "3000", "--warmup", "0", "--rounds", "1"];
    let (_, report) = report(&[&args[..], &["--connections", "2"]].concat());
    let latency = &samples(&report, "fake")[0]["latency"];
    assert!(Duration::from_nanos(latency["max_ns"].as_u64().unwrap()) >= stall * 95 / 100, "{latency}");
    assert!(Duration::from_nanos(latency["p99_ns"].as_u64().unwrap()) < stall / 2, "{latency}");
}

#[test]
fn rounds_interleave_and_rotate_the_first_server() {
    let log = Arc::new(Mutex::new(String::new()));
    let start =
        |name| FakeServer::start(Behaviour { accepted: Some((name, log.clone())), ..Behaviour::default() });
    let specs = ['a', 'b', 'c'].map(|name| format!("{name}={}", start(name).address));
    let mut args = vec!["--workload", "ping", "--requests", "10", "--connections", "1", "--rounds", "4"];
    args.extend(["--warmup", "0"]);
    args.extend(specs.iter().flat_map(|spec| ["--server", spec]));
    let (_, report) = report(&args);
    // Each server first receives PING and INFO; then every run opens one connection.
    assert_eq!(log.lock().unwrap().as_str(), ["aabbcc", "abc", "bca", "cab", "abc"].concat());
    let server_outcomes =
        report["sections"][0]["findings"]["comparison"][0]["server_outcomes"].as_array().unwrap();
    assert_eq!(server_outcomes[0]["ratios"][0]["baseline"], "c", "the last one is the baseline by default");
}

#[test]
fn a_failing_server_is_excluded_and_the_others_continue() {
    let good = FakeServer::start(Behaviour::default());
    let bad = FakeServer::start(Behaviour { close_at: Some(150), ..Behaviour::default() });
    let specs = [format!("bad={}", bad.address), format!("good={}", good.address)];
    let mut args = vec!["--workload", "ping", "--requests", "100", "--rounds", "3", "--warmup", "0"];
    args.extend(specs.iter().flat_map(|spec| ["--server", spec]));
    let (output, report) = report(&args);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((samples(&report, "bad").len(), samples(&report, "good").len()), (1, 3));
    let failure = report["failures"][0].as_str().unwrap();
    assert!(failure.contains("ping p1, round 2: server bad"), "{failure}");
}

#[test]
fn an_address_is_flushed_only_if_allowed() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake={}", server.address);
    let args = ["--server", &spec, "--workload", "fill", "--keys", "300", "--rounds", "2"];
    assert_eq!(command(&args).output().unwrap().status.code(), Some(2));
    assert_eq!(server.command_count("FLUSHALL"), 0);

    let (output, report) = report(&[&args[..], &["--flush"]].concat());
    assert!(output.status.success());
    assert_eq!((server.command_count("FLUSHALL"), server.command_count("SET")), (2, 600));
    assert_eq!(samples(&report, "fake")[1]["request_count"], 300);
}

#[test]
fn a_started_server_is_accounted_and_ends_with_the_run() {
    let args = ["--server", &echo_spec(), "--workload", "ping", "--requests", "20000", "--rounds", "1"];
    let (output, report) = report(&args);
    assert!(output.status.success());
    let sample = &samples(&report, "limit")[0];
    assert!(sample["server_cpu_ns_per_request"].as_f64().unwrap() > 10.0, "{sample}");
    let server = &report["servers"][0];
    assert_eq!(server["origin"], "broadloom-bench --echo --port {port} --io-backend epoll");
    assert!(!Path::new(&format!("/proc/{}", server["pid"])).exists(), "{server}");
}

#[test]
fn an_interrupt_ends_the_started_servers() {
    let (sender, first_request) = mpsc::channel();
    let fake = FakeServer::start(Behaviour { first_request: Some(sender), ..Behaviour::default() });
    let spec = format!("fake={}", fake.address);
    let args = ["--server", &spec, "--server", &echo_spec(), "--seconds", "600", "--keys", "10"];
    let mut bench = command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    first_request.recv_timeout(Duration::from_secs(60)).unwrap();
    // The servers are started before the load begins.
    let id = bench.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let server: u32 = children.trim().parse().unwrap();
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert!(!Path::new(&format!("/proc/{server}")).exists());
}

#[test]
fn a_server_may_have_its_own_account() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake=bench:secret@{}", server.address);
    let output = command(&["--server", &spec]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(server.command_count("AUTH"), 1);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("does not implement AUTH") && !error.contains("secret"), "{error}");
}

#[test]
fn a_failed_server_start_reports_its_reason() {
    let spec = format!("broken={} --no-such-option {{port}}", env!("CARGO_BIN_EXE_broadloom-bench"));
    let output = command(&["--server", &spec]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("server broken") && error.contains("--no-such-option"), "{error}");
}

#[test]
fn reports_are_written_in_every_form() {
    let server = FakeServer::start(Behaviour::default());
    let spec = format!("fake={}", server.address);
    let args =
        ["--server", &spec, "--workload", "get,set", "--keys", "50", "--requests", "100", "--rounds", "2"];
    let directory = tempfile::tempdir().unwrap();
    let [csv, markdown] = ["report.csv", "report.md"].map(|name| directory.path().join(name));
    let output = command(&args).arg("--csv").arg(&csv).arg("--markdown").arg(&markdown).output().unwrap();
    assert!(output.status.success());
    let lines: Vec<String> = std::fs::read_to_string(csv).unwrap().lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("section,case,server,round,requests,"), "{}", lines[0]);
    assert_eq!(lines.len(), 1 + 2 * 2);
    assert!(lines[1].starts_with("Comparison,get p1,fake,1,100,"), "{}", lines[1]);
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("### get p1\n") && markdown.contains("| fake |"), "{markdown}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("set p1"));
}
