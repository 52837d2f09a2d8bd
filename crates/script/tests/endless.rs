//! Calls of the host that take long, much memory or much stack: the server is asked during each, so that a script can be
//! ended; and the limits of memory and stack are errors of the script.

mod support;

use std::cell::Cell;
use std::rc::Rc;

use script::{Interpreter, InterpreterSettings, LogLevel, RunOutcome, Runnable, Server, Verdict, sha1_hex};
use support::{MEMORY_MAX, TestServer};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

/// A server that kills the script at an interrupt.
struct Killer {
    interrupts_left: u32,
    asked: Rc<Cell<u32>>,
}

impl Server for Killer {
    fn call(&mut self, _: Args<'_>, _: bool, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(b"+OK\r\n");
        true
    }

    fn is_allowed(&mut self, _: Args<'_>) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) -> bool {
        true
    }

    fn set_propagation(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        self.asked.set(self.asked.get() + 1);
        match self.interrupts_left.checked_sub(1) {
            Some(left) => {
                self.interrupts_left = left;
                Verdict::Continue
            }
            None => Verdict::Kill,
        }
    }

    fn memory_max(&mut self, _: usize) -> usize {
        256 << 20
    }
}

fn settings(stack_size: usize) -> InterpreterSettings {
    InterpreterSettings {
        memory_max: 256 << 20,
        stack_size,
        allows_insecure_api: false,
        versions: Vec::new(),
    }
}

#[test]
fn every_long_call_can_be_ended() {
    let endless = [
        // A pattern with many ways to match.
        "return string.find(string.rep('a', 100000), string.rep('.-', 6) .. 'b')",
        "return string.match(string.rep('a', 100000), string.rep('a*', 8) .. 'b')",
        "return string.gsub(string.rep('a', 100000), string.rep('.-', 6) .. 'b', '')",
        "return string.gsub(string.rep('a', 100000), string.rep('.-', 6) .. 'b', function() end)",
        "for word in string.gmatch(string.rep('a', 100000), string.rep('.-', 6) .. 'b') do end",
        "return ('a'):rep(100000):find(('a?'):rep(50) .. ('.-'):rep(6) .. 'b')",
        "return ('('):rep(100000):find('%b()%b()')",
        "return pcall(string.find, string.rep('a', 100000), string.rep('.-', 6) .. 'b')",
        "return coroutine.wrap(function() return (('a'):rep(100000)):find(('.-'):rep(6) .. 'b') end)()",
        // Each call is brief, and they are many.
        "local s = string.rep('x', 1e7) while true do s:upper() end",
        "local s = string.rep('x', 1e7) while true do s:rep(2) end",
        "local s = string.rep('x', 1e7) while true do s:find('y', 1, true) end",
        "local s = string.rep('x', 1e6) while true do redis.sha1hex(s) end",
        "local t = {} for i = 1, 1e5 do t[i] = 'x' end while true do table.concat(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = 'x' end while true do table.insert(t, 1, 'x') table.remove(t, 1) end",
        "local t = {} for i = 1, 1e5 do t[i] = i % 1000 end while true do table.sort(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do cjson.encode(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do cmsgpack.pack(t) end",
        "local s = '[' .. string.rep('1,', 1e5) .. '1]' while true do cjson.decode(s) end",
        "local s = cmsgpack.pack({1, 2, 3}):rep(1000) while true do cmsgpack.unpack(s) end",
        "local f = string.rep('i', 1000) while true do struct.size(f) end",
        "while true do redis.call('ping') end",
        // Each thread of Lua has its own count of instructions.
        "local function nest(n) if n > 0 then for i = 1, 1e6 do coroutine.wrap(nest)(n - 1) end end end nest(9)",
        "while true do collectgarbage() end",
        // One call visits very many elements.
        "table.insert({}, -2147483648, 'x')",
        "table.insert({1, 2, 3}, -1e9, 'x')",
        "pcall(table.insert, {}, -1e9, 'x')",
        "local t = {} for k = 1, 18 do t[1025 * 2 ^ k] = 1 end for n = 1, 1025 do t[n] = 1 end table.remove(t, 1)",
        "local t = {} for k = 1, 18 do t[1025 * 2 ^ k] = 1 end for n = 1, 1025 do t[n] = 1 end table.insert(t, 1, 'x')",
        "local t = {} for k = 1, 18 do t[1025 * 2 ^ k] = 1 end for n = 1, 1025 do t[n] = 1 end \
         table.foreachi(t, math.randomseed)",
        "while true do end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return pcall(function() return t[1] end)",
    ];
    let run_endless = || {
        for body in endless {
            let mut interpreter = Interpreter::new(settings(4 << 20)).expect("there is memory");
            let (none, asked) = (ArgsBuf::new(), Rc::new(Cell::new(0)));
            let run = Runnable::Script { sha: &sha1_hex(body.as_bytes()), body: body.as_bytes() };
            let mut out = Vec::new();
            let server = Box::new(Killer { interrupts_left: 20, asked: Rc::clone(&asked) });
            let (_, outcome) = interpreter.run(
                run,
                (none.args(), none.args()),
                server,
                &mut ReplyBuffer::new(&mut out, Protocol::Resp2),
            );
            // The last one ends by itself, at the limit of calls.
            let ends_itself = body.contains("__index");
            // A tail call leaves the code of the script.
            let place = if body.starts_with("return pcall(") { "" } else { " script: on @user_script:1." };
            let is_killed = matches!(&outcome, RunOutcome::Killed { place: named } if named == place);
            assert!(ends_itself || is_killed, "{body}: {outcome:?}");
            assert!(ends_itself || asked.get() >= 21, "{body}: asked {} times", asked.get());
        }
    };
    on_stack(8 << 20, run_endless);
}

