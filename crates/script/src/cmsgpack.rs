//! The library `cmsgpack`: MessagePack from and to Lua values.

use std::ffi::c_int;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::failure::{Failure, Stopped, bad_argument, library_error};
use crate::memory::host_function;
use crate::meter::Meter;
use crate::stack::{LuaType, Stack, with_stack};

/// Tables in tables beyond this depth are packed as nil.
const NESTING_MAX: usize = 16;

/// Nested input beyond this depth is refused: it must not exhaust the stack.
const UNPACKED_NESTING_MAX: usize = 1_000;

/// The error for input that is no MessagePack, or nested too deeply.
const MALFORMED: &str = "Bad data format in input.";

/// Texts from this length on count as several elements, for whose memory there may be no room.
const LONG_TEXT: usize = 1024;

/// Elements for which a table has room before they are read.
const RESERVED_MAX: usize = 16;

/// Results of one call. Each takes a reference of the binding, which has 8,000.
const RESULT_COUNT_MAX: usize = 5_000;

/// The library.
pub(crate) fn library(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.set("_NAME", "cmsgpack")?;
    library.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    // For the stacks on which values are packed and unpacked. They use no names.
    let names = lua.create_table()?;
    let (own, own_names) = (Rc::clone(meter), names.clone());
    library.set(
        "pack",
        host_function(lua, move |lua, args: MultiValue| {
            if args.is_empty() {
                return Err(bad_argument(lua, 0, "pack", "MessagePack pack needs input."));
            }
            let mut packer = Packer { lua, meter: &own, out: Vec::new() };
            with_stack(lua, &own_names, |stack| {
                for arg in &args {
                    if !stack.reserve(LEVEL_ROOM) {
                        return Err(Stopped::Memory.into());
                    }
                    stack.push(arg);
                    packer.value(stack, 0)?;
                    stack.pop(1);
                }
                Ok::<(), mlua::Error>(())
            })?;
            own.room(lua, 2 * packer.out.len())?;
            lua.create_string(packer.out)
        })?,
    )?;
    let (own, own_names) = (Rc::clone(meter), names.clone());
    library.set(
        "unpack",
        host_function(lua, move |lua, args: MultiValue| {
            let text = text_at(lua, &args, "unpack")?;
            let (_, values) = unpack(lua, (&own, &own_names), &text.as_bytes(), 0, 0)?;
            Ok(MultiValue::from_iter(values))
        })?,
    )?;
    let (own, own_names) = (Rc::clone(meter), names.clone());
    library.set(
        "unpack_one",
        host_function(lua, move |lua, args: MultiValue| {
            let text = text_at(lua, &args, "unpack_one")?;
            let offset = integer_at(lua, &args, "unpack_one", 1, 0)?;
            with_offset(lua, (&own, &own_names), &text, 1, offset)
        })?,
    )?;
    let (own, own_names) = (Rc::clone(meter), names.clone());
    library.set(
        "unpack_limit",
        host_function(lua, move |lua, args: MultiValue| {
            let text = text_at(lua, &args, "unpack_limit")?;
            if args.len() < 2 {
                return Err(bad_argument(lua, 2, "unpack_limit", "number expected, got no value"));
            }
            let integer = |index, default| integer_at(lua, &args, "unpack_limit", index, default);
            let (limit, offset) = (integer(1, 0)?, integer(2, 0)?);
            with_offset(lua, (&own, &own_names), &text, limit, offset)
        })?,
    )?;
    Ok(library)
}

fn text_at(lua: &Lua, args: &MultiValue, function: &str) -> mlua::Result<mlua::LuaString> {
    let value = args.front().cloned().unwrap_or(Value::Nil);
    let found = if args.is_empty() { "no value" } else { value.type_name() };
    lua.coerce_string(value)?
        .ok_or_else(|| bad_argument(lua, 1, function, &format!("string expected, got {found}")))
}

