//! What requests to a primary and its answers consist of.

use base::limits::STREAM_OFFSET_MAX;
use wire::number::parse_i64_strict;
use wire::response::encode_command;

/// A request of these words.
pub fn encoded<A: AsRef<[u8]>>(words: &[A]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(words, &mut bytes);
    bytes
}

/// A number that is not negative.
pub fn number(word: Option<&[u8]>) -> Option<u64> {
    word.and_then(parse_i64_strict).and_then(|number| u64::try_from(number).ok())
}

/// The offset at which a stream begins.
pub fn offset(word: Option<&[u8]>) -> Option<u64> {
    number(word).filter(|offset| *offset <= STREAM_OFFSET_MAX)
}
