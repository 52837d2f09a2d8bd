//! Tokens of a command's grammar, as spelled in requests.

/// An argument that may be a token.
pub trait Word {
    /// Whether the argument is this token. Ignores case and everything after a NUL: Redis treats arguments as
    /// C strings where it expects tokens.
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
