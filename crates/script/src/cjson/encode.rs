//! Lua values become JSON.

use mlua::{Lua, Table, Value};

use super::{Invalid, Settings};
use crate::failure::library_error;
use crate::number::write_general;

/// Returns the JSON of a value.
pub(super) fn encode(lua: &Lua, value: &Value, settings: Settings, marker: &Table) -> mlua::Result<Vec<u8>> {
    let mut encoder = Encoder { lua, settings, marker, out: Vec::new() };
    encoder.value(value, 0)?;
    Ok(encoder.out)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: Settings,
    marker: &'a Table,
    out: Vec<u8>,
}

/// The form of a table.
enum Form {
    Array(i64),
    Object,
}

impl Encoder<'_> {
    fn refused(&self, what: &str, reason: &str) -> mlua::Error {
        library_error(self.lua, format!("Cannot serialise {what}: {reason}"))
    }

    fn value(&mut self, value: &Value, depth: i64) -> mlua::Result<()> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(value) => self.out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => string(&mut self.out, &text.as_bytes()),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(self.refused(other.type_name(), "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if number.is_finite() {
            write_general(&mut self.out, number, self.settings.precision as usize);
            return Ok(());
        }
        let text: &[u8] = match self.settings.invalid_encoding {
            Invalid::Refused => return Err(self.refused("number", "must not be NaN or Inf")),
            Invalid::Null => b"null",
            Invalid::Written if number.is_nan() => b"nan",
            Invalid::Written if number > 0.0 => b"inf",
            Invalid::Written => b"-inf",
        };
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        if depth > self.settings.encode_depth_max {
            return Err(library_error(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.form(table)? {
            Form::Array(len) => {
                self.out.push(b'[');
                for index in 1..=len {
                    if index > 1 {
                        self.out.push(b',');
                    }
                    self.value(&table.raw_get(index)?, depth)?;
                }
                self.out.push(b']');
            }
            Form::Object => self.object(table, depth)?,
        }
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => string(&mut self.out, &text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                _ => return Err(self.refused(key.type_name(), "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn form(&self, table: &Table) -> mlua::Result<Form> {
        let (mut greatest, mut count) = (0_i64, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(index) if index >= 1 => {
                    greatest = greatest.max(index);
                    count += 1;
                }
                _ => return Ok(Form::Object),
            }
        }
        if greatest == 0 {
            let is_marked = table.metatable().is_some_and(|metatable| metatable == *self.marker);
            return Ok(if is_marked { Form::Array(0) } else { Form::Object });
        }
        let Settings { sparse_ratio, sparse_safe, sparse_convert, .. } = self.settings;
        if sparse_ratio > 0 && greatest > count.saturating_mul(sparse_ratio) && greatest > sparse_safe {
            if !sparse_convert {
                return Err(self.refused("table", "excessively sparse array"));
            }
            return Ok(Form::Object);
        }
        Ok(Form::Array(greatest))
    }
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
