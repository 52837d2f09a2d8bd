//! Replies become Lua values, and Lua values become replies.
//!
//! The rules are those of Redis: in RESP2 null is `false`, a status is a table with the field `ok`, an error one with
//! `err`; in RESP3 maps, sets, doubles, big numbers and verbatim strings are tables with one field that names them.

use commands::error::up_to_nul;
use mlua::{Lua, Table, Value};
use wire::reply::ReplyBuffer;

use crate::failure::{reply_table, text_of};
use crate::number::write_general;

/// Tables in tables beyond this depth are not converted.
const DEPTH_MAX: usize = 1_000;

const TOO_DEEP: &str = "ERR reached lua stack limit";

/// A reply, as a value of Lua.
pub(crate) enum Converted {
    Value(Value),
    /// The reply is an error.
    Error(Vec<u8>),
}

/// Converts the reply of a command, which is complete.
pub(crate) fn to_lua(lua: &Lua, reply: &[u8]) -> mlua::Result<Converted> {
    if let [b'-', text @ .., b'\r', b'\n'] = reply {
        return Ok(Converted::Error(text.to_vec()));
    }
    let mut reader = Reader { rest: reply };
    reader.value(lua).map(Converted::Value)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> &'a [u8] {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n").unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        line
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let bytes = self.rest.get(..len).unwrap_or_default();
        self.rest = self.rest.get(len + 2..).unwrap_or_default();
        bytes
    }

    fn value(&mut self, lua: &Lua) -> mlua::Result<Value> {
        let line = self.line();
        let Some((kind, text)) = line.split_first() else { return Ok(Value::Nil) };
        let number = || -> i64 { wire::number::parse_i64_strict(text).unwrap_or(0) };
        Ok(match kind {
            b'+' => single(lua, "ok", Value::String(lua.create_string(text)?))?,
            b'-' => reply_table(lua, text, true)?,
            b':' => Value::Number(number() as f64),
            b'$' => match usize::try_from(number()) {
                Ok(len) => Value::String(lua.create_string(self.bytes(len))?),
                Err(_) => Value::Boolean(false),
            },
            b'*' | b'>' => match usize::try_from(number()) {
                Ok(len) => self.array(lua, len)?,
                Err(_) => Value::Boolean(false),
            },
            b'_' => Value::Nil,
            b'#' => Value::Boolean(text == b"t"),
            b',' => {
                let value = wire::number::parse_f64(text).unwrap_or(f64::NAN);
                single(lua, "double", Value::Number(value))?
            }
            b'(' => single(lua, "big_number", Value::String(lua.create_string(text)?))?,
            b'=' => {
                let content = self.bytes(number() as usize);
                let inner = lua.create_table_with_capacity(0, 2)?;
                inner.raw_set("format", lua.create_string(content.get(..3).unwrap_or_default())?)?;
                inner.raw_set("string", lua.create_string(content.get(4..).unwrap_or_default())?)?;
                single(lua, "verbatim_string", Value::Table(inner))?
            }
            b'%' => {
                let inner = lua.create_table()?;
                for _ in 0..number() {
                    let (key, value) = (self.value(lua)?, self.value(lua)?);
                    if !key.is_nil() {
                        inner.raw_set(key, value)?;
                    }
                }
                single(lua, "map", Value::Table(inner))?
            }
            // Attributes are not shown.
            b'|' => {
                for _ in 0..2 * number() {
                    self.value(lua)?;
                }
                self.value(lua)?
            }
            b'~' => {
                let inner = lua.create_table()?;
                for _ in 0..number() {
                    let member = self.value(lua)?;
                    if !member.is_nil() {
                        inner.raw_set(member, true)?;
                    }
                }
                single(lua, "set", Value::Table(inner))?
            }
            _ => Value::Nil,
        })
    }

    fn array(&mut self, lua: &Lua, len: usize) -> mlua::Result<Value> {
        // The reply has that many elements, so their number is bounded by its size.
        let table = lua.create_table_with_capacity(len.min(self.rest.len()), 0)?;
        for index in 1..=len {
            table.raw_set(index, self.value(lua)?)?;
        }
        Ok(Value::Table(table))
    }
}

fn single(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    Ok(Value::Table(lua.create_table_from([(name, value)])?))
}

/// Writes a value as a reply. `script_resp3`: the version that the script has set, which decides about booleans.
/// Returns an error text to be counted, if the whole reply is an error.
pub(crate) fn to_reply(value: &Value, script_resp3: bool, out: &mut ReplyBuffer<'_>) -> Option<ErrorReply> {
    let mut writer = Writer { script_resp3, out, error: None };
    writer.value(value, 0);
    writer.error
}

/// An error that a script has returned.
#[derive(Debug)]
pub struct ErrorReply {
    /// Its text, which begins with its code.
    pub text: Vec<u8>,
    /// Whether it is in the statistics already.
    pub is_counted: bool,
}

struct Writer<'a, 'b> {
    script_resp3: bool,
    out: &'a mut ReplyBuffer<'b>,
    error: Option<ErrorReply>,
}