#[test]
fn the_code_of_a_library_can_be_ended() {
    let mut interpreter = Interpreter::<TestServer>::new(settings(1 << 20)).expect("there is memory");
    for body in [
        "while true do end",
        "(('a'):rep(100000)):find(('.-'):rep(6) .. 'b')",
        "(('a'):rep(100000)):gsub(('.-'):rep(6) .. 'b', '')",
    ] {
        let code = format!("#!lua name=a\n{body}");
        let error = interpreter.load_library(code.as_bytes()).expect_err("it is ended");
        let text = String::from_utf8_lossy(&error.0).into_owned();
        assert_eq!(text, "ERR Error registering functions: ERR FUNCTION LOAD timeout", "{body}");
    }
}

/// Runs a test on a thread with a stack of this size.
fn on_stack(size: usize, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().stack_size(size).spawn_scoped(scope, test).expect("a thread");
        thread.join().expect("the test passes");
    });
}

fn reply_to(interpreter: &mut Interpreter<TestServer>, body: &str) -> String {
    let none = ArgsBuf::new();
    let run = Runnable::Script { sha: &sha1_hex(body.as_bytes()), body: body.as_bytes() };
    let mut out = Vec::new();
    interpreter.run(
        run,
        (none.args(), none.args()),
        Box::new(TestServer(large_replies)),
        &mut ReplyBuffer::new(&mut out, Protocol::Resp2),
    );
    String::from_utf8_lossy(&out).into_owned()
}

/// Each command replies with a list of five million numbers.
fn large_replies(_: Args<'_>, out: &mut Vec<u8>) -> bool {
    let mut reply = ReplyBuffer::new(out, Protocol::Resp2);
    reply.array(5_000_000);
    (0..5_000_000).for_each(|number| reply.integer(number));
    true
}

