//! The library `struct`: values from and to C structures in a string.

use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

use crate::failure::{bad_argument, library_error};
use crate::memory::host_function;
use crate::meter::Meter;

/// The largest integer, in bytes.
const INTEGER_SIZE_MAX: usize = 32;

/// The alignment that `!` without a number selects.
const ALIGNMENT: usize = 8;

/// Results of one call. Each takes a reference of the binding, which has 8,000.
const RESULT_COUNT_MAX: usize = 5_000;

/// The longest result, in bytes.
const SIZE_MAX: usize = 512 << 20;

/// The library.
pub(crate) fn library(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, run) in [("pack", pack as LibraryFunction), ("unpack", unpack), ("size", size)] {
        let own = Rc::clone(meter);
        library.set(name, host_function(lua, move |lua, args: MultiValue| run(lua, args, &own))?)?;
    }
    Ok(library)
}

/// A function of the library.
type LibraryFunction = fn(&Lua, MultiValue, &Meter) -> mlua::Result<MultiValue>;

/// The state while a format is read.
struct Format<'a> {
    lua: &'a Lua,
    meter: &'a Meter,
    function: &'static str,
    rest: &'a [u8],
    is_little: bool,
    alignment: usize,
}

/// One item of a format.
struct FormatItem {
    option: u8,
    size: usize,
    /// The bytes before it.
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, meter: &'a Meter, function: &'static str, text: &'a [u8]) -> Self {
        Self { lua, meter, function, rest: text, is_little: cfg!(target_endian = "little"), alignment: 1 }
    }

    /// A number in the format; `None`: there is none.
    fn number(&mut self) -> mlua::Result<Option<usize>> {
        let len = self.rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i32>().ok());
        match number {
            Some(number) => Ok(Some(number as usize)),
            None => Err(library_error(self.lua, "integral size overflow")),
        }
    }

    fn integer_size(&mut self, default: usize) -> mlua::Result<usize> {
        let size = self.number()?.unwrap_or(default);
        if size > INTEGER_SIZE_MAX {
            let text = format!("integral size {size} is larger than limit of {INTEGER_SIZE_MAX}");
            return Err(library_error(self.lua, text));
        }
        Ok(size)
    }

    /// The next item, which would be at this position.
    fn next(&mut self, position: usize) -> mlua::Result<Option<FormatItem>> {
        loop {
            let Some((&option, rest)) = self.rest.split_first() else { return Ok(None) };
            self.meter.element(self.lua, 0, position)?;
            self.rest = rest;
            let size = match option {
                b' ' => continue,
                b'>' => {
                    self.is_little = false;
                    continue;
                }
                b'<' => {
                    self.is_little = true;
                    continue;
                }
                b'!' => {
                    let alignment = self.number()?.unwrap_or(ALIGNMENT);
                    if alignment == 0 || !alignment.is_power_of_two() {
                        return Err(library_error(
                            self.lua,
                            format!("alignment {alignment} is not a power of 2"),
                        ));
                    }
                    self.alignment = alignment;
                    continue;
                }
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b'i' | b'I' => self.integer_size(4)?,
                b'c' => self.number()?.unwrap_or(1),
                b's' => 0,
                _ => {
                    let problem = format!("invalid format option '{}'", char::from(option));
                    return Err(bad_argument(self.lua, 1, self.function, &problem));
                }
            };
            let aligned = if matches!(option, b'c' | b'x' | b's') { 0 } else { size.min(self.alignment) };
            let padding = match aligned {
                0 | 1 => 0,
                aligned => (aligned - (position & (aligned - 1))) & (aligned - 1),
            };
            return Ok(Some(FormatItem { option, size, padding }));
        }
    }
}

