//! JSON becomes Lua values.

use mlua::{Lua, Table, Value};

use super::{CjsonSettings, NESTING_MAX};
use crate::failure::library_error;
use crate::meter::Meter;
use crate::stack::{Stack, with_stack};

/// Returns the value of a JSON text. It is built on the stack of Lua: a value of the binding for each element, in a
/// protected call of Lua, would take three times as long. `names` is the table of names of such a stack.
pub(super) fn decode(
    lua: &Lua,
    text: &[u8],
    settings: CjsonSettings,
    (marker, names): (&Table, &Table),
    meter: &Meter,
) -> mlua::Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(library_error(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, text, at: 0, unescaped: Vec::new(), settings, marker, meter, depth: 0 };
    with_stack(lua, names, |stack| {
        let first = decoder.token();
        decoder.value(first, stack)?;
        match decoder.token() {
            Token { kind: TokenKind::End, .. } => Ok(stack.pop_value()),
            other => Err(decoder.unexpected("the end", &other)),
        }
    })
}

struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    /// The text of the latest string with escapes.
    unescaped: Vec<u8>,
    settings: CjsonSettings,
    marker: &'a Table,
    meter: &'a Meter,
    depth: i64,
}

/// Values on the stack for a level of nesting: a table, a key and a value, and what `marks_arrays` needs.
const LEVEL_ROOM: std::ffi::c_int = 4;

struct Token {
    kind: TokenKind,
    /// Where it begins.
    at: usize,
}

enum TokenKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    /// A string without escapes, from one place to another.
    Plain(usize, usize),
    /// A string whose text is in `unescaped`.
    Unescaped,
    Number(f64),
    Boolean(bool),
    Null,
    End,
    Error(&'static str),
}

impl TokenKind {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::Plain(..) | Self::Unescaped => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::End => "T_END",
            Self::Error(problem) => problem,
        }
    }
}

