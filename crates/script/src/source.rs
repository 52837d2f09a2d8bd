//! The text of a script before Lua sees it: its digest, its shebang, and what can be said about its keys.

mod analysis;
mod shebang;

use sha1::{Digest, Sha1};

pub use self::analysis::{Analysis, analyse};
pub use self::shebang::{ScriptFlags, Shebang, ShebangError};

/// The digest of a text, in hexadecimal digits of lower case.
#[must_use]
pub fn sha1_hex(text: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(text)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_standard() {
        assert_eq!(&sha1_hex(b"abc"), b"a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