#[test]
fn deep_values_end_before_the_stack_does() {
    for stack_size in [1 << 20, 8 << 20] {
        on_stack(stack_size + (256 << 10), || {
            let settings = InterpreterSettings { stack_size, ..settings(0) };
            let mut interpreter = Interpreter::new(settings).expect("there is memory");
            for (body, expected) in [
                (
                    "cjson.decode_max_depth(2^31 - 1) return cjson.decode(string.rep('[', 1e6))",
                    "Found too many nested data structures (",
                ),
                (
                    "cjson.decode_max_depth(2^31 - 1) return cjson.decode(string.rep('{\"a\":', 1e6))",
                    "Found too many nested data structures (",
                ),
                (
                    "cjson.encode_max_depth(2^31 - 1) local t = {} for i = 1, 1e5 do t = {t} end return cjson.encode(t)",
                    "Cannot serialise, excessive nesting (",
                ),
                (
                    "cjson.encode_max_depth(2^31 - 1) local t = {} for i = 1, 1e5 do t = {a = t} end return cjson.encode(t)",
                    "Cannot serialise, excessive nesting (",
                ),
                (
                    "return cmsgpack.unpack(string.rep(string.char(0x91), 100000))",
                    "Bad data format in input.",
                ),
                // As deep as the list of choices is long: the stack has no part in it.
                ("return string.find('', string.rep('a?', 300000))", ":1\r\n"),
                ("return string.find(string.rep('a', 300000), string.rep('a?', 300000))", ":1\r\n"),
                ("return {string.find('aaa', string.rep('a-', 100000) .. '$')}", "*2\r\n:1\r\n:3\r\n"),
                ("return pcall(string.gsub, 'a', string.rep('(', 100), '')", ""),
            ] {
                let reply = reply_to(&mut interpreter, body);
                assert!(reply.contains(expected), "{body}: {reply}");
            }
            // With a stack as large as that of the server, all levels fit that the references of the binding admit.
            if stack_size == 8 << 20 {
                let deep = "cjson.decode_max_depth(5000) cjson.encode_max_depth(5000) \
                            local text = string.rep('[', 2000) .. string.rep(']', 2000) \
                            return cjson.encode(cjson.decode(text)) ~= nil";
                assert_eq!(reply_to(&mut interpreter, deep), ":1\r\n");
            }
        });
    }
}

/// The binding has 8,000 references: a function of the host with more arguments or results than are left fails.
#[test]
fn many_arguments_and_results_do_not_end_the_process() {
    on_stack(8 << 20, || {
        let mut interpreter = Interpreter::new(settings(4 << 20)).expect("there is memory");
        // Compiled scripts have references, too.
        for number in 0..2_500 {
            let body = format!("return {number}");
            assert_eq!(interpreter.compile(&sha1_hex(body.as_bytes()), body.as_bytes()), Ok(()));
        }
        let list = "local t = {} for i = 1, 7900 do t[i] = 'x' .. i end ";
        for call in [
            "cmsgpack.pack(unpack(t))",
            "cmsgpack.unpack(cmsgpack.pack(unpack(t)))",
            "cmsgpack.unpack(string.rep(string.char(0x90), 7900))",
            "cmsgpack.unpack(string.rep(string.char(0xa1, 65), 7900))",
            "cmsgpack.unpack_limit(string.rep(string.char(0x90), 20000), 19000)",
            "struct.pack(string.rep('s', 7890), unpack(t))",
            "struct.unpack(string.rep('s', 7890), string.rep('x\\0', 7890))",
            "cjson.encode(unpack(t))",
            "bit.band(unpack(t))",
            "redis.log(redis.LOG_DEBUG, unpack(t))",
            "redis.sha1hex(unpack(t))",
            "redis.error_reply(unpack(t))",
            "redis.status_reply(unpack(t))",
            "redis.acl_check_cmd(unpack(t))",
            "redis.setresp(unpack(t))",
            "math.random(unpack(t))",
            "string.rep(unpack(t))",
            "string.find(unpack(t))",
            "string.gsub(unpack(t))",
            "for i = 7901, 7989 do t[i] = 'x' end string.find('a', 'b', unpack(t))",
            "for i = 7901, 7989 do t[i] = 'x' end string.match('a', 'b', unpack(t))",
            "for i = 7901, 7989 do t[i] = 'x' end string.gsub('a', 'b', 'c', unpack(t))",
            "unpack({}, 2147483653, 2147483647)",
            "unpack({}, math.huge, 2147483647)",
            "unpack({}, 2147483647.5, 2147483647)",
        ] {
            for body in
                [format!("{list} {call} return 1"), format!("{list} pcall(function() {call} end) return 1")]
            {
                reply_to(&mut interpreter, &body);
                assert_eq!(reply_to(&mut interpreter, "return 1"), ":1\r\n", "{body}");
            }
        }
    });
}

