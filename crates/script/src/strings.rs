//! The functions of `string` that match patterns, on the stack of Lua.
//!
//! They behave as those of Lua 5.1, but can be ended, and refuse results for which there is no memory.

use std::ffi::c_int;
use std::ops::Range;

use crate::conversion::to_integer;
use crate::failure::Stopped;
use crate::meter::Meter;
use crate::pattern::{CAPTURE_COUNT_MAX, Capture, Found, Matcher, Stop, is_plain};
use crate::stack::{Leave, LuaType, Stack};

/// The values on the stack that a function needs beside its arguments.
const ROOM: c_int = CAPTURE_COUNT_MAX as c_int + 8;

/// A replacement grows by so many bytes between two checks of the memory and two interrupts.
const UNCHECKED_SIZE_MAX: usize = 1 << 20;

/// Where the pieces of the result of `gsub` are.
const PIECES: c_int = 5;

/// The state of a `gsub` that calls code of the script.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replacing {
    /// Whether the replacement is a function, and not a table.
    pub(crate) calls: bool,
    /// Whether the results are on the stack.
    pub(crate) is_complete: bool,
    /// What is before it in the text is in the pieces.
    position: usize,
    /// The match whose replacement is asked for: where it begins and ends.
    found: Option<(usize, usize)>,
    piece_count: c_int,
    piece_size: usize,
    replaced_count: i32,
    replaced_count_max: i32,
}

/// Asks the server whether the script may go on.
pub(crate) fn interrupt(meter: &Meter, stack: &mut Stack<'_>) -> Leave {
    match meter.interrupt(stack.lua()) {
        Ok(()) => Leave::Return(0),
        Err(stopped) => stack.stop(stopped),
    }
}

/// `string.find(text, pattern [, from [, is_plain]])`
pub(crate) fn find(meter: &Meter, stack: &mut Stack<'_>) -> Leave {
    search(meter, stack, true)
}

/// `string.match(text, pattern [, from])`
pub(crate) fn first_match(meter: &Meter, stack: &mut Stack<'_>) -> Leave {
    search(meter, stack, false)
}

/// Makes room for a search, and checks the text and the pattern. Further arguments are dropped: beside them there may be no room.
fn prepare(stack: &mut Stack<'_>) -> Result<(), Leave> {
    if stack.top() > 4 {
        stack.cut(4);
    }
    let room = stack.reserve(ROOM);
    assert!(room, "a function has few arguments");
    check_texts(stack)
}

fn search(meter: &Meter, stack: &mut Stack<'_>, finds: bool) -> Leave {
    if let Err(leave) = prepare(stack) {
        return leave;
    }
    let len = stack.bytes(1).map_or(0, <[u8]>::len);
    let from = match number_or(stack, 3, 1) {
        Ok(from) => from,
        Err(leave) => return leave,
    };
    let from = match usize::try_from(from) {
        Ok(from) => from.saturating_sub(1).min(len),
        Err(_) => (len as i64).saturating_add(from).max(0) as usize,
    };
    let is_wanted_plain = finds && stack.top() >= 4 && stack.is_true(4);
    let (text, pattern) = (stack.bytes(1).unwrap_or_default(), stack.bytes(2).unwrap_or_default());
    if finds && (is_wanted_plain || is_plain(pattern)) {
        let found = memchr::memmem::find(&text[from..], pattern).map(|at| (from + at, pattern.len()));
        return match found {
            Some((start, len)) => {
                stack.push_number((start + 1) as f64);
                stack.push_number((start + len) as f64);
                ended(meter, stack, len / 16, 2)
            }
            None => not_found(meter, stack, (len - from) / 16),
        };
    }
    let lua = stack.lua();
    let found = Matcher::new(text, pattern, true, counter(meter, lua)).next_from(from);
    match found {
        Err(stop) => stopped(stack, stop),
        Ok(None) => not_found(meter, stack, 0),
        Ok(Some(found)) if finds => {
            stack.push_number((found.start + 1) as f64);
            stack.push_number(found.end as f64);
            match push_captures(meter, stack, &found, found.count) {
                Ok(()) => Leave::Return(2 + found.count as c_int),
                Err(leave) => leave,
            }
        }
        Ok(Some(found)) => match push_captures(meter, stack, &found, found.value_count()) {
            Ok(()) => Leave::Return(found.value_count() as c_int),
            Err(leave) => leave,
        },
    }
}

