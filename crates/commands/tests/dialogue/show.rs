//! Printing of replies: one line each, with a distinct format for each type.
//!
//! | shown | is |
//! |---|---|
//! | `+OK`, `-ERR no` | simple string, error |
//! | `12` | integer |
//! | `"a\x00b"` | bulk string; for a long one its beginning and size: `"aaaa"...(1000)` |
//! | `$-1`, `*-1`, `_` | null of RESP2 as string and as array, null of RESP3 |
//! | `,1.5`, `#t`, `(123` | double, boolean, big number |
//! | `txt:"hi"` | verbatim string |
//! | `[1, 2]`, `~[1]`, `>[1]` | array, set, push |
//! | `{"a": 1}` | map |

use std::fmt::Write;

use wire::response::Reply;

const SHOWN_SIZE_MAX: usize = 200;
const BEGINNING_SIZE: usize = 20;

/// Formats the reply as one line.
pub fn show(reply: &Reply) -> String {
    let mut out = String::new();
    write_reply(reply, &mut out).expect("a string takes everything");
    out
}

fn write_reply(reply: &Reply, out: &mut String) -> std::fmt::Result {
    match reply {
        Reply::Simple(text) => write!(out, "+{}", text.escape_ascii()),
        Reply::Error(text) => write!(out, "-{}", String::from_utf8_lossy(text)),
        Reply::Integer(value) => write!(out, "{value}"),
        Reply::Bulk(bytes) => write_bulk(bytes, out),
        Reply::NullBulk => out.write_str("$-1"),
        Reply::NullArray => out.write_str("*-1"),
        Reply::Null => out.write_str("_"),
        Reply::Double(value) => write!(out, ",{value}"),
        Reply::Boolean(value) => out.write_str(if *value { "#t" } else { "#f" }),
        Reply::BigNumber(digits) => write!(out, "({}", digits.escape_ascii()),
        Reply::Verbatim(format, text) => {
            write!(out, "{}:", format.escape_ascii())?;
            write_bulk(text, out)
        }
        Reply::Array(elements) => write_elements("[", elements, out),
        Reply::Set(elements) => write_elements("~[", elements, out),
        Reply::Push(elements) => write_elements(">[", elements, out),
        Reply::Map(pairs) => write_pairs(pairs, out),
        Reply::Attributed(pairs, reply) => {
            out.write_str("|")?;
            write_pairs(pairs, out)?;
            out.write_str(" ")?;
            write_reply(reply, out)
        }
    }
}

fn write_bulk(bytes: &[u8], out: &mut String) -> std::fmt::Result {
    if bytes.len() <= SHOWN_SIZE_MAX {
        return write_quoted(bytes, out);
    }
    write_quoted(&bytes[..BEGINNING_SIZE], out)?;
    write!(out, "...({})", bytes.len())
}

/// Escapes bytes like Rust, except for single quotes.
fn write_quoted(bytes: &[u8], out: &mut String) -> std::fmt::Result {
    write!(out, "\"{}\"", bytes.escape_ascii().to_string().replace("\\'", "'"))
}

fn write_elements(open: &str, elements: &[Reply], out: &mut String) -> std::fmt::Result {
    out.write_str(open)?;
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write_reply(element, out)?;
    }
    out.write_str("]")
}

fn write_pairs(pairs: &[(Reply, Reply)], out: &mut String) -> std::fmt::Result {
    out.write_str("{")?;
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write_reply(key, out)?;
        out.write_str(": ")?;
        write_reply(value, out)?;
    }
    out.write_str("}")
}
