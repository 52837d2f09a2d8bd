//! Lua values become JSON.

use mlua::{Lua, Table, Value};

use super::{CjsonSettings, Invalid, NESTING_MAX};
use crate::failure::library_error;
use crate::meter::Meter;
use crate::number::write_general;

/// Returns the JSON of a value.
pub(super) fn encode(
    lua: &Lua,
    value: &Value,
    settings: CjsonSettings,
    marker: &Table,
    meter: &Meter,
) -> mlua::Result<Vec<u8>> {
    let mut encoder = Encoder { lua, settings, marker, meter, out: Vec::new() };
    encoder.value(value, 0)?;
    Ok(encoder.out)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: CjsonSettings,
    marker: &'a Table,
    meter: &'a Meter,
    out: Vec<u8>,
}

/// Pairs of an object up to which they are taken at once, in one protected call of Lua instead of one for each.
const PAIRS_AT_ONCE_MAX: usize = 64;

/// The form of a table.
enum TableForm {
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
            Value::String(text) => self.string(text)?,
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(self.refused(other.type_name(), "type not supported")),
        }
        Ok(())
    }

    fn string(&mut self, text: &mlua::LuaString) -> mlua::Result<()> {
        let text = text.as_bytes();
        self.meter.element(self.lua, text.len(), self.out.len())?;
        string(&mut self.out, &text);
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        self.meter.element(self.lua, 0, self.out.len())?;
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
        if depth > self.settings.encode_depth_max.min(NESTING_MAX) || !self.meter.has_stack() {
            return Err(library_error(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        self.meter.element(self.lua, 0, self.out.len())?;
        match self.form(table)? {
            TableForm::Array(len) => {
                self.out.push(b'[');
                for index in 1..=len {
                    if index > 1 {
                        self.out.push(b',');
                    }
                    // A sparse array has more elements than the table.
                    self.meter.element(self.lua, 0, self.out.len())?;
                    self.value(&table.raw_get(index)?, depth)?;
                }
                self.out.push(b']');
            }
            TableForm::Object => self.object(table, depth)?,
        }
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        self.out.push(b'{');
        match small_object(table)? {
            Some(pairs) => {
                for (nth, (key, value)) in pairs.into_iter().enumerate() {
                    self.field(nth, key, &value, depth)?;
                }
            }
            None => {
                for (nth, pair) in table.pairs().enumerate() {
                    let (key, value) = pair?;
                    self.field(nth, key, &value, depth)?;
                }
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn field(&mut self, nth: usize, key: Value, value: &Value, depth: i64) -> mlua::Result<()> {
        if nth > 0 {
            self.out.push(b',');
        }
        match &key {
            Value::String(text) => self.string(text)?,
            Value::Integer(_) | Value::Number(_) => {
                self.out.push(b'"');
                self.value(&key, depth)?;
                self.out.push(b'"');
            }
            _ => return Err(self.refused(key.type_name(), "table key must be a number or string")),
        }
        self.out.push(b':');
        drop(key);
        self.value(value, depth)
    }

    fn form(&self, table: &Table) -> mlua::Result<TableForm> {
        let (mut greatest, mut count) = (0_i64, 0_i64);
        // Most objects show in the first key that they are none with indexes only.
        if let Some(first) = table.pairs::<Value, Value>().next()
            && !matches!(first?.0, Value::Integer(_) | Value::Number(_))
        {
            return Ok(TableForm::Object);
        }
        let mut has_other_keys = false;
        table.for_each(|key: Value, _: Value| {
            self.meter.work(self.lua, 10)?;
            match key {
                Value::Integer(index) if index >= 1 => {
                    if index > greatest {
                        // An index that no `int` of C holds becomes its minimum there, and the table an object.
                        greatest = i32::try_from(index).unwrap_or(i32::MIN).into();
                    }
                    count += 1;
                }
                Value::Number(index) if index >= 1.0 && index.fract() == 0.0 => {
                    greatest = i32::MIN.into();
                    count += 1;
                }
                _ => has_other_keys = true,
            }
            Ok(())
        })?;
        if has_other_keys || greatest < 0 {
            return Ok(TableForm::Object);
        }
        if greatest == 0 {
            let is_marked = table.metatable().is_some_and(|metatable| metatable == *self.marker);
            return Ok(if is_marked { TableForm::Array(0) } else { TableForm::Object });
        }
        let CjsonSettings { sparse_ratio, sparse_safe, sparse_convert, .. } = self.settings;
        if sparse_ratio > 0 && greatest > count.saturating_mul(sparse_ratio) && greatest > sparse_safe {
            if !sparse_convert {
                return Err(self.refused("table", "excessively sparse array"));
            }
            return Ok(TableForm::Object);
        }
        Ok(TableForm::Array(greatest))
    }
}

/// The pairs of an object; `None`: there are many. Nothing is encoded meanwhile: errors would not find the line of the script, and
/// nested calls of Lua are limited.
fn small_object(table: &Table) -> mlua::Result<Option<Vec<(Value, Value)>>> {
    let (mut pairs, mut is_small) = (Vec::new(), true);
    let visited = table.for_each(|key, value| {
        is_small = pairs.len() < PAIRS_AT_ONCE_MAX;
        if !is_small {
            return Err(mlua::Error::external("many pairs"));
        }
        pairs.push((key, value));
        Ok(())
    });
    if is_small { visited.map(|()| Some(pairs)) } else { Ok(None) }
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