fn not_found(meter: &Meter, stack: &mut Stack<'_>, work: usize) -> Leave {
    stack.push_nil();
    ended(meter, stack, work, 1)
}

/// Leaves after some work with values.
fn ended(meter: &Meter, stack: &mut Stack<'_>, work: usize, count: c_int) -> Leave {
    match meter.work(stack.lua(), work) {
        Ok(()) => Leave::Return(count),
        Err(stopped) => stack.stop(stopped),
    }
}

/// Checks the arguments of `string.gmatch(text, pattern)`.
pub(crate) fn begin_gmatch(_: &Meter, stack: &mut Stack<'_>) -> Leave {
    match check_texts(stack) {
        Ok(()) => Leave::Return(0),
        Err(leave) => leave,
    }
}

/// The next match of an iterator: the text, the pattern and the place are on the stack, and the place is replaced. Without a
/// match there are no results.
pub(crate) fn next_match(meter: &Meter, stack: &mut Stack<'_>) -> Leave {
    let room = stack.reserve(ROOM);
    assert!(room, "the stack is empty");
    let from = stack.number(3).unwrap_or_default() as usize;
    stack.cut(2);
    let (text, pattern) = (stack.bytes(1).unwrap_or_default(), stack.bytes(2).unwrap_or_default());
    if from > text.len() {
        return Leave::Return(0);
    }
    let found = Matcher::new(text, pattern, false, counter(meter, stack.lua())).next_from(from);
    match found {
        Err(stop) => stopped(stack, stop),
        Ok(None) => Leave::Return(0),
        Ok(Some(found)) => {
            // After an empty match, the next one begins later.
            let next = found.end + usize::from(found.end == found.start);
            stack.push_number(next as f64);
            match push_captures(meter, stack, &found, found.value_count()) {
                Ok(()) => Leave::Return(found.value_count() as c_int),
                Err(leave) => leave,
            }
        }
    }
}

/// Begins `string.gsub(text, pattern, replacement [, count])`. Leaves without values if code of the script is needed.
pub(crate) fn begin_gsub(meter: &Meter, stack: &mut Stack<'_>, replacing: &mut Replacing) -> Leave {
    if let Err(leave) = prepare(stack) {
        return leave;
    }
    let len = stack.bytes(1).map_or(0, <[u8]>::len);
    let count_max = match number_or(stack, 4, len as i64 + 1) {
        Ok(count) => count as i32,
        Err(leave) => return leave,
    };
    let kind = stack.type_name(3);
    if !matches!(kind, "number" | "string" | "function" | "table") {
        return stack.refuse(3, "string/function/table expected");
    }
    if stack.make_text(3) {
        return substitute(meter, stack, count_max);
    }
    while stack.top() < 4 {
        stack.push_nil();
    }
    stack.cut(4);
    stack.push_table(0, 0);
    *replacing =
        Replacing { calls: kind == "function", replaced_count_max: count_max, ..Replacing::default() };
    Leave::Return(0)
}

/// Goes on until the replacement of a match is needed, whose arguments it leaves, or to the end. Above the pieces is the
/// replacement of the match before, if there was one.
pub(crate) fn next_gsub(meter: &Meter, stack: &mut Stack<'_>, replacing: &mut Replacing) -> Leave {
    let room = stack.reserve(ROOM);
    assert!(room, "the stack has few values");
    let len = stack.bytes(1).map_or(0, <[u8]>::len);
    let is_anchored = stack.bytes(2).is_some_and(|pattern| pattern.starts_with(b"^"));
    let mut is_last = replacing.replaced_count >= replacing.replaced_count_max;
    if let Some((start, end)) = replacing.found.take() {
        if let Err(leave) = add_replacement(meter, stack, replacing, start..end) {
            return leave;
        }
        is_last = is_last || is_anchored || replacing.position > len;
    }
    let from = replacing.position;
    if is_last {
        return finish_gsub(meter, stack, replacing);
    }
    let (text, pattern) = (stack.bytes(1).unwrap_or_default(), stack.bytes(2).unwrap_or_default());
    let found = match Matcher::new(text, pattern, true, counter(meter, stack.lua())).next_from(from) {
        Err(stop) => return stopped(stack, stop),
        Ok(None) => return finish_gsub(meter, stack, replacing),
        Ok(Some(found)) => found,
    };
    if let Err(leave) = add_piece(meter, stack, replacing, from..found.start) {
        return leave;
    }
    replacing.found = Some((found.start, found.end));
    replacing.replaced_count += 1;
    replacing.position = found.end;
    let count = if replacing.calls { found.value_count() } else { 1 };
    if replacing.calls {
        stack.push_copy(3);
    }
    match push_captures(meter, stack, &found, count) {
        Ok(()) => Leave::Return(count as c_int),
        Err(leave) => leave,
    }
}

