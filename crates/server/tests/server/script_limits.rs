//! What a script may take of the server: the time of one call, memory, stack; and what it counts as.

use crate::support::{Server, on_each_backend, shown, wait_for};

const ONE_WORKER: &[&str] = &["--io-threads", "1", "--save", "", "--busy-reply-threshold", "100"];

/// One call of a library function that does not end.
const ENDLESS_CALL: &str = "return string.find(string.rep('a', 100000), string.rep('.-', 6) .. 'b')";

#[test]
fn a_script_inside_one_call_is_killed_from_another_connection_of_its_worker() {
    on_each_backend(ONE_WORKER, |server| {
        let (mut runner, mut other) = (server.client(), server.client());
        runner.send(&["EVAL", ENDLESS_CALL, "1", "k"]);
        wait_for(|| Some(other.text(&["GET", "k"])).filter(|reply| reply.starts_with("BUSY")));
        assert_eq!(other.text(&["SET", "other", "1"]), "OK");
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        assert!(shown(&runner.receive().unwrap()).contains("Script killed by user with SCRIPT KILL"));
        let code =
            format!("#!lua name=a\nserver.register_function('endless', function() {ENDLESS_CALL} end)");
        assert_eq!(other.text(&["FUNCTION", "LOAD", &code]), "a");
        runner.send(&["FCALL", "endless", "1", "k"]);
        wait_for(|| Some(other.text(&["GET", "k"])).filter(|reply| reply.starts_with("BUSY")));
        assert_eq!(other.text(&["FUNCTION", "KILL"]), "OK");
        assert!(shown(&runner.receive().unwrap()).contains("Script killed by user with FUNCTION KILL"));
    });
}

#[test]
fn a_signal_ends_the_server_while_a_script_is_inside_one_call() {
    on_each_backend(ONE_WORKER, |mut server| {
        let (mut runner, mut other) = (server.client(), server.client());
        runner.send(&["EVAL", ENDLESS_CALL, "1", "k"]);
        wait_for(|| Some(other.text(&["GET", "k"])).filter(|reply| reply.starts_with("BUSY")));
        server.signal("TERM");
        assert!(server.wait());
    });
}

#[test]
fn time_goes_on_for_a_script_that_waits_for_it() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    let now =
        "local function now() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end local first = now() ";
    assert_eq!(client.text(&["EVAL", &format!("{now} repeat until now() > first return 1"), "0"]), "1");
    // Until then it stands still.
    let stands = format!("{now} for i = 1, 100 do if now() ~= first then return 0 end end return 1");
    assert_eq!(client.text(&["EVAL", &stands, "0"]), "1");
}

#[test]
fn what_fails_in_a_script_is_counted_once_for_each_command() {
    let server = Server::start(ONE_WORKER);
    let mut client = server.client();
    client.text(&["SET", "text", "x"]);
    client.text(&["ACL", "SETUSER", "limited", "on", "nopass", "+@all", "-get", "~*"]);
    let mut limited = server.client();
    limited.text(&["AUTH", "limited", "any"]);
    for (body, of_script, of_command, code) in [
        (
            "return redis.call('LPUSH', 'text', 'x')",
            1,
            ("lpush", "rejected_calls=0,failed_calls=1"),
            "WRONGTYPE",
        ),
        (
            "return redis.pcall('LPUSH', 'text', 'x')",
            1,
            ("lpush", "rejected_calls=0,failed_calls=1"),
            "WRONGTYPE",
        ),
        (
            "redis.pcall('LPUSH', 'text', 'x') return 1",
            0,
            ("lpush", "rejected_calls=0,failed_calls=1"),
            "WRONGTYPE",
        ),
        ("return {err = 'OWN error'}", 1, ("eval", "rejected_calls=0,failed_calls=1"), "OWN"),
        ("return redis.call('GET', 'text')", 1, ("get", "rejected_calls=1,failed_calls=0"), "NOPERM"),
        ("return redis.pcall('GET', 'text')", 1, ("get", "rejected_calls=1,failed_calls=0"), "NOPERM"),
    ] {
        client.text(&["CONFIG", "RESETSTAT"]);
        limited.text(&["EVAL", body, "0"]);
        let statistics = client.text(&["INFO", "commandstats"]);
        let line = |name: &str| {
            let prefix = format!("cmdstat_{name}:");
            statistics.lines().find(|line| line.starts_with(&prefix)).unwrap_or_default().to_owned()
        };
        assert!(line("eval").contains(&format!("failed_calls={of_script}")), "{body}: {statistics}");
        assert!(line(of_command.0).contains(of_command.1), "{body}: {statistics}");
        let errors = client.text(&["INFO", "errorstats"]);
        let counted: Vec<&str> = errors.lines().filter(|line| line.starts_with("errorstat_")).collect();
        assert_eq!(counted, [format!("errorstat_{code}:count=1")], "{body}");
    }
}

#[test]
fn the_memory_of_scripts_is_bounded_and_shown() {
    let server = Server::start(&[ONE_WORKER, &["--lua-memory-limit", "64mb"]].concat());
    let mut client = server.client();
    let decode = "return #cjson.decode('[' .. string.rep('[],', 3000000) .. '1]')";
    assert!(client.text(&["EVAL", decode, "0"]).contains("not enough memory"));
    // The garbage is collected, so the next script has the memory again.
    assert_eq!(client.text(&["EVAL", "return #string.rep('x', 20000000)", "0"]), "20000000");
    assert!(server.info(&mut client, "used_memory_vm_eval").parse::<u64>().unwrap() < 64 << 20);
    assert_eq!(server.info(&mut client, "used_memory_vm_functions"), "0");
    let code = "#!lua name=a\nlocal t = {} for i = 1, 10000 do t[i] = {} end \
                server.register_function('f', function() return #t end)";
    client.text(&["FUNCTION", "LOAD", code]);
    assert_eq!(client.text(&["FCALL", "f", "0"]), "10000");
    assert!(server.info(&mut client, "used_memory_vm_functions").parse::<u64>().unwrap() > 100_000);
    // The limit may change at run time.
    assert_eq!(client.text(&["CONFIG", "SET", "lua-memory-limit", "256mb"]), "OK");
    assert_eq!(client.text(&["EVAL", "return #string.rep('x', 60000000)", "0"]), "60000000");
}
