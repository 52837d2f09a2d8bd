//! `DEBUG PROTOCOL`: an example of each reply type, as expected by the tests of client libraries.

use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const UNKNOWN: CommandError = CommandError::new(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

/// Replies with an example of the named type.
pub(super) fn example(name: &[u8], reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.parts();
    match name.to_ascii_lowercase().as_slice() {
        b"string" => out.bulk(b"Hello World"),
        b"integer" => out.integer(12_345),
        b"double" => out.double_text(b"3.141"),
        b"bignum" => out.big_number(b"1234567999999999999999999999999999999"),
        b"null" => out.null(),
        b"array" => {
            out.array(3);
            (0..3).for_each(|number| out.integer(number));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|number| out.integer(number));
        }
        b"map" => {
            out.map(3);
            for number in 0..3 {
                out.integer(number);
                out.boolean(number == 1);
            }
        }
        b"attrib" => {
            if out.attribute(1) {
                out.bulk(b"key-popularity");
                out.array(2);
                out.bulk(b"key:123");
                out.integer(90);
            }
            out.bulk(b"Some real reply following the attribute");
        }
        b"push" if !out.is_resp3() => {
            return Err(CommandError::new("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            // A push during a command follows its reply.
            out.bulk(b"Some real reply following the push reply");
            out.push(2);
            out.bulk(b"server-cpu-usage");
            out.integer(42);
        }
        b"true" => out.boolean(true),
        b"false" => out.boolean(false),
        b"verbatim" => out.verbatim(b"txt", b"This is a verbatim\nstring"),
        _ => return Err(UNKNOWN),
    }
    Ok(out.done())
}