/// Adds the topmost value to the pieces, or the match itself if it is nil or false.
fn add_replacement(
    meter: &Meter,
    stack: &mut Stack<'_>,
    replacing: &mut Replacing,
    found: Range<usize>,
) -> Result<(), Leave> {
    let at = stack.top();
    if !stack.is_true(at) {
        stack.pop(1);
        add_piece(meter, stack, replacing, found.clone())?;
    } else if stack.make_text(at) {
        let size = stack.bytes(at).map_or(0, <[u8]>::len);
        put_piece(meter, stack, replacing, size)?;
    } else {
        let found = stack.type_name(at);
        return Err(stack.fail(&format!("invalid replacement value (a {found})")));
    }
    if found.is_empty() {
        // The character after an empty match is kept.
        let next = found.end + 1;
        add_piece(meter, stack, replacing, found.end..next)?;
        replacing.position = next;
    }
    Ok(())
}

fn add_piece(
    meter: &Meter,
    stack: &mut Stack<'_>,
    replacing: &mut Replacing,
    range: Range<usize>,
) -> Result<(), Leave> {
    if range.is_empty() || stack.bytes(1).is_none_or(|text| range.end > text.len()) {
        return Ok(());
    }
    let size = range.len();
    stack.push_part(1, range);
    put_piece(meter, stack, replacing, size)
}

/// Moves the topmost value to the pieces.
fn put_piece(
    meter: &Meter,
    stack: &mut Stack<'_>,
    replacing: &mut Replacing,
    size: usize,
) -> Result<(), Leave> {
    replacing.piece_count += 1;
    replacing.piece_size += size;
    stack.put_element(PIECES, replacing.piece_count);
    meter.element(stack.lua(), size, 0).map_err(|stopped| stack.stop(stopped))
}

/// Pushes the results.
fn finish_gsub(meter: &Meter, stack: &mut Stack<'_>, replacing: &mut Replacing) -> Leave {
    let len = stack.bytes(1).map_or(0, <[u8]>::len);
    let rest = replacing.position.min(len)..len;
    if let Err(leave) = add_piece(meter, stack, replacing, rest) {
        return leave;
    }
    // The text is made outside of Lua, and copied.
    if let Err(stopped) = meter.room(stack.lua(), 2 * replacing.piece_size) {
        return stack.stop(stopped);
    }
    let mut text = Vec::with_capacity(replacing.piece_size);
    for index in 1..=replacing.piece_count {
        stack.push_element(PIECES, index);
        text.extend_from_slice(stack.bytes(stack.top()).unwrap_or_default());
        stack.pop(1);
    }
    replacing.is_complete = true;
    stack.push_bytes(&text);
    stack.push_number(f64::from(replacing.replaced_count));
    ended(meter, stack, text.len() / 16, 2)
}

