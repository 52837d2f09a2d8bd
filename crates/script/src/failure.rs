//! The errors that functions of the host raise in a script.
//!
//! Lua sees them as userdata; the sandbox replaces them by [`explain`] before a script does.

use std::fmt;

use mlua::{Error, IntoLua, Lua, Value};

/// An error that a function of the host raises.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// A table with the field `err`, as errors of commands are. `is_counted`: it is in the statistics already.
    Reply { text: Vec<u8>, is_counted: bool },
    /// A text, as errors of Lua's own libraries are.
    Text(Vec<u8>),
    /// The script is to end whatever it does: it was killed, or must be run again.
    End(End),
}

/// Why a script ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    Again,
}

/// Why a function of the host ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The script was killed.
    Killed,
    /// The code of a library runs too long.
    Timeout,
    /// There is no memory for the result.
    Memory,
}

/// The error of Lua for an allocation that fails.
pub(crate) const NO_MEMORY: &str = "not enough memory";

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Killed => Failure::End(End::Killed),
            Stopped::Timeout => {
                Failure::Reply { text: b"ERR FUNCTION LOAD timeout".to_vec(), is_counted: false }
            }
            Stopped::Memory => Failure::Text(NO_MEMORY.as_bytes().to_vec()),
        }
        .into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply { text, .. } | Self::Text(text) => write!(out, "{}", text.escape_ascii()),
            Self::End(end) => write!(out, "{end:?}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::external(failure)
    }
}

/// An error of the API, as a reply with the code `ERR`.
pub(crate) fn api_error(text: &str) -> Error {
    Failure::Reply { text: format!("ERR {text}").into_bytes(), is_counted: false }.into()
}

/// An error of a library, which begins with the place in the script that called it.
pub(crate) fn library_error(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    let mut full = place_of_caller(lua);
    full.extend_from_slice(text.as_ref());
    Failure::Text(full).into()
}

/// The error of an argument of a library's function. The function is named as the script calls it.
pub(crate) fn bad_argument(lua: &Lua, number: usize, function: &str, problem: &str) -> Error {
    // 0: the function, 1: what limits its arguments, which the script calls.
    let called = lua.inspect_stack(1, |debug| {
        let names = debug.names();
        (names.name.map(|name| name.into_owned()), names.name_what == Some("method"))
    });
    let (name, is_method) = called.unwrap_or((Some(function.to_owned()), false));
    let name = name.unwrap_or_else(|| "?".to_owned());
    let text = match number.checked_sub(usize::from(is_method)) {
        Some(0) if is_method => format!("calling '{name}' on bad self ({problem})"),
        number => format!("bad argument #{} to '{name}' ({problem})", number.unwrap_or(0)),
    };
    library_error(lua, text)
}

/// The frames that are searched for the place of an error.
const FRAME_COUNT_MAX: usize = 8;

/// As Lua's `luaL_where(L, 1)`: the place in the function that called the running one, apart from those of the sandbox.
fn place_of_caller(lua: &Lua) -> Vec<u8> {
    for level in 2..FRAME_COUNT_MAX {
        let place = lua.inspect_stack(level, |debug| {
            let source = debug.source().short_src.map(|text| text.into_owned()).unwrap_or_default();
            (source, debug.current_line())
        });
        match place {
            Some((source, _)) if source == "sandbox" => {}
            Some((source, Some(line))) => return format!("{source}:{line}: ").into_bytes(),
            Some((_, None)) | None => break,
        }
    }
    Vec::new()
}

/// The end of an error's text that names the place in the script.
pub(crate) fn named_place(source: &[u8], line: &[u8]) -> Vec<u8> {
    [b" script: on ", source, b":", line, b"."].concat()
}

/// The longest name of code that a place shows, in bytes: a script may give code that it compiles any name.
const SOURCE_SIZE_MAX: usize = 60;

/// [`named_place`] of the script that runs: where its own code is. Empty if none of its frames is among the first ones.
pub(crate) fn place_in_script(lua: &Lua) -> String {
    let place = |level| {
        lua.inspect_stack(level, |debug| {
            let source = debug.source().source?;
            let is_name = source.starts_with('@') && source.len() <= SOURCE_SIZE_MAX;
            let line = debug.current_line().filter(|_| is_name)?;
            let place = named_place(source.as_bytes(), line.to_string().as_bytes());
            Some(String::from_utf8_lossy(&place).into_owned())
        })
    };
    (0..FRAME_COUNT_MAX).map_while(place).find_map(|place| place).unwrap_or_default()
}

/// Returns what a script sees of an error: a table, a text, or nil if it must not catch it.
pub(crate) fn explain(lua: &Lua, error: &Error) -> mlua::Result<Value> {
    match failure_of(error) {
        Some(Failure::Reply { text, is_counted }) => reply_table(lua, text, *is_counted),
        Some(Failure::Text(text)) => lua.create_string(text)?.into_lua(lua),
        Some(Failure::End(_)) => Ok(Value::Nil),
        None => lua.create_string(text_of(error))?.into_lua(lua),
    }
}

/// The table for an error reply.
pub(crate) fn reply_table(lua: &Lua, text: &[u8], is_counted: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    if is_counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// The failure within an error of the binding.
pub(crate) fn failure_of(error: &Error) -> Option<&Failure> {
    match error {
        Error::CallbackError { cause, .. } => failure_of(cause),
        Error::ExternalError(inner) => inner.downcast_ref::<Failure>(),
        _ => None,
    }
}

/// The text of an error of Lua or the binding.
pub(crate) fn text_of(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } => text_of(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => {
            text.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
