//! Lua values become JSON. They are read on the stack of Lua: a value of the binding for each element, in a protected call of Lua,
//! would take twice as long.

use std::ffi::c_int;

use mlua::{Lua, Table, Value};

use super::{CjsonSettings, Invalid, NESTING_MAX};
use crate::failure::library_error;
use crate::meter::Meter;
use crate::number::write_general;
use crate::stack::{LuaType, Stack, with_stack};

/// Values on the stack for a level of nesting: a table, a key, a value and a copy.
const LEVEL_ROOM: c_int = 4;

/// Returns the JSON of a value. The stack uses no `names`.
pub(super) fn encode(
    lua: &Lua,
    value: &Value,
    settings: CjsonSettings,
    (marker, names): (&Table, &Table),
    meter: &Meter,
) -> mlua::Result<Vec<u8>> {
    let mut encoder = Encoder { lua, settings, marker, meter, out: Vec::new() };
    with_stack(lua, names, |stack| {
        if !stack.reserve(LEVEL_ROOM) {
            return Err(encoder.refused_nesting(0));
        }
        stack.push(value);
        encoder.value(stack, 0)
    })?;
    Ok(encoder.out)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: CjsonSettings,
    marker: &'a Table,
    meter: &'a Meter,
    out: Vec<u8>,
}

/// The form of a table.
enum TableForm {
    Array(c_int),
    Object,
}

/// Why a search for the form of a table ended.
enum FormEnd {
    /// A key is not an index.
    OtherKey,
    Failed(mlua::Error),
}

impl Encoder<'_> {
    fn refused(&self, what: &str, reason: &str) -> mlua::Error {
        library_error(self.lua, format!("Cannot serialise {what}: {reason}"))
    }

    fn refused_nesting(&self, depth: i64) -> mlua::Error {
        library_error(self.lua, format!("Cannot serialise, excessive nesting ({depth})"))
    }

    /// Writes the topmost value.
    fn value(&mut self, stack: &mut Stack<'_>, depth: i64) -> mlua::Result<()> {
        let at = stack.top();
        match stack.kind(at) {
            LuaType::Nil => self.out.extend_from_slice(b"null"),
            LuaType::Boolean => {
                self.out.extend_from_slice(if stack.is_true(at) { b"true" } else { b"false" })
            }
            LuaType::Number => self.number(stack.number(at).unwrap_or_default())?,
            LuaType::String => self.string(stack.bytes(at).unwrap_or_default())?,
            LuaType::Table => self.table(stack, depth + 1)?,
            LuaType::Other => match copy_of(stack, at) {
                Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
                other => return Err(self.refused(other.type_name(), "type not supported")),
            },
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> mlua::Result<()> {
        self.meter.element(self.lua, text.len(), self.out.len())?;
        string(&mut self.out, text);
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

    /// Writes the table on the top.
    fn table(&mut self, stack: &mut Stack<'_>, depth: i64) -> mlua::Result<()> {
        let is_deep = depth > self.settings.encode_depth_max.min(NESTING_MAX) || !self.meter.has_stack();
        if is_deep || !stack.reserve(LEVEL_ROOM) {
            return Err(self.refused_nesting(depth));
        }
        self.meter.element(self.lua, 0, self.out.len())?;
        match self.form(stack)? {
            TableForm::Array(len) => self.array(stack, len, depth),
            TableForm::Object => self.object(stack, depth),
        }
    }

    fn array(&mut self, stack: &mut Stack<'_>, len: c_int, depth: i64) -> mlua::Result<()> {
        let table = stack.top();
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            // A sparse array has more elements than the table.
            self.meter.element(self.lua, 0, self.out.len())?;
            stack.push_element(table, index);
            self.value(stack, depth)?;
            stack.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, stack: &mut Stack<'_>, depth: i64) -> mlua::Result<()> {
        let mut is_first = true;
        self.out.push(b'{');
        stack.try_pairs(stack.top(), |stack| {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            self.key(stack, stack.top() - 1)?;
            self.out.push(b':');
            self.value(stack, depth)
        })?;
        self.out.push(b'}');
        Ok(())
    }

    fn key(&mut self, stack: &mut Stack<'_>, at: c_int) -> mlua::Result<()> {
        if let Some(text) = stack.bytes(at) {
            return self.string(text);
        }
        let Some(number) = stack.number(at) else {
            let key = copy_of(stack, at);
            return Err(self.refused(key.type_name(), "table key must be a number or string"));
        };
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }

    /// The form of the table on the top.
    fn form(&self, stack: &mut Stack<'_>) -> mlua::Result<TableForm> {
        let table = stack.top();
        let (mut greatest, mut count) = (0_i64, 0_i64);
        let visited = stack.try_pairs(table, |stack| {
            let index = stack.number(stack.top() - 1).ok_or(FormEnd::OtherKey)?;
            self.meter.work(self.lua, 10).map_err(|stopped| FormEnd::Failed(stopped.into()))?;
            if index < 1.0 || index.fract() != 0.0 {
                return Err(FormEnd::OtherKey);
            }
            if index > greatest as f64 {
                // An index that no `int` of C holds becomes its minimum there, and the table an object.
                let is_int = index <= f64::from(c_int::MAX);
                greatest = if is_int { index as i64 } else { c_int::MIN.into() };
            }
            count += 1;
            Ok(())
        });
        match visited {
            Ok(()) => {}
            Err(FormEnd::OtherKey) => return Ok(TableForm::Object),
            Err(FormEnd::Failed(error)) => return Err(error),
        }
        if greatest < 0 {
            return Ok(TableForm::Object);
        }
        if greatest == 0 {
            let is_marked = matches!(copy_of(stack, table), Value::Table(table)
                if table.metatable().is_some_and(|metatable| metatable == *self.marker));
            return Ok(if is_marked { TableForm::Array(0) } else { TableForm::Object });
        }
        let CjsonSettings { sparse_ratio, sparse_safe, sparse_convert, .. } = self.settings;
        if sparse_ratio > 0 && greatest > count.saturating_mul(sparse_ratio) && greatest > sparse_safe {
            if !sparse_convert {
                return Err(self.refused("table", "excessively sparse array"));
            }
            return Ok(TableForm::Object);
        }
        Ok(TableForm::Array(greatest as c_int))
    }
}

/// A value of the stack as one of the binding.
fn copy_of(stack: &mut Stack<'_>, at: c_int) -> Value {
    stack.push_copy(at);
    stack.pop_value()
}

/// Bytes that stand for themselves in strings.
const IS_PLAIN: [bool; 256] = {
    let mut is_plain = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        is_plain[byte] = byte >= 32
            && byte != 127
            && byte != b'"' as usize
            && byte != b'\\' as usize
            && byte != b'/' as usize;
        byte += 1;
    }
    is_plain
};

fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    while let Some(special) = rest.iter().position(|byte| !IS_PLAIN[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..special]);
        let short = match rest[special] {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            byte @ (b'"' | b'\\' | b'/') => byte,
            byte => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                rest = &rest[special + 1..];
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
        rest = &rest[special + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
