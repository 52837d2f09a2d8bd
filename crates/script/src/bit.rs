//! The library `bit`: operations on 32-bit integers, as in LuaBitOp.

use mlua::{Lua, MultiValue, Table, Value};

use crate::failure::bad_argument;
use crate::memory::host_function;

/// The library.
pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.set(
        "tobit",
        host_function(lua, |lua, args: MultiValue| number(lua, &args, 0, "tobit").map(show))?,
    )?;
    library.set(
        "bnot",
        host_function(lua, |lua, args: MultiValue| number(lua, &args, 0, "bnot").map(|value| show(!value)))?,
    )?;
    library.set(
        "bswap",
        host_function(lua, |lua, args: MultiValue| {
            number(lua, &args, 0, "bswap").map(|value| show(value.swap_bytes()))
        })?,
    )?;
    fold(lua, &library, "band", |left, right| left & right)?;
    fold(lua, &library, "bor", |left, right| left | right)?;
    fold(lua, &library, "bxor", |left, right| left ^ right)?;
    shift(lua, &library, "lshift", |value, count| value << count)?;
    shift(lua, &library, "rshift", |value, count| value >> count)?;
    shift(lua, &library, "arshift", |value, count| ((value as i32) >> count) as u32)?;
    shift(lua, &library, "rol", u32::rotate_left)?;
    shift(lua, &library, "ror", u32::rotate_right)?;
    library.set("tohex", host_function(lua, to_hex)?)?;
    Ok(library)
}

fn fold(lua: &Lua, library: &Table, name: &'static str, operation: fn(u32, u32) -> u32) -> mlua::Result<()> {
    library.set(
        name,
        host_function(lua, move |lua, args: MultiValue| {
            let mut result = number(lua, &args, 0, name)?;
            for index in 1..args.len() {
                result = operation(result, number(lua, &args, index, name)?);
            }
            Ok(show(result))
        })?,
    )
}

fn shift(lua: &Lua, library: &Table, name: &'static str, operation: fn(u32, u32) -> u32) -> mlua::Result<()> {
    library.set(
        name,
        host_function(lua, move |lua, args: MultiValue| {
            let value = number(lua, &args, 0, name)?;
            let count = number(lua, &args, 1, name)? & 31;
            Ok(show(operation(value, count)))
        })?,
    )
}

fn to_hex(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::LuaString> {
    let value = number(lua, &args, 0, "tohex")?;
    let digits = if args.len() < 2 { 8 } else { number(lua, &args, 1, "tohex")? as i32 };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    lua.create_string(&text[8 - count..])
}

fn show(value: u32) -> f64 {
    f64::from(value as i32)
}

/// An argument, reduced to 32 bits.
fn number(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<u32> {
    let value = args.get(index).cloned().unwrap_or(Value::Nil);
    let found = if args.len() > index { value.type_name() } else { "no value" };
    let number = lua
        .coerce_number(value)?
        .ok_or_else(|| bad_argument(lua, index + 1, function, &format!("number expected, got {found}")))?;
    // With this number added, the low bits of the mantissa are those of the integer. Of numbers beyond 2^51 they are not, but
    // scripts get what they get from the library that others use.
    const MANTISSA_SHIFT: f64 = 6_755_399_441_055_744.0;
    Ok((number + MANTISSA_SHIFT).to_bits() as u32)
}
