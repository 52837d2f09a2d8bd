//! The quoting of configuration lines: splitting a line into arguments, and writing one so that it can be read
//! back.
//!
//! Inside `"..."`: `\n \r \t \b \a`, `\xHH`; a backslash before any other character stands for that character.
//! Inside `'...'`: only `\'`. A closing quote ends its argument, so it must be followed by a space.

/// A quote that is not closed, or is closed inside a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// The arguments of one line. An empty line has none.
pub fn split_arguments(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut rest = line;
    let mut arguments = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(arguments);
        }
        let (argument, used) = take_argument(rest)?;
        arguments.push(argument);
        rest = &rest[used..];
    }
}

/// `text` in double quotes and printable ASCII. [`split_arguments`] restores it.
#[must_use]
pub fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// The first argument of `text`, which does not start with a space, and its size in `text`.
fn take_argument(text: &[u8]) -> Result<(Vec<u8>, usize), UnbalancedQuotes> {
    let mut argument = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => break,
            b'"' | b'\'' => {
                at = take_quoted(text, at, &mut argument)?;
                return match text.get(at) {
                    Some(next) if !next.is_ascii_whitespace() => Err(UnbalancedQuotes),
                    _ => Ok((argument, at)),
                };
            }
            _ => argument.push(byte),
        }
        at += 1;
    }
    Ok((argument, at))
}

/// Appends the text in the quotes that open at `open`. Returns the position after the closing quote.
fn take_quoted(text: &[u8], open: usize, argument: &mut Vec<u8>) -> Result<usize, UnbalancedQuotes> {
    let quote = text[open];
    let mut at = open + 1;
    loop {
        let byte = *text.get(at).ok_or(UnbalancedQuotes)?;
        if byte == quote {
            return Ok(at + 1);
        }
        let (value, used) = match text[at..] {
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..] if quote == b'"' => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => (high * 16 + low, 4),
                _ => (b'x', 2),
            },
            [b'\\', escaped, ..] if quote == b'"' => (unescape(escaped), 2),
            _ => (byte, 1),
        };
        argument.push(value);
        at += used;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&[u8]]) {
        assert_eq!(split_arguments(line.as_bytes()).unwrap(), expected, "{line}");
    }

    #[test]
    fn splits_words_and_quotes() {
        check("", &[]);
        check("  port   6380 ", &[b"port", b"6380"]);
        check(r#"save """#, &[b"save", b""]);
        check(r#"a "b c" 'd e'"#, &[b"a", b"b c", b"d e"]);
        check(r#"a"b c" d"#, &[b"ab c", b"d"]);
        check(r#""\x41\xff\n\q\"" "\xg1""#, &[b"A\xff\nq\"", b"xg1"]);
        check(r"'it\'s' 'a\n'", &[b"it's", br"a\n"]);
    }

    #[test]
    fn refuses_open_quotes() {
        for line in ["\"a", "'a", "\"a\"b", "'a'b", "x \"\\", "\""] {
            assert_eq!(split_arguments(line.as_bytes()), Err(UnbalancedQuotes), "{line}");
        }
    }

    #[test]
    fn every_byte_survives_quoting() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split_arguments(&quoted(&all)).unwrap(), [all]);
        assert_eq!(split_arguments(&quoted(b"")).unwrap(), [b""]);
    }
}
