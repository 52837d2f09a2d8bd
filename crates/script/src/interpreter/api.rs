//! The functions that scripts call: the tables `redis` and `server`, and what the sandbox needs of the host.

use std::rc::Rc;

use commands::error::up_to_nul;
use mlua::{Lua, MultiValue, Table, Value};
use wire::request::ArgsBuf;

use crate::checked::{self, Check};
use crate::conversion;
use crate::failure::{self, End, Failure, api_error, bad_argument, library_error};
use crate::interpreter::{InterpreterSettings, LogLevel, Running, Server, Version, calls};
use crate::memory::host_function;
use crate::meter::Meter;
use crate::natives;
use crate::source::sha1_hex;

/// The longest string that `string.rep` makes, in bytes.
const REPEATED_SIZE_MAX: f64 = 512.0 * 1024.0 * 1024.0;

/// The functions that the sandbox uses.
pub(crate) fn host_functions<S: Server>(lua: &Lua, running: &Rc<Running<S>>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.set(
        "explain",
        host_function(lua, |lua, value: Value| match value {
            Value::Error(error) => failure::explain(lua, &error),
            other => Ok(other),
        })?,
    )?;
    let (pcall, xpcall) = natives::protected_calls(lua)?;
    host.set("pcall", pcall)?;
    host.set("xpcall", xpcall)?;
    host.set("where", host_function(lua, |lua, ()| Ok(place_of_failure(lua)))?)?;
    let state = Rc::clone(running);
    host.set(
        "random",
        host_function(lua, move |lua, args: MultiValue| {
            // A seed is that of the script which has set it.
            let seeded = state.seeded.get();
            let mut random = seeded.unwrap_or_else(|| state.random.get());
            let value = random.next();
            match seeded {
                Some(_) => state.seeded.set(Some(random)),
                None => state.random.set(random),
            }
            random_between(lua, value, &args)
        })?,
    )?;
    let state = Rc::clone(running);
    host.set(
        "randomseed",
        host_function(lua, move |lua, args: MultiValue| {
            let seed = number_at(lua, &args, 0, "randomseed")?;
            let mut random = state.random.get();
            random.seed(conversion::to_integer(seed) as i32);
            state.seeded.set(Some(random));
            Ok(())
        })?,
    )?;
    let meter = Rc::clone(&running.meter);
    host.set("rep", host_function(lua, move |lua, args: MultiValue| repeat(lua, &args, &meter))?)?;
    let meter = Rc::clone(&running.meter);
    host.set("charge", host_function(lua, move |lua, work: usize| Ok(meter.work(lua, work)?))?)?;
    // A function in C or of the sandbox belongs to all scripts.
    host.set(
        "is_shared",
        host_function(lua, |_, function: mlua::Function| {
            let info = function.info();
            Ok(info.what == "C" || info.source.as_deref() == Some("=sandbox"))
        })?,
    )?;
    let state = Rc::clone(running);
    host.set(
        "checked",
        host_function(lua, move |lua, (original, options): (mlua::Function, Table)| {
            let check = Check {
                protected: options.get("protected")?,
                reads: options.get("reads")?,
                unpacks: options.get("unpacks")?,
                cost: options.get::<Option<u32>>("cost")?.unwrap_or(0),
                table_from: options.get("table_from")?,
                compare: options.get("compare")?,
                slow: options.get("slow")?,
                calls: options.get("calls")?,
            };
            checked::checked(lua, &state, &state.names, original, check)
        })?,
    )?;
    let state = Rc::clone(running);
    host.set(
        "pairs",
        host_function(lua, move |lua, functions: (mlua::Function, Table, mlua::Function)| {
            natives::pairs(lua, &state, &state.names, functions)
        })?,
    )?;
    let patterns = lua.create_table()?;
    natives::add_string_functions(lua, running, &running.names, &patterns)?;
    host.set("patterns", patterns)?;
    Ok(host)
}

/// `string.rep`
fn repeat(lua: &Lua, args: &MultiValue, meter: &Meter) -> mlua::Result<mlua::LuaString> {
    let value = args.front().cloned().unwrap_or(Value::Nil);
    let found = type_of(args, 0);
    let Some(text) = lua.coerce_string(value)? else {
        return Err(bad_argument(lua, 1, "rep", &format!("string expected, got {found}")));
    };
    // As C converts a number to an `int`.
    let count = conversion::to_integer(number_at(lua, args, 1, "rep")?) as i32;
    let (text, count) = (text.as_bytes(), usize::try_from(count).unwrap_or(0));
    let size = text.len().saturating_mul(count);
    if size as f64 > REPEATED_SIZE_MAX {
        return Err(library_error(lua, "resulting string too large"));
    }
    // The text is made outside of Lua, and copied.
    meter.room(lua, 2 * size)?;
    meter.copy(lua, size)?;
    lua.create_string(text.repeat(count))
}

