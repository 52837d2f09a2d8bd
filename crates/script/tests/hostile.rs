//! Scripts that try to leave the sandbox, to take the memory, or to end the process: one table, with the number of the
//! published fault where there is one.

mod support;

use std::sync::mpsc;

use script::{Interpreter, InterpreterSettings, RunOutcome, Runnable, sha1_hex};
use support::{MEMORY_MAX, TestServer};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

/// Every command replies `PONG`.
fn pong(_: Args<'_>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(b"+PONG\r\n");
    true
}

fn interpreter() -> Interpreter<TestServer> {
    let settings = InterpreterSettings {
        memory_max: MEMORY_MAX,
        stack_size: 8 << 20,
        allows_insecure_api: false,
        versions: Vec::new(),
    };
    Interpreter::new(settings).expect("there is memory")
}

fn run(interpreter: &mut Interpreter<TestServer>, body: &str) -> String {
    let mut out = Vec::new();
    let none = ArgsBuf::new();
    let run = Runnable::Script { sha: &sha1_hex(body.as_bytes()), body: body.as_bytes() };
    let (_, outcome) = interpreter.run(
        run,
        (none.args(), none.args()),
        Box::new(TestServer(pong)),
        &mut ReplyBuffer::new(&mut out, Protocol::Resp2),
    );
    assert!(!matches!(outcome, RunOutcome::Again | RunOutcome::Killed { .. }));
    String::from_utf8_lossy(&out).into_owned()
}

/// On a thread with a stack as large as that of a script in the server.
fn on_large_stack(test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        test();
        let _ = sender.send(());
    };
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(body).expect("a thread");
    thread.join().expect("the test passes");
    receiver.recv().expect("it has ended");
}

/// The interpreter counts instructions across calls, so an interrupt falls into a compilation from time to time.
#[test]
fn an_interrupt_does_not_end_a_compilation() {
    let mut interpreter = interpreter();
    for number in 0..20_000 {
        let body = format!("return {number}");
        let compiled = interpreter.compile(&sha1_hex(body.as_bytes()), body.as_bytes());
        assert_eq!(compiled, Ok(()), "text {number}");
    }
}

#[test]
fn hostile_scripts_fail() {
    on_large_stack(|| {
        let readonly = "Attempt to modify a readonly table";
        let table = [
            // CVE-2022-24735, CVE-2022-24736: code of others through globals; malformed use of a protected table.
            ("redis.call = 1", readonly),
            ("rawset(redis, 'call', 1)", readonly),
            ("_G.x = 1", readonly),
            ("setmetatable(_G, {})", readonly),
            ("getmetatable(_G).__index = 1", readonly),
            ("getmetatable('').__index = 1", readonly),
            ("string.format = 1", readonly),
            ("table.insert(redis, 1)", readonly),
            ("rawset(getmetatable(''), '__index', 1)", readonly),
            // CVE-2015-4335, CVE-2021-32626: bytecode, and the stack of Lua.
            ("return loadstring(string.dump(function() return 1 end))()", "attempt to call a nil value"),
            ("local p = {'\\27Lua'} return load(function() return table.remove(p) end)()", "attempt to call"),
            ("return unpack({}, 1, 1e8)", "too many results to unpack"),
            ("return unpack({}, -2147483647, 2147483647)", "too many results to unpack"),
            ("local function f(n) return 1 + f(n + 1) end return f(1)", "stack overflow"),
            // CVE-2022-35977, CVE-2024-46981, CVE-2025-49844: memory.
            ("return #string.rep('x', 2^30)", "resulting string too large"),
            ("local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1e6) .. i end", "not enough memory"),
            ("local s = 'x' while true do s = s .. s end", "not enough memory"),
            ("local t = {} for i = 1, 1e9 do t[i] = {} end", "not enough memory"),
            ("local t = {} while true do t[#t + 1] = redis.call('ping') end", "not enough memory"),
            // CVE-2018-11218, CVE-2020-14147, CVE-2024-31449: cmsgpack, struct, bit.
            ("return cmsgpack.unpack(string.char(0xdd, 255, 255, 255, 255))", "Missing bytes in input."),
            ("return cmsgpack.unpack(string.rep(string.char(0x91), 100000))", "Bad data format in input."),
            ("return struct.pack('i2147483648', 1)", "integral size overflow"),
            ("return struct.unpack('c2147483647', 'x')", "data string too short"),
            ("return struct.unpack('>I2c0', string.char(255, 255))", "data string too short"),
            ("return bit.tohex(1, -2147483648)", "00000001"),
            // CVE-2022-0543: libraries of the system.
            ("return package", "nonexistent global variable 'package'"),
            ("return io", "nonexistent global variable 'io'"),
            ("return debug", "nonexistent global variable 'debug'"),
            ("return os.execute('true')", "attempt to call"),
            ("return cjson.decode(string.rep('[', 100000))", "too many nested data structures"),
            ("local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)", "excessive nesting"),
            ("local t = {} t[1] = t return t", "reached lua stack limit"),
        ];
        let mut interpreter = interpreter();
        for (body, expected) in table {
            let reply = run(&mut interpreter, body);
            assert!(reply.contains(expected), "{body}: {reply}");
            assert_eq!(run(&mut interpreter, "return redis.call('ping')"), "+PONG\r\n", "after {body}");
        }
    });
}

#[test]
fn a_script_leaves_nothing_behind() {
    let mut interpreter = interpreter();
    assert_eq!(run(&mut interpreter, "KEYS[1] = 'x' local t = {} t.y = 1 return t.y"), ":1\r\n");
    assert_eq!(run(&mut interpreter, "return #KEYS"), ":0\r\n");
    assert_eq!(
        run(&mut interpreter, "foo()"),
        "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: on @user_script:1.\r\n"
    );
}

#[test]
fn libraries_register_functions() {
    let mut interpreter = interpreter();
    let load = |interpreter: &mut Interpreter<TestServer>, code: &str| match interpreter
        .check_library(code.as_bytes())
        .and_then(|library| interpreter.load_library(code.as_bytes()).map(|_| library))
    {
        Ok(library) => format!("{} functions", library.functions.len()),
        Err(error) => String::from_utf8_lossy(&error.0).into_owned(),
    };
    for (code, expected) in [
        (
            "#!lua name=a\nserver.register_function('f', function() return server.call('ping') end)",
            "1 functions",
        ),
        ("#!lua name=a\nreturn 1", "ERR No functions registered"),
        (
            "#!lua name=a\nserver.call('ping')",
            "ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            "#!lua name=a\nx = 1",
            "ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly table",
        ),
        ("#!lua name=a\nwhile true do end", "ERR Error registering functions: ERR FUNCTION LOAD timeout"),
    ] {
        assert_eq!(load(&mut interpreter, code), expected);
    }
    let mut out = Vec::new();
    let none = ArgsBuf::new();
    interpreter.run(
        Runnable::Function { name: b"f" },
        (none.args(), none.args()),
        Box::new(TestServer(pong)),
        &mut ReplyBuffer::new(&mut out, Protocol::Resp2),
    );
    assert_eq!(out, b"+PONG\r\n");
}
