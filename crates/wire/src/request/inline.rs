//! Inline requests: a line of words, as typed in a terminal.
//!
//! Words are separated by blanks. Double quotes allow C escapes and `\xHH`, single quotes only `\'`. As in
//! Valkey 9, and unlike Redis, a word may continue after its quotes.

use super::args::Span;

/// The quotes of the line are not closed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unbalanced;

/// Splits `line` into words: appends their bytes to `bytes`, and their positions there to `spans`.
pub(super) fn split_words(line: &[u8], bytes: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), Unbalanced> {
    let mut rest = skip_blanks(line);
    while !rest.is_empty() {
        let start = bytes.len();
        rest = skip_blanks(read_word(rest, bytes)?);
        spans.push(Span { start: start as u32, len: (bytes.len() - start) as u32 });
    }
    Ok(())
}

/// Splits a line into words, as an inline request. `None`: its quotes are not closed.
#[must_use]
pub fn words_of(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    split_words(line, &mut bytes, &mut spans).ok()?;
    let word = |span: &Span| bytes[span.start as usize..][..span.len as usize].to_vec();
    Some(spans.iter().map(word).collect())
}

/// Reads one word, parts of which may be quoted, and returns the rest of the line.
fn read_word<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return Ok(after),
            b'"' => read_double_quoted(after, bytes)?,
            b'\'' => read_single_quoted(after, bytes)?,
            _ => {
                bytes.push(byte);
                after
            }
        };
    }
    Ok(rest)
}

fn read_double_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(hex_digit(*high) << 4 | hex_digit(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
            [] => return Err(Unbalanced),
        }
    }
}

fn read_single_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                bytes.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
            [] => return Err(Unbalanced),
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// C's `isspace`. Unlike Rust's ASCII white space it includes the vertical tab.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0d)
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&byte| !is_blank(byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        split_words(line, &mut bytes, &mut spans).ok()?;
        Some(spans.iter().map(|span| bytes[span.start as usize..][..span.len as usize].to_vec()).collect())
    }

    #[test]
    fn lines_are_split_as_redis_splits_them() {
        type Words = Option<&'static [&'static [u8]]>;
        let cases: &[(&[u8], Words)] = &[
            (b"", Some(&[])),
            (b" \t\x0b ", Some(&[])),
            (b"PING", Some(&[b"PING"])),
            (b"  set  key\tvalue ", Some(&[b"set", b"key", b"value"])),
            (b"set k \"a b\"", Some(&[b"set", b"k", b"a b"])),
            (b"set k \"\"", Some(&[b"set", b"k", b""])),
            (b"set k ''", Some(&[b"set", b"k", b""])),
            (br#"e "\x00\xfF\n\r\t\b\a\\\"\q""#, Some(&[b"e", b"\x00\xff\n\r\t\x08\x07\\\"q"])),
            (br#"e "\xg0\x1""#, Some(&[b"e", b"xg0x1"])),
            (br"e 'a\'b\n'", Some(&[b"e", br"a'b\n"])),
            (br#"a"b c" d"#, Some(&[b"ab c", b"d"])),
            (b"a\x0bb", Some(&[b"a\x0bb"])),
            (b"set \"\"\"test-key\"\"\" value", Some(&[b"set", b"test-key", b"value"])),
            (b"'a''b'\"c\"d", Some(&[b"abcd"])),
            (b"\"open", None),
            (b"'open", None),
            (b"\"open\\", None),
            (b"\"a\"b'", None),
            (b"'a'b\"", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|words| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
            assert_eq!(words(line), expected, "{}", line.escape_ascii());
        }
    }
}
