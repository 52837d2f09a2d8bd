//! Words of a command's grammar, as requests spell them.

/// A request's argument where a word may stand.
pub trait Word {
    /// Whether it is this word. Case does not matter, nor does what follows a NUL: Redis takes arguments for C strings
    /// where it expects words.
    fn eq_token(&self, word: impl AsRef<[u8]>) -> bool;
}

impl Word for [u8] {
    #[inline]
    fn eq_token(&self, word: impl AsRef<[u8]>) -> bool {
        let word = word.as_ref();
        let (len, start) = (word.len(), self.get(..word.len()));
        start.is_some_and(|start| start.eq_ignore_ascii_case(word)) && matches!(self.get(len), None | Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_ends_where_a_c_string_does() {
        for text in [&b"limit"[..], b"LIMIT", b"Limit\0", b"liMIT\0 100"] {
            assert!(text.eq_token("limit"), "{text:?}");
        }
        for text in [&b""[..], b"\0", b"limi", b"lim\0t", b"limits", b"\0limit"] {
            assert!(!text.eq_token("limit"), "{text:?}");
        }
    }
}