impl Decoder<'_> {
    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        let text =
            format!("Expected {expected} but found {} at character {}", found.kind.name(), found.at + 1);
        library_error(self.lua, text)
    }

    /// The text of a string.
    fn text_of(&self, kind: &TokenKind) -> Option<&[u8]> {
        match *kind {
            TokenKind::Plain(from, to) => Some(&self.text[from..to]),
            TokenKind::Unescaped => Some(&self.unescaped),
            _ => None,
        }
    }

    /// Pushes a value.
    fn value(&mut self, token: Token, stack: &mut Stack<'_>) -> mlua::Result<()> {
        let text = self.text_of(&token.kind);
        self.meter.element(self.lua, text.map_or(0, <[u8]>::len), 0)?;
        match token.kind {
            TokenKind::Plain(..) | TokenKind::Unescaped => stack.push_bytes(text.unwrap_or_default()),
            TokenKind::Number(number) => stack.push_number(number),
            TokenKind::Boolean(value) => stack.push_boolean(value),
            TokenKind::Null => stack.push_null(),
            TokenKind::ObjectBegin => self.object(stack)?,
            TokenKind::ArrayBegin => self.array(stack)?,
            _ => return Err(self.unexpected("value", &token)),
        }
        Ok(())
    }

    fn enter(&mut self, stack: &mut Stack<'_>) -> mlua::Result<()> {
        self.depth += 1;
        let depth_max = self.settings.decode_depth_max.min(NESTING_MAX);
        if self.depth > depth_max || !self.meter.has_stack() || !stack.reserve(LEVEL_ROOM) {
            let (depth, at) = (self.depth, self.at);
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(library_error(self.lua, text));
        }
        Ok(())
    }

    fn object(&mut self, stack: &mut Stack<'_>) -> mlua::Result<()> {
        self.enter(stack)?;
        stack.push_table(0, 0);
        let table = stack.top();
        let mut token = self.token();
        if !matches!(token.kind, TokenKind::ObjectEnd) {
            loop {
                match self.text_of(&token.kind) {
                    Some(key) => stack.push_bytes(key),
                    None => return Err(self.unexpected("object key string", &token)),
                }
                let colon = self.token();
                if !matches!(colon.kind, TokenKind::Colon) {
                    return Err(self.unexpected("colon", &colon));
                }
                let next = self.token();
                self.value(next, stack)?;
                stack.put(table);
                let after = self.token();
                match after.kind {
                    TokenKind::ObjectEnd => break,
                    TokenKind::Comma => token = self.token(),
                    _ => return Err(self.unexpected("comma or object end", &after)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, stack: &mut Stack<'_>) -> mlua::Result<()> {
        self.enter(stack)?;
        if self.settings.marks_arrays {
            let table = self.lua.create_table()?;
            table.set_metatable(Some(self.marker.clone()))?;
            stack.push(&table);
        } else {
            stack.push_table(0, 0);
        }
        let table = stack.top();
        let mut token = self.token();
        if !matches!(token.kind, TokenKind::ArrayEnd) {
            for index in 1.. {
                self.value(token, stack)?;
                stack.put_element(table, index);
                let after = self.token();
                match after.kind {
                    TokenKind::ArrayEnd => break,
                    TokenKind::Comma => token = self.token(),
                    _ => return Err(self.unexpected("comma or array end", &after)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn token(&mut self) -> Token {
        while self.text.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        // A NUL ends the text.
        let byte = self.text.get(at).copied().unwrap_or(0);
        if byte == 0 {
            return Token { kind: TokenKind::End, at };
        }
        let single = match byte {
            b'{' => Some(TokenKind::ObjectBegin),
            b'}' => Some(TokenKind::ObjectEnd),
            b'[' => Some(TokenKind::ArrayBegin),
            b']' => Some(TokenKind::ArrayEnd),
            b':' => Some(TokenKind::Colon),
            b',' => Some(TokenKind::Comma),
            _ => None,
        };
        if let Some(kind) = single {
            self.at += 1;
            return Token { kind, at };
        }
        let rest = &self.text[at..];
        if byte == b'"' {
            return self.string_token(at);
        }
        if let Some((number, len)) = small_integer(rest) {
            self.at += len;
            return Token { kind: TokenKind::Number(number), at };
        }
        for (word, kind) in [
            (&b"true"[..], TokenKind::Boolean(true)),
            (b"false", TokenKind::Boolean(false)),
            (b"null", TokenKind::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Token { kind, at };
            }
        }
        let kind = match byte {
            b'-' | b'0'..=b'9' | b'i' | b'I' | b'n' | b'N' => self.number(rest),
            b'+' if self.settings.decodes_invalid => self.number(rest),
            _ => TokenKind::Error("invalid token"),
        };
        Token { kind, at }
    }

    fn number(&mut self, rest: &[u8]) -> TokenKind {
        let digits = rest.strip_prefix(b"-").or(rest.strip_prefix(b"+")).unwrap_or(rest);
        let sign = if rest.starts_with(b"-") { -1.0 } else { 1.0 };
        for (word, value) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
        {
            if digits.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word)) {
                if !self.settings.decodes_invalid {
                    return TokenKind::Error("invalid token");
                }
                self.at += rest.len() - digits.len() + word.len();
                return TokenKind::Number(sign * value);
            }
        }
        if !digits.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.') {
            let is_signed = digits.len() < rest.len();
            return TokenKind::Error(if is_signed { "invalid number" } else { "invalid token" });
        }
        if let [b'0', b'x' | b'X', hex @ ..] = digits {
            let len = hex.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(hex.len());
            if !self.settings.decodes_invalid {
                return TokenKind::Error("invalid number");
            }
            // Without hexadecimal digits, the number is the zero before the letter.
            self.at += rest.len() - digits.len() + if len > 0 { 2 + len } else { 1 };
            let digit = |byte: &u8| f64::from(char::from(*byte).to_digit(16).unwrap_or(0));
            return TokenKind::Number(
                sign * hex[..len].iter().fold(0.0, |sum, byte| sum * 16.0 + digit(byte)),
            );
        }
        let has_leading_zero = matches!(digits, [b'0', next, ..] if next.is_ascii_digit());
        if has_leading_zero && !self.settings.decodes_invalid {
            return TokenKind::Error("invalid number");
        }
        let len = number_len(rest);
        match std::str::from_utf8(&rest[..len]).unwrap_or_default().parse::<f64>() {
            Ok(value) => {
                self.at += len;
                TokenKind::Number(value)
            }
            Err(_) => TokenKind::Error("invalid number"),
        }
    }

    fn string_token(&mut self, began: usize) -> Token {
        let from = began + 1;
        let mut at = self.text_end(from);
        if self.text.get(at) == Some(&b'"') {
            self.at = at + 1;
            return Token { kind: TokenKind::Plain(from, at), at: began };
        }
        let mut text = std::mem::take(&mut self.unescaped);
        text.clear();
        text.extend_from_slice(&self.text[from..at]);
        let failed = |problem, at| Token { kind: TokenKind::Error(problem), at };
        loop {
            match self.text.get(at) {
                None | Some(0) => return failed("unexpected end of string", at),
                Some(b'"') => break,
                Some(b'\\') => {
                    let escaped = match self.text.get(at + 1) {
                        Some(b'"') => b'"',
                        Some(b'\\') => b'\\',
                        Some(b'/') => b'/',
                        Some(b'b') => 8,
                        Some(b'f') => 12,
                        Some(b'n') => b'\n',
                        Some(b'r') => b'\r',
                        Some(b't') => b'\t',
                        Some(b'u') => match self.unicode(at) {
                            Some((character, size)) => {
                                let mut buffer = [0; 4];
                                text.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                                at += size;
                                continue;
                            }
                            None => return failed("invalid unicode escape code", at),
                        },
                        _ => return failed("invalid escape code", at),
                    };
                    text.push(escaped);
                    at += 2;
                }
                Some(_) => {
                    let end = self.text_end(at);
                    text.extend_from_slice(&self.text[at..end]);
                    at = end;
                }
            }
        }
        self.at = at + 1;
        self.unescaped = text;
        Token { kind: TokenKind::Unescaped, at: began }
    }

    /// Where the characters of a string end that stand for themselves.
    fn text_end(&self, from: usize) -> usize {
        let len = self.text[from..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0));
        len.map_or(self.text.len(), |len| from + len)
    }

    /// The character of a `\u` escape, with that of a second surrogate, and its size.
    fn unicode(&self, at: usize) -> Option<(char, usize)> {
        let unit = |at: usize| -> Option<u32> {
            let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
            let mut value = 0;
            for digit in digits {
                value = value * 16 + char::from(*digit).to_digit(16)?;
            }
            Some(value)
        };
        let first = unit(at)?;
        if !(0xD800..0xE000).contains(&first) {
            return char::from_u32(first).map(|character| (character, 6));
        }
        let second = unit(at + 6).filter(|second| (0xDC00..0xE000).contains(second))?;
        let code = 0x1_0000 + ((first.checked_sub(0xD800)?) << 10) + (second - 0xDC00);
        (first < 0xDC00).then(|| char::from_u32(code)).flatten().map(|character| (character, 12))
    }
}

/// Digits of an integer that is exact as a double, and whose text is no other number.
const SMALL_DIGITS_MAX: usize = 15;

/// The integer at the beginning of a text, and its length, if it has few digits and neither fraction nor exponent.
fn small_integer(text: &[u8]) -> Option<(f64, usize)> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let mut value = 0_u64;
    let mut len = 0;
    while let Some(digit) = digits.get(len).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
        value = value * 10 + u64::from(digit);
        len += 1;
        if len > SMALL_DIGITS_MAX {
            return None;
        }
    }
    let is_whole = !matches!(digits.get(len), Some(b'.' | b'e' | b'E' | b'x' | b'X'));
    if len == 0 || !is_whole || digits[0] == b'0' && len > 1 {
        return None;
    }
    let sign = if digits.len() < text.len() { -1.0 } else { 1.0 };
    Some((sign * value as f64, text.len() - digits.len() + len))
}

/// The length of the number at the beginning of a text: sign, digits, fraction and exponent, each of which may be missing.
fn number_len(text: &[u8]) -> usize {
    let sign = |at: usize| at + usize::from(matches!(text.get(at), Some(b'+' | b'-')));
    let digits = |at: usize| at + text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(sign(0));
    if text.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let first = sign(end + 1);
        let last = digits(first);
        if last > first {
            end = last;
        }
    }
    end
}