#[test]
fn libraries_may_be_loaded_often() {
    let mut interpreter = Interpreter::<TestServer>::new(settings(1 << 20)).expect("there is memory");
    for number in 0..9_000 {
        let code = format!("#!lua name=a\nserver.register_function('f', function() return {number} end)");
        let checked = interpreter.check_library(code.as_bytes());
        assert_eq!(checked.map(|library| library.functions.len()), Ok(1));
        assert!(interpreter.load_library(code.as_bytes()).is_ok_and(|size| size >= code.len()));
        interpreter.forget_functions();
    }
}

/// More functions than the binding has references.
#[test]
fn functions_may_be_many() {
    let mut interpreter = Interpreter::<TestServer>::new(settings(1 << 20)).expect("there is memory");
    let code = "for i = 1, 10000 do server.register_function('f' .. i, function() return i end) end";
    let code = format!("#!lua name=a\n{code}").into_bytes();
    assert_eq!(interpreter.check_library(&code).map(|library| library.functions.len()), Ok(10_000));
    assert!(interpreter.load_library(&code).is_ok_and(|size| size >= code.len()));
    for name in ["f1", "f5000", "f10000"] {
        let none = ArgsBuf::new();
        let mut out = Vec::new();
        interpreter.run(
            Runnable::Function { name: name.as_bytes() },
            (none.args(), none.args()),
            Box::new(TestServer(large_replies)),
            &mut ReplyBuffer::new(&mut out, Protocol::Resp2),
        );
        assert_eq!(out, format!(":{}\r\n", &name[1..]).as_bytes());
    }
}

#[test]
fn functions_of_the_host_keep_to_the_memory() {
    on_stack(8 << 20, || {
        let mut interpreter = Interpreter::new(settings(4 << 20)).expect("there is memory");
        // The resident size would be several times the limit.
        let body_of =
            |call: &str| format!("local ok, text = pcall(function() {call} end) return text or 'done'");
        for call in [
            "return cjson.decode('[' .. string.rep('[],', 3e6) .. '1]')",
            "return cjson.decode('[' .. string.rep('\"abcdefgh\",[1],', 1e6) .. '1]')",
            "local t = {} for i = 1, 200 do t[i] = string.rep('x', 1e6) end return cjson.encode(t)",
            "local s = string.rep('x', 2e7) return cjson.encode({s, s, s, s, s, s, s, s})",
            "local s = string.rep('x', 2e7) return cmsgpack.pack(s, s, s, s, s, s, s, s)",
            "return cmsgpack.unpack(string.char(0xdd, 0, 255, 255, 255) .. string.rep(string.char(0x90), 2e7))",
            "local s = string.rep('x', 2e7) return struct.pack('sssssssss', s, s, s, s, s, s, s, s, s)",
            "return string.rep('x', 6e7)",
            "local s = string.rep('x', 2e7) return s:gsub('x', 'yyyyyyyyyy')",
            "local s = string.rep('x', 2e7) return s:gsub('x', function() return 'yyyyyyyyyy' end)",
            "local s = string.rep('x', 2e7) return s:gsub('.*', '%0%0%0%0%0%0%0')",
            "return string.gsub(string.rep('x', 1e6), '.*', string.rep('%0', 500000))",
            "return #{string.find(string.rep('x', 2e7), ('(.'):rep(30) .. '.*' .. (')'):rep(30))}",
            "return redis.call('list')",
        ] {
            let reply = reply_to(&mut interpreter, &body_of(call));
            assert!(reply.contains("not enough memory"), "{call}: {}", &reply[..reply.len().min(200)]);
            assert!(
                interpreter.used_memory() < MEMORY_MAX,
                "{call}: {} bytes are left",
                interpreter.used_memory()
            );
        }
    });
}
