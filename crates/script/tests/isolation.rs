//! What one script leaves for the next, which may be that of another user: nothing.
//!
//! A first script walks everything that scripts can reach: tables, metatables, environments, and the results of every function
//! with several arguments. It marks each table in every way that it can, and changes every setting. A second one walks the
//! same way and reports the marks.

mod support;

use script::{Interpreter, InterpreterSettings, RunOutcome, Runnable, sha1_hex};
use support::{MEMORY_MAX, TestServer};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

/// Visits everything; `visit` is called with each table and the path to it.
const WALK: &str = r#"
local pcall, pairs, type, tostring, getmetatable = pcall, pairs, type, tostring, getmetatable
local getfenv, setfenv, newproxy = rawget(_G, 'getfenv'), rawget(_G, 'setfenv'), rawget(_G, 'newproxy')
local seen, count, calls = {}, 0, 0
local skipped = {error = true, collectgarbage = true}
local function arguments()
    return {
        {}, {1}, {'x'}, {'a b', 'a'}, {{}}, {{1, 2}, 1}, {true}, {false}, {'[1,[2],{"a":1}]'}, {'i', 1}, {'%s', 'x'},
        {function() return {} end}, {function() return {} end, function() return {} end}, {'return {}'}, {'on'},
        {redis}, {_G}, {''}, {cjson.null}, {'\147\1\2\3'}, {redis, 'call'}, {3}, {2}, {7, 8}, {'x', '(.)', '%1'},
    }
end
local function walk(value, path, depth, visit)
    local kind = type(value)
    if depth > 6 or (kind ~= 'table' and kind ~= 'function' and kind ~= 'userdata' and kind ~= 'thread') then return end
    if seen[value] then return end
    seen[value] = true
    count = count + 1
    local ok, metatable = pcall(getmetatable, value)
    if ok then walk(metatable, path .. '<metatable>', depth + 1, visit) end
    if getfenv and kind == 'function' then
        local ok, environment = pcall(getfenv, value)
        if ok then walk(environment, path .. '<environment>', depth + 1, visit) end
    end
    if kind == 'table' then
        visit(value, path)
        for key, inner in pairs(value) do
            walk(key, path .. '<key>', depth + 1, visit)
            walk(inner, path .. '.' .. tostring(key), depth + 1, visit)
        end
    elseif kind == 'function' and depth < 4 and not skipped[path:match('[^.]*$')] then
        visit(value, path)
        for number, list in pairs(arguments()) do
            calls = calls + 1
            local results = {pcall(value, unpack(list))}
            for at = 2, #results do
                walk(results[at], path .. '(' .. number .. ')', depth + 2, visit)
            end
        end
    end
end
"#;

/// Marks what it reaches, and changes what can be set.
const MARK: &str = r#"
local function mark(value, path)
    if type(value) == 'function' then
        if setfenv then pcall(setfenv, value, {MARK = true}) end
        return
    end
    pcall(function() value.MARK = path end)
    pcall(rawset, value, 'MARK', path)
    pcall(table.insert, value, 'MARK')
    pcall(setmetatable, value, {__index = function() return 'MARK' end})
    pcall(function() for key in pairs(value) do if type(key) == 'string' then value[key] = nil end end end)
end
cjson.decode_array_with_array_mt(true)
walk(_G, '_G', 0, mark)
walk(getmetatable(''), '<string>', 0, mark)
walk(getmetatable(cjson.decode('[]')), '<array>', 0, mark)
if newproxy then walk(newproxy(true), '<proxy>', 0, mark) end
for name, value in pairs({
    encode_sparse_array = true, encode_max_depth = 7, decode_max_depth = 7, encode_number_precision = 3,
    encode_keep_buffer = false, encode_invalid_numbers = true, decode_invalid_numbers = false,
    decode_array_with_array_mt = true,
}) do cjson[name](value) end
redis.setresp(3) redis.set_repl(0) math.randomseed(1)
collectgarbage('stop') collectgarbage('stop\0') collectgarbage('setpause', 1)
return {count, calls}
"#;

