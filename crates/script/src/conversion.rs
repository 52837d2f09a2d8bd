//! Replies become Lua values, and Lua values become replies.
//!
//! The rules are those of Redis: in RESP2 null is `false`, a status is a table with the field `ok`, an error one with
//! `err`; in RESP3 maps, sets, doubles, big numbers and verbatim strings are tables with one field that names them.

use std::ffi::c_int;

use commands::error::up_to_nul;
use wire::reply::ReplyBuffer;

use crate::failure::{Stopped, named_place};
use crate::meter::Meter;
use crate::number::write_general;
use crate::stack::{LuaType, Name, Stack};

/// Tables in tables beyond this depth are not converted.
const DEPTH_MAX: usize = 1_000;

const TOO_DEEP: &str = "ERR reached lua stack limit";

/// The values on the stack that the conversion of a table needs.
const ROOM: c_int = 6;

/// Pushes the reply of a command, which is complete. `false`: it is an error, and its table is pushed.
///
/// # Errors
/// There is no memory for it. Then what is pushed is of no use.
pub(crate) fn to_lua(stack: &mut Stack<'_>, reply: &[u8], meter: &Meter) -> Result<bool, Stopped> {
    if let [b'-', text @ .., b'\r', b'\n'] = reply {
        push_error(stack, text, true);
        return Ok(false);
    }
    let mut reader = Reader { rest: reply, meter, count: 0, is_short: false };
    reader.value(stack);
    if reader.is_short { Err(Stopped::Memory) } else { Ok(true) }
}

/// Pushes the table of an error reply.
pub(crate) fn push_error(stack: &mut Stack<'_>, text: &[u8], is_counted: bool) {
    if !stack.reserve(ROOM) {
        return stack.push_nil();
    }
    stack.push_table(0, 2);
    let table = stack.top();
    stack.push_name(Name::Err);
    stack.push_bytes(text);
    stack.put(table);
    if is_counted {
        stack.push_name(Name::IsCounted);
        stack.push_boolean(true);
        stack.put(table);
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    meter: &'a Meter,
    /// The values so far.
    count: usize,
    /// Whether there is no memory for further values: what follows is nil.
    is_short: bool,
}

/// A string as long as this is checked against the memory that is left.
const CHECKED_SIZE: usize = 64 << 10;

/// Values between two checks of the memory.
const CHECKED_AT: usize = 256;

impl<'a> Reader<'a> {
    fn line(&mut self) -> &'a [u8] {
        let ends = |at: &usize| self.rest[*at] == b'\r' && self.rest.get(at + 1) == Some(&b'\n');
        let end = (0..self.rest.len()).find(ends).unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        line
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let bytes = self.rest.get(..len).unwrap_or_default();
        self.rest = self.rest.get(len + 2..).unwrap_or_default();
        bytes
    }

    fn has_room(&mut self, stack: &Stack<'_>, size: usize) -> bool {
        if !self.meter.has_room(stack.lua(), size) {
            (self.rest, self.is_short) = (&[], true);
        }
        !self.is_short
    }

    /// Pushes one value.
    fn value(&mut self, stack: &mut Stack<'_>) {
        let room = stack.reserve(ROOM);
        debug_assert!(room, "replies are not as deep as the stack");
        let line = self.line();
        let Some((kind, text)) = line.split_first() else { return stack.push_nil() };
        self.count += 1;
        let size = if line.len() < CHECKED_SIZE { 0 } else { line.len() };
        if (size > 0 || self.count.is_multiple_of(CHECKED_AT)) && !self.has_room(stack, size) {
            return stack.push_nil();
        }
        let number = || -> i64 { wire::number::parse_i64_strict(text).unwrap_or(0) };
        match kind {
            b'+' => single(stack, Name::Ok, |stack| stack.push_bytes(text)),
            b'-' => push_error(stack, text, true),
            b':' => stack.push_number(number() as f64),
            b'$' => match usize::try_from(number()) {
                Ok(len) if len >= CHECKED_SIZE && !self.has_room(stack, len) => stack.push_nil(),
                Ok(len) => stack.push_bytes(self.bytes(len)),
                Err(_) => stack.push_boolean(false),
            },
            b'*' | b'>' => match usize::try_from(number()) {
                Ok(len) => self.array(stack, len),
                Err(_) => stack.push_boolean(false),
            },
            b'#' => stack.push_boolean(text == b"t"),
            b',' => {
                let value = wire::number::parse_f64(text).unwrap_or(f64::NAN);
                single(stack, Name::Double, |stack| stack.push_number(value));
            }
            b'(' => single(stack, Name::BigNumber, |stack| stack.push_bytes(text)),
            b'=' => {
                let content = self.bytes(number() as usize);
                single(stack, Name::Verbatim, |stack| verbatim(stack, content));
            }
            b'%' => single(stack, Name::Map, |stack| {
                stack.push_table(0, 0);
                let table = stack.top();
                for _ in 0..number() {
                    self.value(stack);
                    self.value(stack);
                    stack.put(table);
                }
            }),
            // Attributes are not shown.
            b'|' => {
                for _ in 0..2 * number() {
                    self.value(stack);
                    stack.pop(1);
                }
                self.value(stack);
            }
            b'~' => single(stack, Name::Set, |stack| {
                stack.push_table(0, 0);
                let table = stack.top();
                for _ in 0..number() {
                    self.value(stack);
                    stack.push_boolean(true);
                    stack.put(table);
                }
            }),
            _ => stack.push_nil(),
        }
    }

    fn array(&mut self, stack: &mut Stack<'_>, len: usize) {
        // The reply has that many elements, so their number is bounded by its size.
        stack.push_table(len.min(self.rest.len()), 0);
        let table = stack.top();
        for index in 1..=len {
            self.value(stack);
            stack.put_element(table, index as c_int);
        }
    }
}