fn integer_at(lua: &Lua, args: &MultiValue, function: &str, index: usize, default: i64) -> mlua::Result<i64> {
    match args.get(index) {
        None | Some(Value::Nil) => Ok(default),
        Some(value) => match lua.coerce_number(value.clone())? {
            Some(number) => Ok(crate::conversion::to_integer(number)),
            None => Err(bad_argument(
                lua,
                index + 1,
                function,
                &format!("number expected, got {}", value.type_name()),
            )),
        },
    }
}

fn with_offset(
    lua: &Lua,
    context: (&Meter, &Table),
    text: &mlua::LuaString,
    limit: i64,
    offset: i64,
) -> mlua::Result<MultiValue> {
    let bytes = text.as_bytes();
    if limit < 0 || offset < 0 {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {}.", bytes.len());
        return Err(library_error(lua, text));
    }
    if offset as usize > bytes.len() {
        let text = format!("Start offset {offset} greater than input length {}.", bytes.len());
        return Err(library_error(lua, text));
    }
    let (end, values) = unpack(lua, context, &bytes, offset as usize, limit as usize)?;
    let next = if end == bytes.len() { -1.0 } else { end as f64 };
    Ok(std::iter::once(Value::Number(next)).chain(values).collect())
}

/// Unpacks at most `limit` values, or all if it is 0. Returns where it ended. Tables are built on the stack of Lua: a value of the
/// binding for each element, in a protected call of Lua, would take three times as long.
fn unpack(
    lua: &Lua,
    (meter, names): (&Meter, &Table),
    bytes: &[u8],
    offset: usize,
    limit: usize,
) -> mlua::Result<(usize, Vec<Value>)> {
    let mut reader = Reader { lua, meter, bytes, at: offset };
    let mut values = Vec::new();
    with_stack(lua, names, |stack| {
        while reader.at < bytes.len() && (limit == 0 || values.len() < limit) {
            if values.len() >= RESULT_COUNT_MAX || !stack.reserve(LEVEL_ROOM) {
                let text = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
                return Err(library_error(lua, text));
            }
            reader.value(stack, 0)?;
            values.push(stack.pop_value());
        }
        Ok(())
    })?;
    Ok((reader.at, values))
}

/// Values on the stack for a level of nesting: a table, a key, a value and a copy of the key.
const LEVEL_ROOM: c_int = 4;

struct Packer<'a> {
    lua: &'a Lua,
    meter: &'a Meter,
    out: Vec<u8>,
}

impl Packer<'_> {
    /// Packs the topmost value of the stack.
    fn value(&mut self, stack: &mut Stack<'_>, nesting: usize) -> mlua::Result<()> {
        let at = stack.top();
        let kind = stack.kind(at);
        let size = if kind == LuaType::String { stack.bytes(at).map_or(0, <[u8]>::len) } else { 0 };
        self.meter.element(self.lua, size, self.out.len())?;
        let out = &mut self.out;
        match kind {
            LuaType::Boolean => out.push(if stack.is_true(at) { 0xC3 } else { 0xC2 }),
            LuaType::Number => pack_number(out, stack.number(at).unwrap_or_default()),
            LuaType::String => pack_string(out, stack.bytes(at).unwrap_or_default()),
            // A table that is nested too deeply is packed as nil.
            LuaType::Table if nesting < NESTING_MAX => self.table(stack, nesting)?,
            LuaType::Table | LuaType::Nil | LuaType::Other => out.push(0xC0),
        }
        Ok(())
    }

    /// Packs the table on the top of the stack.
    fn table(&mut self, stack: &mut Stack<'_>, nesting: usize) -> mlua::Result<()> {
        if !stack.reserve(LEVEL_ROOM) {
            return Err(Stopped::Memory.into());
        }
        let table = stack.top();
        let (mut greatest, mut count, mut is_array) = (0.0_f64, 0_usize, true);
        stack.try_pairs(table, |stack| {
            count += 1;
            match stack.number(stack.top() - 1) {
                Some(index) if index >= 1.0 && index.fract() == 0.0 => greatest = greatest.max(index),
                _ => is_array = false,
            }
            self.meter.work(self.lua, 10)
        })?;
        if is_array && greatest == count as f64 && c_int::try_from(count).is_ok() {
            pack_len(&mut self.out, count, 0x90, 0xDC);
            for index in 1..=count {
                stack.push_element(table, index as c_int);
                self.value(stack, nesting + 1)?;
                stack.pop(1);
            }
            return Ok(());
        }
        pack_len(&mut self.out, count, 0x80, 0xDE);
        stack.try_pairs(table, |stack| {
            let value = stack.top();
            stack.push_copy(value - 1);
            self.value(stack, nesting + 1)?;
            stack.pop(1);
            self.value(stack, nesting + 1)
        })
    }
}