/// Reports marks.
const REPORT: &str = r#"
local found = {}
local function report(value, path)
    if type(value) == 'function' then
        if getfenv then
            local ok, environment = pcall(getfenv, value)
            if ok and rawget(environment, 'MARK') ~= nil then found[#found + 1] = path .. ' environment' end
        end
        return
    end
    local ok, mark = pcall(function() return value.MARK end)
    if ok and mark ~= nil then found[#found + 1] = path .. ' index' end
    for key, inner in pairs(value) do
        if key == 'MARK' or inner == 'MARK' then found[#found + 1] = path .. ' field' end
    end
end
for _, name in pairs({'__index', '__newindex', '__call', '__len', '__eq', '__lt', '__concat'}) do
    local ok, own = pcall(function() return rawget(getmetatable(cjson.decode('[]')) or {}, name) end)
    if ok and own ~= nil then found[#found + 1] = 'array ' .. name end
end
walk(_G, '_G', 0, report)
walk(getmetatable(''), '<string>', 0, report)
cjson.decode_array_with_array_mt(true)
walk(getmetatable(cjson.decode('[]')), '<array>', 0, report)
table.sort(found)
return table.concat(found, '\n')
"#;

/// The settings as a new interpreter has them.
const SETTINGS: &str = r#"
local list = {}
for _, name in ipairs({
    'encode_sparse_array', 'encode_max_depth', 'decode_max_depth', 'encode_number_precision', 'encode_keep_buffer',
    'encode_invalid_numbers', 'decode_invalid_numbers', 'decode_array_with_array_mt',
}) do
    for _, value in ipairs({cjson[name]()}) do list[#list + 1] = tostring(value) end
end
list[#list + 1] = tostring(redis.call('protocol'))
return table.concat(list, ' ')
"#;

fn server(args: Args<'_>, out: &mut Vec<u8>) -> bool {
    let mut reply = ReplyBuffer::new(out, Protocol::Resp2);
    match args.name() {
        b"protocol" => reply.bulk(b"2"),
        _ => reply.error(b"ERR no such command"),
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

fn run(interpreter: &mut Interpreter<TestServer>, body: &str) -> String {
    let (keys, arguments) = (ArgsBuf::from_iter([&b"secret"[..]]), ArgsBuf::from_iter([&b"password"[..]]));
    let run = Runnable::Script { sha: &sha1_hex(body.as_bytes()), body: body.as_bytes() };
    run_as(interpreter, run, keys.args(), arguments.args())
}

fn run_as(
    interpreter: &mut Interpreter<TestServer>,
    run: Runnable<'_>,
    keys: Args<'_>,
    arguments: Args<'_>,
) -> String {
    let mut out = Vec::new();
    let (_, outcome) = interpreter.run(
        run,
        (keys, arguments),
        Box::new(TestServer(server)),
        &mut ReplyBuffer::new(&mut out, Protocol::Resp2),
    );
    assert!(matches!(outcome, RunOutcome::Replied | RunOutcome::Failed(_)), "{outcome:?}");
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn a_script_changes_nothing_that_the_next_one_sees() {
    for allows_insecure_api in [false, true] {
        let mut interpreter = interpreter(allows_insecure_api);
        let settings = run(&mut interpreter, SETTINGS);
        let walked = run(&mut interpreter, &format!("{WALK}{MARK}"));
        assert!(walked.starts_with("*2\r\n:"), "{walked}");
        let count: u32 =
            walked[5..].split("\r\n").next().and_then(|text| text.parse().ok()).expect("a number");
        assert!(count > 150, "the walk reaches the libraries: {walked}");
        assert_eq!(run(&mut interpreter, &format!("{WALK}{REPORT}")), "$0\r\n\r\n");
        assert_eq!(run(&mut interpreter, SETTINGS), settings);
    }
}

/// The walk finds what it looks for: a table that is handed from one run to the next.
#[test]
fn the_walk_reports_a_table_that_outlives_its_script() {
    let mut interpreter = interpreter(false);
    let library = "#!lua name=a\nlocal kept = {}\nserver.register_function('kept', function() return kept end)\n\
                   server.register_function('walk', function() local walk_kept = kept\n";
    let report = REPORT.replace("walk(_G, '_G', 0, report)", "walk(walk_kept, 'kept', 0, report)");
    let code = format!(
        "{library}{WALK}{report}\nend)\nserver.register_function('mark', function() kept.MARK = true end)"
    );
    interpreter.load_library(code.as_bytes()).expect("the library is loaded");
    let none = ArgsBuf::new();
    let call = |interpreter: &mut Interpreter<TestServer>, name: &[u8]| {
        run_as(interpreter, Runnable::Function { name }, none.args(), none.args())
    };
    assert_eq!(call(&mut interpreter, b"walk"), "$0\r\n\r\n");
    call(&mut interpreter, b"mark");
    assert!(call(&mut interpreter, b"walk").contains("kept index"));
}

#[test]
fn the_metatable_of_arrays_runs_no_code_of_others() {
    let mut interpreter = interpreter(false);
    let attack = "cjson.decode_array_with_array_mt(true) local m = getmetatable(cjson.decode('[]')) ";
    for change in [
        "m.__index = function() return 5 end",
        "rawset(m, '__index', function() return 5 end)",
        "setmetatable(m, {__index = function() return 5 end})",
        "table.insert(m, 5)",
    ] {
        let reply = run(&mut interpreter, &format!("{attack}{change}"));
        assert!(reply.starts_with("-ERR") && reply.contains("Attempt to modify a readonly table"), "{reply}");
    }
    // It marks arrays, as before.
    let marked = "cjson.decode_array_with_array_mt(true) return cjson.encode({cjson.decode('[]'), {}})";
    assert_eq!(run(&mut interpreter, marked), "$7\r\n[[],{}]\r\n");
    let shared = "cjson.decode_array_with_array_mt(true) \
                  return cjson.encode(setmetatable({}, getmetatable(cjson.decode('[1]'))))";
    assert_eq!(run(&mut interpreter, shared), "$2\r\n[]\r\n");
    assert_eq!(
        run(&mut interpreter, "return cjson.decode('[]')[1] == nil and cjson.encode({})"),
        "$2\r\n{}\r\n"
    );
}

#[test]
fn a_function_does_not_see_the_arguments_of_a_script() {
    let mut interpreter = interpreter(false);
    let code = "#!lua name=a\nserver.register_function('f', function(keys) return {keys[1], pcall(function() return KEYS end)} end)";
    interpreter.load_library(code.as_bytes()).expect("the library is loaded");
    assert_eq!(run(&mut interpreter, "return KEYS[1]"), "$6\r\nsecret\r\n");
    let keys = ArgsBuf::from_iter([&b"own"[..]]);
    let none = ArgsBuf::new();
    for _ in 0..2 {
        let reply = run_as(&mut interpreter, Runnable::Function { name: b"f" }, keys.args(), none.args());
        assert!(reply.starts_with("*3\r\n$3\r\nown\r\n$-1\r\n") && reply.contains("'KEYS'"), "{reply}");
    }
    assert_eq!(run(&mut interpreter, "return ARGV[1]"), "$8\r\npassword\r\n");
}

#[test]
fn a_seed_ends_with_its_script() {
    let mut seeded = interpreter(false);
    let mut other = interpreter(false);
    let draw = "return tostring(math.random())";
    assert_eq!(run(&mut seeded, draw), run(&mut other, draw));
    let own = run(&mut seeded, "math.randomseed(5) return tostring(math.random())");
    assert_eq!(run(&mut seeded, "math.randomseed(5) return tostring(math.random())"), own);
    assert_eq!(run(&mut seeded, draw), run(&mut other, draw));
}
