//! The tokens of Lua 5.1, without comments.

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or keyword.
    Name(&'a [u8]),
    /// A string in quotes without escapes.
    Text(&'a [u8]),
    /// Any other string or number.
    Constant,
    /// Anything else.
    Symbol(&'a [u8]),
    /// Behind the last token.
    End,
}

/// Symbols of several characters, longer ones first.
const SYMBOLS: [&[u8]; 6] = [b"...", b"..", b"==", b"~=", b"<=", b">="];

/// Returns the tokens of a script. `None`: it is not Lua.
pub(super) fn tokens(mut rest: &[u8]) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    while let Some(&first) = rest.first() {
        if first.is_ascii_whitespace() || first == 0x0B {
            rest = &rest[1..];
        } else if let Some(comment) = rest.strip_prefix(b"--") {
            rest = match long_bracket(comment) {
                Some(size) => comment.get(size?..)?,
                None => {
                    let end = comment.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                    &comment[end.unwrap_or(comment.len())..]
                }
            };
        } else if first.is_ascii_alphabetic() || first == b'_' {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let len = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
            tokens.push(Token::Name(&rest[..len]));
            rest = &rest[len..];
        } else if first.is_ascii_digit() || (first == b'.' && rest.get(1).is_some_and(u8::is_ascii_digit)) {
            tokens.push(Token::Constant);
            rest = &rest[number_len(rest)..];
        } else if matches!(first, b'"' | b'\'') {
            let (token, size) = quoted(rest)?;
            tokens.push(token);
            rest = &rest[size..];
        } else if let Some(size) = long_bracket(rest) {
            tokens.push(Token::Constant);
            rest = rest.get(size?..)?;
        } else {
            let len = SYMBOLS.iter().find(|symbol| rest.starts_with(symbol)).map_or(1, |symbol| symbol.len());
            tokens.push(Token::Symbol(&rest[..len]));
            rest = &rest[len..];
        }
    }
    Some(tokens)
}

/// The size of a number, as Lua reads it: digits, an exponent, and whatever letters follow.
fn number_len(text: &[u8]) -> usize {
    let span = |from: usize, is_part: &dyn Fn(&u8) -> bool| {
        text[from..].iter().position(|byte| !is_part(byte)).map_or(text.len(), |len| from + len)
    };
    let mut at = span(0, &|byte| byte.is_ascii_digit() || *byte == b'.');
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
    }
    span(at, &|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A string in quotes at the beginning of the text, and its size.
fn quoted(text: &[u8]) -> Option<(Token<'_>, usize)> {
    let quote = *text.first()?;
    let (mut at, mut is_plain) = (1, true);
    loop {
        match *text.get(at)? {
            b'\\' => {
                is_plain = false;
                at += 2;
            }
            b'\n' => return None,
            byte if byte == quote => break,
            _ => at += 1,
        }
    }
    Some((if is_plain { Token::Text(&text[1..at]) } else { Token::Constant }, at + 1))
}

/// The size of a string in long brackets at the beginning of the text; `Some(None)`: it does not end.
#[expect(clippy::option_option, reason = "no bracket, or one that does not end")]
fn long_bracket(text: &[u8]) -> Option<Option<usize>> {
    let level = text.strip_prefix(b"[")?.iter().take_while(|byte| **byte == b'=').count();
    if text.get(1 + level) != Some(&b'[') {
        return None;
    }
    let mut closing = vec![b'='; level + 2];
    (closing[0], closing[level + 1]) = (b']', b']');
    let body = &text[level + 2..];
    Some(body.windows(closing.len()).position(|window| window == closing).map(|at| at + 2 * (level + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_becomes_tokens() {
        let text = b"local a = 'x' -- c\n--[[ d ]] return a..[==[ ]] ]==] ~= 1e-5";
        let name = |text: &'static str| Token::Name(text.as_bytes());
        let symbol = |text: &'static str| Token::Symbol(text.as_bytes());
        assert_eq!(
            tokens(text).unwrap(),
            [
                name("local"),
                name("a"),
                symbol("="),
                Token::Text(b"x"),
                name("return"),
                name("a"),
                symbol(".."),
                Token::Constant,
                symbol("~="),
                Token::Constant,
            ]
        );
        // An exponent follows decimal digits only.
        assert_eq!(
            tokens(b"0xe+x 3e-7 .5E+1").unwrap(),
            [Token::Constant, symbol("+"), name("x"), Token::Constant, Token::Constant]
        );
        for broken in ["'x", "[[x", "'x\ny'", "--[[x", "'x\\"] {
            assert_eq!(tokens(broken.as_bytes()), None, "{broken}");
        }
    }
}