/// The type of an argument, as errors name it.
fn type_of(args: &MultiValue, index: usize) -> &'static str {
    match args.get(index) {
        None => "no value",
        Some(Value::Integer(_)) => "number",
        Some(Value::LightUserData(_)) => "userdata",
        Some(value) => value.type_name(),
    }
}

/// The frames that are searched for the place of an error.
const FRAME_COUNT_MAX: usize = 8;

/// The source and line of the function that raised an error, for the error handler; that of its caller if it is one of
/// the host's or of the sandbox.
fn place_of_failure(lua: &Lua) -> (Option<String>, Option<i64>) {
    // 0: `where`, 1: the handler, 2: what raised the error.
    for level in 2..FRAME_COUNT_MAX {
        let place = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let name = source.source.map(|text| text.into_owned());
            let is_own = source.what == "C" || name.as_deref() == Some("=sandbox");
            (is_own, name, debug.current_line())
        });
        match place {
            None => return (None, None),
            Some((true, ..)) => {}
            Some((false, source, line)) => return (source, Some(line.map_or(-1, |line| line as i64))),
        }
    }
    (None, None)
}

fn number_at(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<f64> {
    let value = args.get(index).cloned().unwrap_or(Value::Nil);
    let found = type_of(args, index);
    lua.coerce_number(value)?
        .ok_or_else(|| bad_argument(lua, index + 1, function, &format!("number expected, got {found}")))
}

fn random_between(lua: &Lua, value: f64, args: &MultiValue) -> mlua::Result<f64> {
    let int_at = |index| Ok(f64::from(conversion::to_integer(number_at(lua, args, index, "random")?) as i32));
    match args.len() {
        0 => Ok(value),
        1 => {
            let high: f64 = {
                let high: mlua::Result<f64> = int_at(0);
                high?
            };
            if high < 1.0 {
                return Err(bad_argument(lua, 1, "random", "interval is empty"));
            }
            Ok((value * high).floor() + 1.0)
        }
        2 => {
            let (low, high): (mlua::Result<f64>, mlua::Result<f64>) = (int_at(0), int_at(1));
            let (low, high) = (low?, high?);
            if low > high {
                return Err(bad_argument(lua, 2, "random", "interval is empty"));
            }
            Ok((value * (high - low + 1.0)).floor() + low)
        }
        _ => Err(library_error(lua, "wrong number of arguments")),
    }
}

/// The table `redis`.
pub(crate) fn script_api<S: Server>(
    lua: &Lua,
    running: &Rc<Running<S>>,
    settings: &InterpreterSettings,
) -> mlua::Result<Table> {
    let api = common_api(lua, running, settings)?;
    // The debugger is not there: these do nothing, as outside of a debugging session.
    api.set("breakpoint", host_function(lua, |_, _: MultiValue| Ok(false))?)?;
    api.set("debug", host_function(lua, |_, _: MultiValue| Ok(()))?)?;
    api.set("replicate_commands", host_function(lua, |_, _: MultiValue| Ok(true))?)?;
    Ok(api)
}

/// What the code of a library sees while it is loaded. It runs no commands.
pub(crate) fn library_api<S: Server>(
    lua: &Lua,
    running: &Rc<Running<S>>,
    settings: &InterpreterSettings,
) -> mlua::Result<Table> {
    let api = common_api(lua, running, settings)?;
    for name in
        ["call", "pcall", "acl_check_cmd", "set_repl", "setresp", "sha1hex", "error_reply", "status_reply"]
    {
        api.raw_set(name, Value::Nil)?;
    }
    Ok(api)
}

/// What scripts and functions have in common.
fn common_api<S: Server>(
    lua: &Lua,
    running: &Rc<Running<S>>,
    settings: &InterpreterSettings,
) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    api.set("call", calls::function::<S, true>(lua, running)?)?;
    api.set("pcall", calls::function::<S, false>(lua, running)?)?;
    let state = Rc::clone(running);
    api.set("log", host_function(lua, move |lua, args: MultiValue| log(lua, &state, &args))?)?;
    let state = Rc::clone(running);
    api.set(
        "setresp",
        host_function(lua, move |lua, args: MultiValue| {
            if args.len() != 1 {
                return Err(api_error("server.setresp() requires one argument."));
            }
            match lua.coerce_number(args[0].clone())? {
                Some(2.0) => state.is_resp3.set(false),
                Some(3.0) => state.is_resp3.set(true),
                _ => return Err(api_error("RESP version must be 2 or 3.")),
            }
            Ok(())
        })?,
    )?;
    let state = Rc::clone(running);
    api.set(
        "set_repl",
        host_function(lua, move |lua, args: MultiValue| {
            if args.len() != 1 {
                return Err(api_error("server.set_repl() requires one argument."));
            }
            let flags = lua.coerce_number(args[0].clone())?.unwrap_or(0.0);
            if !(0.0..=3.0).contains(&flags) {
                return Err(api_error(
                    "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
                ));
            }
            with_server(&state, |server| server.set_propagation(flags as u8))
        })?,
    )?;
    let state = Rc::clone(running);
    api.set(
        "acl_check_cmd",
        host_function(lua, move |_, args: MultiValue| {
            let mut request = state.request.borrow_mut();
            fill(&mut request, &args)?;
            let allowed = with_server(&state, |server| server.is_allowed(request.args()))?;
            allowed.ok_or_else(|| api_error("Invalid command passed to server.acl_check_cmd()"))
        })?,
    )?;
    let meter = Rc::clone(&running.meter);
    api.set(
        "sha1hex",
        host_function(lua, move |lua, args: MultiValue| {
            if args.len() != 1 {
                return Err(api_error("wrong number of arguments"));
            }
            let text = lua.coerce_string(args[0].clone())?;
            // A byte takes about as long as sixteen that are copied.
            meter.work(lua, text.as_ref().map_or(0, |text| text.as_bytes().len()))?;
            let digest = text.map_or_else(|| sha1_hex(b""), |text| sha1_hex(&text.as_bytes()));
            lua.create_string(digest)
        })?,
    )?;
    api.set(
        "error_reply",
        host_function(lua, |lua, args: MultiValue| {
            let Some(text) = only_string(&args) else { return wrong_arguments(lua) };
            let text = error_text(&text.as_bytes());
            failure::reply_table(lua, &text, false)
        })?,
    )?;
    api.set(
        "status_reply",
        host_function(lua, |lua, args: MultiValue| {
            let Some(text) = only_string(&args) else { return wrong_arguments(lua) };
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("ok", text)?;
            Ok(Value::Table(table))
        })?,
    )?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        api.set(name, f64::from(value))?;
    }
    for (name, version) in &settings.versions {
        match version {
            Version::Number(number) => api.set(*name, f64::from(*number))?,
            Version::Text(text) => api.set(*name, *text)?,
        }
    }
    Ok(api)
}