fn text_at(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<mlua::LuaString> {
    let value = args.get(index).cloned().unwrap_or(Value::Nil);
    let found = if args.len() > index { value.type_name() } else { "no value" };
    lua.coerce_string(value)?
        .ok_or_else(|| bad_argument(lua, index + 1, function, &format!("string expected, got {found}")))
}

fn number_at(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<f64> {
    let value = args.get(index).cloned().unwrap_or(Value::Nil);
    let found = if args.len() > index { value.type_name() } else { "no value" };
    lua.coerce_number(value)?
        .ok_or_else(|| bad_argument(lua, index + 1, function, &format!("number expected, got {found}")))
}

fn pack(lua: &Lua, mut args: MultiValue, meter: &Meter) -> mlua::Result<MultiValue> {
    let format = text_at(lua, &args, 0, "pack")?;
    // The first missing argument counts as nil, as in Valkey.
    args.push_back(Value::Nil);
    let format = format.as_bytes();
    let mut format = Format::new(lua, meter, "pack", &format);
    let (mut out, mut next) = (Vec::new(), 1);
    while let Some(item) = format.next(out.len())? {
        if out.len() + item.padding + item.size > SIZE_MAX {
            return Err(library_error(lua, "result too large"));
        }
        out.resize(out.len() + item.padding, 0);
        match item.option {
            b'x' => out.push(0),
            b'f' => {
                let value = number_at(lua, &args, next, "pack")? as f32;
                append(&mut out, &value.to_le_bytes(), format.is_little);
            }
            b'd' => {
                let value = number_at(lua, &args, next, "pack")?;
                append(&mut out, &value.to_le_bytes(), format.is_little);
            }
            b'c' | b's' => {
                let text = text_at(lua, &args, next, "pack")?;
                let text = text.as_bytes();
                meter.element(lua, text.len(), out.len())?;
                let size = if item.option == b's' || item.size == 0 { text.len() } else { item.size };
                if text.len() < size {
                    return Err(bad_argument(lua, next + 2, "pack", "string too short"));
                }
                out.extend_from_slice(&text[..size]);
                if item.option == b's' {
                    out.push(0);
                }
            }
            _ => {
                let value = number_at(lua, &args, next, "pack")?;
                let bytes = to_bytes(value);
                let fill = if value < 0.0 { 0xFF } else { 0 };
                let wide: Vec<u8> =
                    (0..item.size).map(|place| bytes.get(place).copied().unwrap_or(fill)).collect();
                append(&mut out, &wide, format.is_little);
            }
        }
        next += usize::from(item.option != b'x');
    }
    meter.room(lua, 2 * out.len())?;
    lua.create_string(out)?.into_lua_multi(lua)
}

/// The bytes of a number as a 64-bit integer, the lowest first.
fn to_bytes(value: f64) -> [u8; 8] {
    if value < 0.0 || !value.is_finite() {
        crate::conversion::to_integer(value).to_le_bytes()
    } else {
        (value as u64).to_le_bytes()
    }
}

fn append(out: &mut Vec<u8>, bytes: &[u8], is_little: bool) {
    if is_little {
        out.extend_from_slice(bytes);
    } else {
        out.extend(bytes.iter().rev());
    }
}

fn unpack(lua: &Lua, args: MultiValue, meter: &Meter) -> mlua::Result<MultiValue> {
    let format = text_at(lua, &args, 0, "unpack")?;
    let data = text_at(lua, &args, 1, "unpack")?;
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let position = if args.len() > 2 { number_at(lua, &args, 2, "unpack")? } else { 1.0 };
    if position == 0.0 {
        return Err(bad_argument(lua, 3, "unpack", "offset must be 1 or greater"));
    }
    // A position before the data wraps, as in C: then the data are too short.
    let mut position = (crate::conversion::to_integer(position) as usize).wrapping_sub(1);
    let mut format = Format::new(lua, meter, "unpack", &format);
    let mut values: Vec<Value> = Vec::new();
    let too_short = || bad_argument(lua, 2, "unpack", "data string too short");
    while let Some(item) = format.next(position)? {
        position = position.checked_add(item.padding).ok_or_else(too_short)?;
        let mut size = item.size;
        let rest = data.get(position..).filter(|rest| rest.len() >= size).ok_or_else(too_short)?;
        match item.option {
            b'x' => {}
            b'c' => {
                if size == 0 {
                    let Some(Value::Number(len)) = values.pop() else {
                        return Err(library_error(lua, "format 'c0' needs a previous size"));
                    };
                    size = usize::try_from(crate::conversion::to_integer(len)).map_err(|_| too_short())?;
                }
                let text = rest.get(..size).ok_or_else(too_short)?;
                meter.element(lua, size, 0)?;
                values.push(Value::String(lua.create_string(text)?));
            }
            b's' => {
                let end = rest.iter().position(|byte| *byte == 0);
                let Some(end) = end else {
                    return Err(library_error(lua, "unfinished string in data"));
                };
                meter.element(lua, end, 0)?;
                values.push(Value::String(lua.create_string(&rest[..end])?));
                size = end + 1;
            }
            option => values.push(Value::Number(number_of(option, &rest[..size], format.is_little))),
        }
        position += size;
        if values.len() > RESULT_COUNT_MAX {
            return Err(library_error(lua, "too many results"));
        }
    }
    values.push(Value::Number(position as f64 + 1.0));
    Ok(MultiValue::from_iter(values))
}

fn number_of(option: u8, bytes: &[u8], is_little: bool) -> f64 {
    let mut lowest_first = bytes.to_vec();
    if !is_little {
        lowest_first.reverse();
    }
    let mut word = [0; 8];
    let used = lowest_first.len().min(8);
    word[..used].copy_from_slice(&lowest_first[..used]);
    let raw = u64::from_le_bytes(word);
    match option {
        b'f' => f64::from(f32::from_bits(raw as u32)),
        b'd' => f64::from_bits(raw),
        b'B' | b'H' | b'L' | b'T' | b'I' => raw as f64,
        _ if used == 0 => 0.0,
        _ => {
            let shift = 64 - 8 * used as u32;
            (((raw << shift) as i64) >> shift) as f64
        }
    }
}

fn size(lua: &Lua, args: MultiValue, meter: &Meter) -> mlua::Result<MultiValue> {
    let format = text_at(lua, &args, 0, "size")?;
    let format = format.as_bytes();
    let mut format = Format::new(lua, meter, "size", &format);
    let mut total = 0_usize;
    while let Some(item) = format.next(total)? {
        match item.option {
            b's' => return Err(bad_argument(lua, 1, "size", "option 's' has no fixed size")),
            b'c' if item.size == 0 => {
                return Err(bad_argument(lua, 1, "size", "option 'c0' has no fixed size"));
            }
            _ => {}
        }
        total = total.saturating_add(item.padding).saturating_add(item.size);
        if total > i32::MAX as usize {
            return Err(bad_argument(lua, 1, "size", "format size overflow"));
        }
    }
    (total as f64).into_lua_multi(lua)
}
