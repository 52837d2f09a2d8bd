//! The library `cjson`: JSON from and to Lua values, as in lua-cjson.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{IntoLua, Lua, MultiValue, Table, Value};

use crate::failure::{bad_argument, library_error};
use crate::memory::host_function;
use crate::meter::Meter;

/// The settings, which scripts may change. They end with the script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CjsonSettings {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    precision: i64,
    keep_buffer: bool,
    invalid_encoding: Invalid,
    decodes_invalid: bool,
    marks_arrays: bool,
}

/// What becomes of numbers that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for CjsonSettings {
    fn default() -> Self {
        DEFAULTS
    }
}

const DEFAULTS: CjsonSettings = CjsonSettings {
    sparse_convert: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_depth_max: 1_000,
    decode_depth_max: 1_000,
    precision: 14,
    keep_buffer: true,
    invalid_encoding: Invalid::Refused,
    decodes_invalid: true,
    marks_arrays: false,
};

/// The greatest depth that a script may set. Recursion ends earlier, when the stack does.
const DEPTH_LIMIT: i64 = i32::MAX as i64;

/// The greatest depth of nested tables. Each level takes two to four values of the 8,000 that a function may have on the stack.
const NESTING_MAX: i64 = 2_000;

/// The library. `array_metatable` marks arrays: it is one table for all scripts, which they must not change.
pub(crate) fn library(
    lua: &Lua,
    meter: &Rc<Meter>,
    settings: &Rc<Cell<CjsonSettings>>,
    array_metatable: &Table,
) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.set("null", Value::NULL)?;
    library.set("_NAME", "cjson")?;
    library.set("_VERSION", "2.1.0")?;
    // For the stacks on which values are read and built.
    let names = lua.create_table()?;
    let (state, marker, meter) = (Rc::clone(settings), array_metatable.clone(), Rc::clone(meter));
    let (decoding, own_names) = (Rc::clone(&meter), names.clone());
    library.set(
        "encode",
        host_function(lua, move |lua, args: MultiValue| {
            if args.len() != 1 {
                return Err(bad_argument(lua, 1, "encode", "expected 1 argument"));
            }
            let text = encode::encode(lua, &args[0], state.get(), (&marker, &own_names), &meter)?;
            meter.room(lua, 2 * text.len())?;
            lua.create_string(text)
        })?,
    )?;
    let (state, marker) = (Rc::clone(settings), array_metatable.clone());
    library.set(
        "decode",
        host_function(lua, move |lua, args: MultiValue| {
            if args.len() != 1 {
                return Err(bad_argument(lua, 1, "decode", "expected 1 argument"));
            }
            let Some(text) = lua.coerce_string(args[0].clone())? else {
                let problem = format!("string expected, got {}", args[0].type_name());
                return Err(bad_argument(lua, 1, "decode", &problem));
            };
            decode::decode(lua, &text.as_bytes(), state.get(), (&marker, &names), &decoding)
        })?,
    )?;
    let number = |name, range, field| {
        let parse = move |lua: &Lua, value: &Value| integer(lua, value, 1, name, range);
        setting(lua, &library, settings, (name, parse), field)
    };
    number("encode_max_depth", (1, DEPTH_LIMIT), |all| &mut all.encode_depth_max)?;
    number("decode_max_depth", (1, DEPTH_LIMIT), |all| &mut all.decode_depth_max)?;
    number("encode_number_precision", (1, 16), |all| &mut all.precision)?;
    let switch = |name, field| {
        let parse = move |lua: &Lua, value: &Value| flag(lua, value, name);
        setting(lua, &library, settings, (name, parse), field)
    };
    switch("encode_keep_buffer", |all| &mut all.keep_buffer)?;
    switch("decode_invalid_numbers", |all| &mut all.decodes_invalid)?;
    switch("decode_array_with_array_mt", |all| &mut all.marks_arrays)?;
    let state = Rc::clone(settings);
    library.set(
        "encode_invalid_numbers",
        host_function(lua, move |lua, args: MultiValue| {
            let mut all = state.get();
            if let Some(value) = args.front() {
                all.invalid_encoding = match value {
                    Value::Boolean(true) => Invalid::Written,
                    Value::Boolean(false) => Invalid::Refused,
                    Value::String(text) if *text == "on" => Invalid::Written,
                    Value::String(text) if *text == "off" => Invalid::Refused,
                    Value::String(text) if *text == "null" => Invalid::Null,
                    _ => return Err(bad_argument(lua, 1, "encode_invalid_numbers", "invalid option")),
                };
                state.set(all);
            }
            match all.invalid_encoding {
                Invalid::Refused => Ok(Value::Boolean(false)),
                Invalid::Written => Ok(Value::Boolean(true)),
                Invalid::Null => lua.create_string("null").map(Value::String),
            }
        })?,
    )?;
    let state = Rc::clone(settings);
    library.set(
        "encode_sparse_array",
        host_function(lua, move |lua, args: MultiValue| {
            let mut all = state.get();
            if let Some(value) = args.front() {
                all.sparse_convert = flag(lua, value, "encode_sparse_array")?;
            }
            if let Some(value) = args.get(1) {
                all.sparse_ratio = integer(lua, value, 2, "encode_sparse_array", (0, i64::from(i32::MAX)))?;
            }
            if let Some(value) = args.get(2) {
                all.sparse_safe = integer(lua, value, 3, "encode_sparse_array", (0, i64::from(i32::MAX)))?;
            }
            state.set(all);
            Ok((all.sparse_convert, all.sparse_ratio, all.sparse_safe))
        })?,
    )?;
    Ok(library)
}

/// Adds a function that returns a setting, and sets it first if it has an argument.
fn setting<T: Copy + IntoLua + 'static>(
    lua: &Lua,
    library: &Table,
    settings: &Rc<Cell<CjsonSettings>>,
    (name, parse): (&'static str, impl Fn(&Lua, &Value) -> mlua::Result<T> + 'static),
    field: fn(&mut CjsonSettings) -> &mut T,
) -> mlua::Result<()> {
    let state = Rc::clone(settings);
    library.set(
        name,
        host_function(lua, move |lua, args: MultiValue| {
            let mut all = state.get();
            if let Some(value) = args.front() {
                *field(&mut all) = parse(lua, value)?;
                state.set(all);
            }
            Ok(*field(&mut all))
        })?,
    )
}

fn integer(
    lua: &Lua,
    value: &Value,
    number: usize,
    function: &str,
    (least, greatest): (i64, i64),
) -> mlua::Result<i64> {
    let Some(given) = lua.coerce_number(value.clone())? else {
        let problem = format!("number expected, got {}", value.type_name());
        return Err(bad_argument(lua, number, function, &problem));
    };
    let given = crate::conversion::to_integer(given);
    if (least..=greatest).contains(&given) {
        Ok(given)
    } else {
        let problem = format!("expected integer between {least} and {greatest}");
        Err(bad_argument(lua, number, function, &problem))
    }
}

fn flag(lua: &Lua, value: &Value, function: &str) -> mlua::Result<bool> {
    match value {
        Value::Boolean(value) => Ok(*value),
        Value::String(text) if *text == "on" => Ok(true),
        Value::String(text) if *text == "off" => Ok(false),
        _ => Err(library_error(lua, format!("bad argument #1 to '{function}' (invalid option)"))),
    }
}