fn only_string(args: &MultiValue) -> Option<mlua::LuaString> {
    match args.iter().collect::<Vec<_>>()[..] {
        [Value::String(text)] => Some(text.clone()),
        _ => None,
    }
}

fn wrong_arguments(lua: &Lua) -> mlua::Result<Value> {
    failure::reply_table(lua, b"ERR wrong number or type of arguments", false)
}

/// The text of an error reply that a script makes: with a code, without the `-` of the protocol, and up to a NUL.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = up_to_nul(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text.iter().position(|byte| *byte == b' ') {
        None => [b"ERR ", text].concat(),
        Some(end) => [&text[..=end], trimmed(&text[end + 1..])].concat(),
    }
}

fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b'\r' | b'\n', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

fn with_server<S: Server, R>(running: &Running<S>, act: impl FnOnce(&mut S) -> R) -> mlua::Result<R> {
    let mut server = running.server.borrow_mut();
    let Some(server) = server.as_mut() else {
        return Err(api_error(calls::NO_SERVER));
    };
    Ok(act(server))
}

/// Puts the arguments of a call into a request.
fn fill(request: &mut ArgsBuf, args: &MultiValue) -> mlua::Result<()> {
    calls::clear(request);
    if args.is_empty() {
        return Err(api_error(calls::NO_ARGUMENT));
    }
    for arg in args {
        match arg {
            Value::String(text) => request.push(&text.as_bytes()),
            Value::Integer(number) => request.push_i64(*number),
            Value::Number(number) => calls::push_number(request, *number),
            _ => return Err(api_error(calls::WRONG_ARGUMENT)),
        }
    }
    Ok(())
}

fn log<S: Server>(lua: &Lua, running: &Running<S>, args: &MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(api_error("server.log() requires two arguments or more."));
    }
    let Some(level) = lua.coerce_number(args[0].clone())? else {
        return Err(api_error("First argument must be a number (log level)."));
    };
    let level = match conversion::to_integer(level) {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(api_error("Invalid log level.")),
    };
    let mut text = Vec::new();
    for (index, arg) in args.iter().enumerate().skip(1) {
        if let Some(part) = lua.coerce_string(arg.clone())? {
            if index > 1 {
                text.push(b' ');
            }
            text.extend_from_slice(&part.as_bytes());
        }
    }
    if with_server(running, |server| server.log(level, &text))? {
        Ok(())
    } else {
        Err(Failure::End(End::Again).into())
    }
}