impl Writer<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) {
        if depth > DEPTH_MAX {
            self.out.error(TOO_DEEP);
            return;
        }
        match value {
            Value::String(text) => self.out.bulk(&text.as_bytes()),
            Value::Boolean(value) if self.script_resp3 => self.boolean(*value),
            Value::Boolean(true) => self.out.integer(1),
            Value::Integer(value) => self.out.integer(*value),
            Value::Number(value) => self.out.integer(to_integer(*value)),
            Value::Table(table) => self.table(table, depth),
            _ => self.out.null(),
        }
    }

    /// RESP2 has no booleans.
    fn boolean(&mut self, value: bool) {
        if self.out.is_resp3() { self.out.boolean(value) } else { self.out.integer(i64::from(value)) }
    }

    fn table(&mut self, table: &Table, depth: usize) {
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(text) = field("err") {
            let is_counted = matches!(field("ignore_error_stats_update"), Value::Boolean(true));
            let text = error_line(&text.as_bytes());
            self.out.error(&text);
            if depth == 0 {
                self.error = Some(ErrorReply { text, is_counted });
            }
            return;
        }
        if let Value::String(text) = field("ok") {
            return self.out.simple(one_line(&text.as_bytes()));
        }
        match field("double") {
            Value::Number(value) => return self.out.double(value),
            Value::Integer(value) => return self.out.double(value as f64),
            _ => {}
        }
        if let Value::String(digits) = field("big_number") {
            return self.out.big_number(&one_line(&digits.as_bytes()));
        }
        if let Value::Table(verbatim) = field("verbatim_string")
            && let (Ok(Value::String(format)), Ok(Value::String(text))) =
                (verbatim.raw_get::<Value>("format"), verbatim.raw_get::<Value>("string"))
        {
            let mut letters = [b' '; 3];
            for (letter, given) in letters.iter_mut().zip(format.as_bytes().iter()) {
                *letter = *given;
            }
            return self.out.verbatim(&letters, &text.as_bytes());
        }
        if let Value::Table(map) = field("map") {
            let header = self.out.deferred_map();
            let mut len = 0;
            for pair in map.pairs::<Value, Value>() {
                let Ok((key, value)) = pair else { break };
                self.value(&key, depth + 1);
                self.value(&value, depth + 1);
                len += 1;
            }
            self.out.set_len(header, len);
            return;
        }
        if let Value::Table(set) = field("set") {
            let header = self.out.deferred_set();
            let mut len = 0;
            for pair in set.pairs::<Value, Value>() {
                let Ok((member, _)) = pair else { break };
                self.value(&member, depth + 1);
                len += 1;
            }
            self.out.set_len(header, len);
            return;
        }
        let header = self.out.deferred_array();
        let mut len = 0;
        loop {
            match table.raw_get::<Value>(len + 1) {
                Ok(Value::Nil) | Err(_) => break,
                Ok(value) => self.value(&value, depth + 1),
            }
            len += 1;
        }
        self.out.set_len(header, len);
    }
}

/// As C converts: what an `i64` cannot hold becomes its minimum.
pub(crate) fn to_integer(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// A status or an error is one line, and ends at a NUL.
pub(crate) fn one_line(text: &[u8]) -> Vec<u8> {
    up_to_nul(text).iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// An error is one line too. Line ends at its end are dropped.
pub(crate) fn error_line(text: &[u8]) -> Vec<u8> {
    let text = up_to_nul(text);
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    one_line(&text[..end])
}

/// The reply for a script that failed: `value` is what the error handler of the sandbox has made of the error.
pub(crate) fn failure_reply(value: &Value) -> ErrorReply {
    let Value::Table(table) = value else {
        let text = match value {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Error(error) => text_of(error).into_bytes(),
            _ => b"execution failure".to_vec(),
        };
        let shown = &text[..text.len().min(100)];
        let text = error_line(&[b"ERR Error running script, ", shown].concat());
        return ErrorReply { text, is_counted: false };
    };
    let text_field = |name: &str| match table.raw_get::<Value>(name) {
        // Each part ends at a NUL of its own.
        Ok(Value::String(text)) => Some(up_to_nul(&text.as_bytes()).to_vec()),
        Ok(Value::Integer(number)) => Some(number.to_string().into_bytes()),
        Ok(Value::Number(number)) => Some(number_text(number)),
        _ => None,
    };
    let mut text = text_field("err").unwrap_or_else(|| b"ERR unknown error".to_vec());
    if let (Some(source), Some(line)) = (text_field("source"), text_field("line")) {
        text.extend([b" script: on ", &source[..], b":", &line[..], b"."].concat());
    }
    let is_counted = matches!(table.raw_get::<Value>("ignore_error_stats_update"), Ok(Value::Boolean(true)));
    ErrorReply { text: error_line(&text), is_counted }
}

/// A number as Lua shows it.
fn number_text(number: f64) -> Vec<u8> {
    const PRECISION: usize = 14;
    let mut text = Vec::new();
    match number.is_finite() {
        true => write_general(&mut text, number, PRECISION),
        false => text.extend_from_slice(number.to_string().to_lowercase().as_bytes()),
    }
    text
}