/// `gsub` with a text as replacement.
fn substitute(meter: &Meter, stack: &mut Stack<'_>, count_max: i32) -> Leave {
    let (text, pattern) = (stack.bytes(1).unwrap_or_default(), stack.bytes(2).unwrap_or_default());
    let replacement = stack.bytes(3).unwrap_or_default();
    let lua = stack.lua();
    let mut matcher = Matcher::new(text, pattern, true, counter(meter, lua));
    let is_anchored = pattern.starts_with(b"^");
    let (mut out, mut position, mut count) = (Vec::new(), 0, 0);
    let result = loop {
        if count >= count_max || position > text.len() {
            break Ok(());
        }
        let found = match matcher.next_from(position) {
            Err(stop) => break Err(stop),
            Ok(None) => break Ok(()),
            Ok(Some(found)) => found,
        };
        count += 1;
        out.extend_from_slice(&text[position..found.start]);
        let before = out.len();
        let room = |size| {
            let result = meter.room(lua, size).and_then(|()| meter.copy(lua, UNCHECKED_SIZE_MAX));
            result.map_err(Stop::Ended)
        };
        if let Err(stop) = expand(&mut out, text, replacement, &found, &room) {
            break Err(stop);
        }
        if let Err(stopped) = meter.element(lua, out.len() - before, 2 * out.len()) {
            break Err(Stop::Ended(stopped));
        }
        position = found.end;
        if found.end == found.start {
            out.extend(text.get(position));
            position += 1;
        }
        if is_anchored {
            break Ok(());
        }
    };
    if let Err(stop) = result {
        return stopped(stack, stop);
    }
    out.extend_from_slice(text.get(position..).unwrap_or_default());
    if let Err(stopped) = meter.room(lua, 2 * out.len()) {
        return stack.stop(stopped);
    }
    stack.push_bytes(&out);
    stack.push_number(f64::from(count));
    ended(meter, stack, out.len() / 16, 2)
}

/// Appends a replacement, in which `%1` stands for the first capture and `%0` for the whole match.
fn expand(
    out: &mut Vec<u8>,
    text: &[u8],
    replacement: &[u8],
    found: &Found,
    room: &dyn Fn(usize) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let (mut rest, mut checked) = (replacement, out.len());
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        // A text that ends with the escape has a NUL after it, as in C.
        let escaped = rest.get(at + 1).copied().unwrap_or(0);
        rest = rest.get(at + 2..).unwrap_or_default();
        let capture = match escaped {
            b'0' => Capture::Part { start: found.start, end: found.end },
            b'1'..=b'9' => found.capture(usize::from(escaped - b'1'))?,
            other => {
                out.push(other);
                continue;
            }
        };
        let size = match capture {
            Capture::Part { start, end } => end - start,
            Capture::Position { .. } | Capture::Open { .. } => 0,
        };
        if out.len() + size - checked > UNCHECKED_SIZE_MAX {
            room(2 * (out.len() + size))?;
            checked = out.len();
        }
        match capture {
            Capture::Part { start, end } => out.extend_from_slice(&text[start..end]),
            Capture::Position { at } => out.extend_from_slice((at + 1).to_string().as_bytes()),
            Capture::Open { .. } => {}
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Pushes the first captures of a match.
fn push_captures(meter: &Meter, stack: &mut Stack<'_>, found: &Found, count: usize) -> Result<(), Leave> {
    for index in 0..count {
        match found.capture(index) {
            Err(stop) => return Err(stopped(stack, stop)),
            Ok(Capture::Part { start, end }) => {
                if let Err(stopped) = meter.element(stack.lua(), end - start, 0) {
                    return Err(stack.stop(stopped));
                }
                stack.push_part(1, start..end);
            }
            Ok(Capture::Position { at } | Capture::Open { start: at }) => stack.push_number((at + 1) as f64),
        }
    }
    Ok(())
}

/// Counts the steps of a match.
fn counter<'a>(meter: &'a Meter, lua: &'a mlua::Lua) -> impl FnMut(usize) -> Result<(), Stopped> + 'a {
    move |steps| meter.work(lua, steps)
}

fn stopped(stack: &mut Stack<'_>, stop: Stop) -> Leave {
    match stop {
        Stop::Malformed(problem) => stack.fail(problem),
        Stop::Ended(stopped) => stack.stop(stopped),
    }
}

/// Checks that the first two arguments are texts, and makes them so.
fn check_texts(stack: &mut Stack<'_>) -> Result<(), Leave> {
    for number in 1..=2 {
        if !stack.make_text(number) {
            return Err(stack.refuse_type(number, "string"));
        }
    }
    Ok(())
}

/// An argument that is a number, or missing.
fn number_or(stack: &mut Stack<'_>, number: c_int, default: i64) -> Result<i64, Leave> {
    if number > stack.top() || stack.kind(number) == LuaType::Nil {
        return Ok(default);
    }
    match stack.as_number(number) {
        Some(value) => Ok(to_integer(value)),
        None => Err(stack.refuse_type(number, "number")),
    }
}