/// Pushes a table with one field, whose value `push` pushes.
fn single(stack: &mut Stack<'_>, name: Name, push: impl FnOnce(&mut Stack<'_>)) {
    stack.push_table(0, 1);
    let table = stack.top();
    stack.push_name(name);
    push(stack);
    stack.put(table);
}

fn verbatim(stack: &mut Stack<'_>, content: &[u8]) {
    stack.push_table(0, 2);
    let table = stack.top();
    for (name, text) in [(Name::Format, content.get(..3)), (Name::String, content.get(4..))] {
        stack.push_name(name);
        stack.push_bytes(text.unwrap_or_default());
        stack.put(table);
    }
}

/// Writes the topmost value as a reply. `script_resp3`: the version that the script has set, which decides about booleans.
/// Returns an error text to be counted, if the whole reply is an error.
pub(crate) fn to_reply(
    stack: &mut Stack<'_>,
    script_resp3: bool,
    out: &mut ReplyBuffer<'_>,
) -> Option<ErrorReply> {
    let mut writer = Writer { script_resp3, stack, out, error: None };
    writer.value(0);
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

struct Writer<'a, 'b, 's> {
    script_resp3: bool,
    stack: &'a mut Stack<'s>,
    out: &'a mut ReplyBuffer<'b>,
    error: Option<ErrorReply>,
}

