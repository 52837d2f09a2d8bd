//! Calls of commands and runs on the stack of Lua: many values, errors on every path, and what they leave behind.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use script::{Interpreter, InterpreterSettings, RunOutcome, Runnable, sha1_hex};
use support::{MEMORY_MAX, TestServer};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

/// The commands of the tests.
fn run_command(args: Args<'_>, out: &mut Vec<u8>) -> bool {
    let mut reply = ReplyBuffer::new(out, Protocol::Resp2);
    match args.name() {
        b"count" => reply.integer(args.len() as i64),
        b"echo" => reply.bulk(args.at(1)),
        b"nest" => {
            let depth = String::from_utf8_lossy(args.at(1)).parse().expect("a number");
            (0..depth).for_each(|_| reply.array(1));
            reply.ok();
        }
        b"fail" => reply.error(b"CODE of the server"),
        b"again" => return false,
        b"panic" => panic!("a fault of the server"),
        _ => reply.error(b"ERR unknown"),
    }
    true
}

fn interpreter(allows_insecure_api: bool) -> Interpreter<TestServer> {
    let settings = InterpreterSettings {
        memory_max: MEMORY_MAX,
        stack_size: 1 << 20,
        allows_insecure_api,
        versions: Vec::new(),
    };
    Interpreter::new(settings).expect("there is memory")
}

fn outcome_of(interpreter: &mut Interpreter<TestServer>, body: &str) -> (RunOutcome, String) {
    let (keys, arguments) = (ArgsBuf::from_iter([&b"a key"[..]]), ArgsBuf::from_iter([&b"\xff"[..], b""]));
    let run = Runnable::Script { sha: &sha1_hex(body.as_bytes()), body: body.as_bytes() };
    let mut out = Vec::new();
    let mut reply = ReplyBuffer::new(&mut out, Protocol::Resp2);
    let (_, outcome) =
        interpreter.run(run, (keys.args(), arguments.args()), Box::new(TestServer(run_command)), &mut reply);
    (outcome, out.escape_ascii().to_string())
}

fn check(interpreter: &mut Interpreter<TestServer>, body: &str, expected: &str) {
    let (outcome, reply) = outcome_of(interpreter, body);
    assert!(matches!(outcome, RunOutcome::Replied | RunOutcome::Failed(_)), "{body}: {outcome:?}");
    assert_eq!(reply, format!("{expected}\\r\\n"), "{body}");
}

#[test]
fn values_may_be_many() {
    let mut interpreter = interpreter(false);
    for count in [1, 19, 20, 21, 200, 7_900] {
        let list = format!("local t = {{}} for i = 1, {count} do t[i] = i end ");
        check(&mut interpreter, &format!("{list} return unpack(t)"), ":1");
        check(&mut interpreter, &format!("{list} return select('#', unpack(t))"), &format!(":{count}"));
        let and_status = format!(":{}", count + 1);
        for call in [
            "pcall(function() return unpack(t) end)",
            "pcall(unpack, t)",
            "xpcall(function() return unpack(t) end, error)",
            "coroutine.resume(coroutine.create(function() return unpack(t) end))",
        ] {
            check(&mut interpreter, &format!("{list} return select('#', {call})"), &and_status);
        }
        check(&mut interpreter, &format!("{list} return redis.call('count', unpack(t))"), &and_status);
        check(&mut interpreter, &format!("{list} return redis.pcall('count', unpack(t))"), &and_status);
        let wrong = "-ERR Command arguments must be strings or integers";
        check(
            &mut interpreter,
            &format!("{list} t[#t + 1] = t return redis.pcall('count', unpack(t))"),
            wrong,
        );
        let wrong = format!("{wrong} script: on @user_script:1.");
        check(
            &mut interpreter,
            &format!("{list} t[#t + 1] = t return redis.call('count', unpack(t))"),
            &wrong,
        );
    }
}

#[test]
fn arguments_and_results_keep_their_bytes() {
    let mut interpreter = interpreter(false);
    for (body, expected) in [
        ("return redis.call('echo', ARGV[1])", "$1\\r\\n\\xff"),
        ("return redis.call('echo', ARGV[2])", "$0\\r\\n"),
        ("return redis.call('echo', KEYS[1] .. '\\0x')", "$7\\r\\na key\\x00x"),
        ("return {#KEYS, #ARGV, KEYS[2], 1}", "*2\\r\\n:1\\r\\n:2"),
        ("return redis.call('echo', 3)", "$1\\r\\n3"),
        ("return redis.call('echo', -0)", "$1\\r\\n0"),
        ("return redis.call('echo', 3.5)", "$3\\r\\n3.5"),
        ("return redis.call('echo', 2^53)", "$16\\r\\n9007199254740992"),
        ("return redis.call('echo', -2^63)", "$20\\r\\n-9223372036854776000"),
        ("return redis.call('echo', 2^62)", "$19\\r\\n4611686018427387904"),
        ("return redis.call('nest', 3)", "*1\\r\\n*1\\r\\n*1\\r\\n+OK"),
        ("return redis.call('nest', 2)[1][1].ok", "$2\\r\\nOK"),
        ("return #redis.call('echo', string.rep('x', 1000000))", ":1000000"),
    ] {
        check(&mut interpreter, body, expected);
    }
    // As deep as a reply may be, and deeper than is written.
    check(&mut interpreter, "return redis.call('nest', 900)[1][1] ~= nil", ":1");
    let (_, reply) = outcome_of(&mut interpreter, "return redis.call('nest', 1500)");
    assert!(reply.ends_with("-ERR reached lua stack limit\\r\\n"));
}