fn pack_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0..=0x7F => out.push(number as u8),
        -32..=-1 => out.push(number as i8 as u8),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, number as u8]),
        0x100..=0xFFFF => with_tag(out, 0xCD, &(number as u16).to_be_bytes()),
        0x1_0000..=0xFFFF_FFFF => with_tag(out, 0xCE, &(number as u32).to_be_bytes()),
        0x1_0000_0000.. => with_tag(out, 0xCF, &number.to_be_bytes()),
        -128..=-33 => with_tag(out, 0xD0, &(number as i8).to_be_bytes()),
        -32_768..=-129 => with_tag(out, 0xD1, &(number as i16).to_be_bytes()),
        -2_147_483_648..=-32_769 => with_tag(out, 0xD2, &(number as i32).to_be_bytes()),
        _ => with_tag(out, 0xD3, &number.to_be_bytes()),
    }
}

fn with_tag(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn pack_number(out: &mut Vec<u8>, number: f64) {
    if number.fract() == 0.0 && (i64::MIN as f64..-(i64::MIN as f64)).contains(&number) {
        return pack_integer(out, number as i64);
    }
    let short = number as f32;
    if f64::from(short).to_bits() == number.to_bits() {
        with_tag(out, 0xCA, &short.to_be_bytes());
    } else {
        with_tag(out, 0xCB, &number.to_be_bytes());
    }
}

fn pack_string(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..=31 => out.push(0xA0 | len as u8),
        len @ 32..=0xFF => out.extend_from_slice(&[0xD9, len as u8]),
        len @ 0x100..=0xFFFF => with_tag(out, 0xDA, &(len as u16).to_be_bytes()),
        len => with_tag(out, 0xDB, &(len as u32).to_be_bytes()),
    }
    out.extend_from_slice(text);
}