impl Writer<'_, '_, '_> {
    /// Writes the topmost value, and leaves it.
    fn value(&mut self, depth: usize) {
        let at = self.stack.top();
        match self.stack.kind(at) {
            _ if depth > DEPTH_MAX => self.out.error(TOO_DEEP),
            LuaType::String => self.out.bulk(self.stack.bytes(at).unwrap_or_default()),
            LuaType::Boolean => self.boolean(self.stack.is_true(at)),
            LuaType::Number => self.out.integer(to_integer(self.stack.number(at).unwrap_or_default())),
            LuaType::Table if !self.stack.reserve(ROOM) => self.out.error(TOO_DEEP),
            LuaType::Table => {
                self.table(depth);
                self.stack.cut(at);
            }
            LuaType::Nil | LuaType::Other => self.out.null(),
        }
    }

    /// RESP2 has no booleans.
    fn boolean(&mut self, value: bool) {
        match value {
            _ if self.script_resp3 && self.out.is_resp3() => self.out.boolean(value),
            false if !self.script_resp3 => self.out.null(),
            _ => self.out.integer(i64::from(value)),
        }
    }

    /// Pushes a field of the table at `table`, unless it is of another type.
    fn field(&mut self, table: c_int, name: Name, kind: LuaType) -> Option<c_int> {
        self.stack.push_field(table, name);
        let at = self.stack.top();
        if self.stack.kind(at) == kind {
            return Some(at);
        }
        self.stack.pop(1);
        None
    }

    /// Writes the topmost value, a table. Leaves values above it.
    fn table(&mut self, depth: usize) {
        let table = self.stack.top();
        if let Some(at) = self.field(table, Name::Err, LuaType::String) {
            let text = error_line(self.stack.bytes(at).unwrap_or_default());
            self.out.error(&text);
            if depth == 0 {
                self.error = Some(ErrorReply { text, is_counted: is_counted(self.stack, table) });
            }
            return;
        }
        if let Some(at) = self.field(table, Name::Ok, LuaType::String) {
            return self.out.simple(one_line(self.stack.bytes(at).unwrap_or_default()));
        }
        if let Some(at) = self.field(table, Name::Double, LuaType::Number) {
            return self.out.double(self.stack.number(at).unwrap_or_default());
        }
        if let Some(at) = self.field(table, Name::BigNumber, LuaType::String) {
            return self.out.big_number(&one_line(self.stack.bytes(at).unwrap_or_default()));
        }
        if let Some(verbatim) = self.field(table, Name::Verbatim, LuaType::Table) {
            let format = self.field(verbatim, Name::Format, LuaType::String);
            let text = self.field(verbatim, Name::String, LuaType::String);
            if let (Some(format), Some(text)) = (format, text) {
                let mut letters = [b' '; 3];
                let given = self.stack.bytes(format).unwrap_or_default();
                for (letter, given) in letters.iter_mut().zip(given) {
                    *letter = *given;
                }
                return self.out.verbatim(&letters, self.stack.bytes(text).unwrap_or_default());
            }
            self.stack.cut(table);
        }
        if let Some(map) = self.field(table, Name::Map, LuaType::Table) {
            let header = self.out.deferred_map();
            let len = self.pairs(map, depth, true);
            self.out.set_len(header, len);
            return;
        }
        if let Some(set) = self.field(table, Name::Set, LuaType::Table) {
            let header = self.out.deferred_set();
            let len = self.pairs(set, depth, false);
            self.out.set_len(header, len);
            return;
        }
        let header = self.out.deferred_array();
        let mut len = 0;
        loop {
            self.stack.push_element(table, len + 1);
            if self.stack.kind(self.stack.top()) == LuaType::Nil {
                break;
            }
            self.value(depth + 1);
            self.stack.pop(1);
            len += 1;
        }
        self.out.set_len(header, len as usize);
    }

    /// Writes the keys of a table, and its values if `has_values`. Returns their number.
    fn pairs(&mut self, table: c_int, depth: usize, has_values: bool) -> usize {
        let mut len = 0;
        let Self { script_resp3, stack, out, .. } = self;
        stack.pairs(table, |stack| {
            let mut writer = Writer { script_resp3: *script_resp3, stack, out, error: None };
            writer.key(depth + 1);
            if has_values {
                writer.value(depth + 1);
            }
            len += 1;
        });
        len
    }

    /// Writes the key below the topmost value.
    fn key(&mut self, depth: usize) {
        self.stack.push_copy(self.stack.top() - 1);
        self.value(depth);
        self.stack.pop(1);
    }
}

fn is_counted(stack: &mut Stack<'_>, table: c_int) -> bool {
    stack.push_field(table, Name::IsCounted);
    let at = stack.top();
    let is_counted = stack.kind(at) == LuaType::Boolean && stack.is_true(at);
    stack.pop(1);
    is_counted
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

/// The reply for a script that failed. The topmost value is what the error handler of the sandbox has made of the error, and
/// not a value of the host.
pub(crate) fn failure_reply(stack: &mut Stack<'_>) -> ErrorReply {
    let at = stack.top();
    if stack.kind(at) != LuaType::Table || !stack.reserve(ROOM) {
        let text = stack.bytes(at).unwrap_or(b"execution failure");
        let shown = &text[..text.len().min(100)];
        let text = error_line(&[b"ERR Error running script, ", shown].concat());
        return ErrorReply { text, is_counted: false };
    }
    let mut text_field = |name| {
        stack.push_field(at, name);
        let field = stack.top();
        let text = match stack.number(field) {
            Some(number) => Some(number_text(number)),
            // Each part ends at a NUL of its own.
            None => stack.bytes(field).map(|text| up_to_nul(text).to_vec()),
        };
        stack.pop(1);
        text
    };
    let mut text = text_field(Name::Err).unwrap_or_else(|| b"ERR unknown error".to_vec());
    if let (Some(source), Some(line)) = (text_field(Name::Source), text_field(Name::Line)) {
        text.extend(named_place(&source, &line));
    }
    ErrorReply { text: error_line(&text), is_counted: is_counted(stack, at) }
}

/// A number as Lua shows it; one without a fraction with all of its digits.
fn number_text(number: f64) -> Vec<u8> {
    const PRECISION: usize = 14;
    let integer = to_integer(number);
    if (integer as f64).to_bits() == number.to_bits() {
        return integer.to_string().into_bytes();
    }
    let mut text = Vec::new();
    match number.is_finite() {
        true => write_general(&mut text, number, PRECISION),
        false => text.extend_from_slice(number.to_string().to_lowercase().as_bytes()),
    }
    text
}