#[test]
fn errors_are_caught_at_every_depth() {
    let mut interpreter = interpreter(false);
    for (body, expected) in [
        ("return redis.call('fail')", "-CODE of the server script: on @user_script:1."),
        ("return redis.pcall('fail')", "-CODE of the server"),
        ("return redis.pcall('fail').ignore_error_stats_update", ":1"),
        (
            "local ok, text = pcall(redis.call, 'fail') return {ok and 1 or 0, text}",
            "*2\\r\\n:0\\r\\n$18\\r\\nCODE of the server",
        ),
        (
            "local ok, text = pcall(redis.call) return text",
            "$54\\r\\nERR Please specify at least one argument for this call",
        ),
        (
            "return select(2, xpcall(function() redis.call('fail') end, function(e) return e.err end))",
            "$18\\r\\nCODE of the server",
        ),
        (
            "return select(2, coroutine.resume(coroutine.create(function() redis.call('fail') end))).err",
            "$18\\r\\nCODE of the server",
        ),
        (
            "local function f(n) if n == 0 then return redis.call('fail') end return (pcall(f, n - 1)) end \
             return select(2, pcall(function() local ok = f(50) redis.call(ok and 'fail' or 'count') end))",
            "$18\\r\\nCODE of the server",
        ),
        (
            "local n = 0 for i = 1, 10000 do if not pcall(redis.call, 'fail', i) then n = n + 1 end end return n",
            ":10000",
        ),
        ("return pcall(error, {err = 'own'}) or redis.call('count')", ":1"),
    ] {
        check(&mut interpreter, body, expected);
    }
}

#[test]
fn what_ends_a_script_passes_every_handler() {
    let mut interpreter = interpreter(false);
    for body in [
        "return redis.call('again')",
        "return redis.pcall('again')",
        "return pcall(redis.call, 'again')",
        "return pcall(pcall, redis.pcall, 'again')",
        "return xpcall(function() redis.call('again') end, function() return 1 end)",
        "return coroutine.resume(coroutine.create(function() redis.call('again') end))",
        "return pcall(coroutine.wrap(function() redis.call('again') end))",
        "local t = {} for i = 1, 5000 do t[i] = i end pcall(redis.call, 'fail') return redis.call('again', unpack(t))",
        "return redis.call('again', string.rep('x', 1000000))",
    ] {
        let (outcome, reply) = outcome_of(&mut interpreter, body);
        assert!(matches!(outcome, RunOutcome::Again) && reply.is_empty(), "{body}: {outcome:?} {reply}");
        check(&mut interpreter, "return redis.call('count')", ":1");
    }
}

#[test]
fn a_panic_passes_the_script() {
    for body in ["return redis.call('panic')", "return pcall(redis.pcall, 'panic', string.rep('x', 100000))"]
    {
        let mut interpreter = interpreter(false);
        let panic = catch_unwind(AssertUnwindSafe(|| outcome_of(&mut interpreter, body)));
        let payload = panic.expect_err("the panic reaches the caller of the run");
        assert_eq!(payload.downcast_ref(), Some(&"a fault of the server"), "{body}");
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    pages.split(' ').nth(1).and_then(|count| count.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn errors_leave_no_memory_behind() {
    let mut interpreter = interpreter(false);
    let failing = "local large = string.rep('x', 1000000) \
                   for i = 1, 20 do \
                       pcall(redis.call, 'fail', large) pcall(redis.call, large, {}) redis.pcall('fail', large, large) \
                   end";
    let ending = "return redis.call('again', string.rep('x', 1000000))";
    let round = |interpreter: &mut Interpreter<TestServer>| {
        check(interpreter, failing, "$-1");
        assert!(matches!(outcome_of(interpreter, ending).0, RunOutcome::Again));
    };
    (0..5).for_each(|_| round(&mut interpreter));
    let (before, used_before) = (resident(), interpreter.used_memory());
    (0..100).for_each(|_| round(&mut interpreter));
    // One megabyte for each call would be six gigabytes.
    assert!(resident() < before + (200 << 20), "{} bytes before, {} after", before, resident());
    assert!(interpreter.used_memory() < used_before + (16 << 20));
}

#[test]
fn garbage_of_small_runs_is_collected() {
    let mut interpreter = interpreter(false);
    let body = "local t = {} for i = 1, 10 do t[i] = {redis.call('echo', ARGV[1] .. i)} end return #t";
    (0..200).for_each(|_| check(&mut interpreter, body, ":10"));
    let before = interpreter.used_memory();
    let mut peak = 0;
    for _ in 0..5_000 {
        check(&mut interpreter, body, ":10");
        peak = peak.max(interpreter.used_memory());
    }
    assert!(peak < 2 * before, "{before} bytes before, up to {peak} after");
}

#[test]
fn proxies_have_metatables_without_finalizers() {
    let mut interpreter = interpreter(true);
    for (body, expected) in [
        ("local p = newproxy(true) getmetatable(p).__index = function() return 5 end return p.x", ":5"),
        (
            "local p = newproxy(true) getmetatable(p).__len = function() return 3 end return #newproxy(p)",
            ":3",
        ),
        ("return getmetatable(newproxy(false)) == nil", ":1"),
        ("local p = newproxy(true) return getmetatable(p) == getmetatable(p)", ":1"),
        ("getmetatable(newproxy(true)).__gc = function() ran = true end return 0", ":0"),
        (
            "local m = getmetatable(newproxy(true)) local runs = 0 m.__gc = function() runs = runs + 1 end \
             collectgarbage() collectgarbage() return {type(m.__gc), runs}",
            "*2\\r\\n$8\\r\\nfunction\\r\\n:0",
        ),
        (
            "rawset(getmetatable(newproxy(true)), '__gc', function() end)",
            "-ERR Attempt to modify a readonly table script: on @user_script:1.",
        ),
    ] {
        check(&mut interpreter, body, expected);
    }
}