/// The header of an array or map; `long` is the tag for 16-bit lengths, the next one that for 32-bit lengths.
fn pack_len(out: &mut Vec<u8>, len: usize, short: u8, long: u8) {
    match len {
        0..=15 => out.push(short | len as u8),
        16..=0xFFFF => with_tag(out, long, &(len as u16).to_be_bytes()),
        _ => with_tag(out, long + 1, &(len as u32).to_be_bytes()),
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    meter: &'a Meter,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> mlua::Result<&'a [u8]> {
        let end = self.at.checked_add(len);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(library_error(self.lua, "Missing bytes in input.")),
        }
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes.
    fn unsigned(&mut self, size: usize) -> mlua::Result<u64> {
        Ok(self.take(size)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Pushes the next value.
    fn value(&mut self, stack: &mut Stack<'_>, nesting: usize) -> mlua::Result<()> {
        self.meter.element(self.lua, 0, 0)?;
        if nesting > UNPACKED_NESTING_MAX {
            return Err(library_error(self.lua, MALFORMED));
        }
        let tag = self.take(1)?[0];
        match tag {
            0x00..=0x7F => stack.push_number(f64::from(tag)),
            0xE0..=0xFF => stack.push_number(f64::from(tag as i8)),
            0x80..=0x8F => return self.map(stack, usize::from(tag & 15), nesting),
            0x90..=0x9F => return self.array(stack, usize::from(tag & 15), nesting),
            0xA0..=0xBF => return self.text(stack, usize::from(tag & 31)),
            0xC0 => stack.push_nil(),
            0xC2 => stack.push_boolean(false),
            0xC3 => stack.push_boolean(true),
            0xD9 => return self.sized_text(stack, 1),
            0xDA => return self.sized_text(stack, 2),
            0xDB => return self.sized_text(stack, 4),
            0xCA => stack.push_number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xCB => stack.push_number(f64::from_bits(self.unsigned(8)?)),
            // Numbers from 2^63 on come out negative, as from the library that others use.
            0xCC..=0xCF => stack.push_number(self.unsigned(1 << (tag - 0xCC))? as i64 as f64),
            0xD0 => stack.push_number(f64::from(self.unsigned(1)? as i8)),
            0xD1 => stack.push_number(f64::from(self.unsigned(2)? as i16)),
            0xD2 => stack.push_number(f64::from(self.unsigned(4)? as i32)),
            0xD3 => stack.push_number(self.unsigned(8)? as i64 as f64),
            0xDC | 0xDD => {
                let len = self.unsigned(2 << (tag - 0xDC))? as usize;
                return self.array(stack, len, nesting);
            }
            0xDE | 0xDF => {
                let len = self.unsigned(2 << (tag - 0xDE))? as usize;
                return self.map(stack, len, nesting);
            }
            _ => return Err(library_error(self.lua, MALFORMED)),
        }
        Ok(())
    }

    fn sized_text(&mut self, stack: &mut Stack<'_>, size: usize) -> mlua::Result<()> {
        let len = self.unsigned(size)? as usize;
        self.text(stack, len)
    }

    fn text(&mut self, stack: &mut Stack<'_>, len: usize) -> mlua::Result<()> {
        let text = self.take(len)?;
        // The element is counted already.
        if len >= LONG_TEXT { self.meter.element(self.lua, len, 0) } else { self.meter.copy(self.lua, len) }?;
        stack.push_bytes(text);
        Ok(())
    }

    /// Makes room for the values of a table.
    fn enter(&self, stack: &mut Stack<'_>) -> mlua::Result<()> {
        if self.meter.has_stack() && stack.reserve(LEVEL_ROOM) {
            return Ok(());
        }
        Err(library_error(self.lua, MALFORMED))
    }

    /// Reserves little on the word of the input.
    fn array(&mut self, stack: &mut Stack<'_>, len: usize, nesting: usize) -> mlua::Result<()> {
        self.enter(stack)?;
        stack.push_table(len.min(RESERVED_MAX), 0);
        let table = stack.top();
        for index in 1..=len {
            self.value(stack, nesting + 1)?;
            // More elements than this are not in any input.
            stack.put_element(table, index as c_int);
        }
        Ok(())
    }

    fn map(&mut self, stack: &mut Stack<'_>, len: usize, nesting: usize) -> mlua::Result<()> {
        self.enter(stack)?;
        stack.push_table(0, len.min(RESERVED_MAX));
        let table = stack.top();
        for _ in 0..len {
            self.value(stack, nesting + 1)?;
            let key = stack.top();
            self.value(stack, nesting + 1)?;
            // The errors of Lua itself, which have no place.
            let fault = match stack.kind(key) {
                LuaType::Nil => Some("table index is nil"),
                LuaType::Number if stack.number(key).is_some_and(f64::is_nan) => Some("table index is NaN"),
                _ => None,
            };
            if let Some(fault) = fault {
                return Err(Failure::Text(fault.as_bytes().to_vec()).into());
            }
            stack.put(table);
        }
        Ok(())
    }
}
