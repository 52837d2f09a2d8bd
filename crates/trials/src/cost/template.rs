//! Requests of cases as text: words with counts that depend on the size N.
//!
//! ```text
//! request    request ; request                 in sequence
//! N: SET k# v       N: INCR k | GET k          N requests, or N pairs of requests
//! SADD k {m# }*N/2                             words in braces, N/2 times
//! SET k x^N                                    one word of N bytes, `x` repeated; `?^N`: random bytes
//! LTRIM k 10 -N/2                              numbers
//! # #*8 #%10    ~ ~%100                        number of the repetition; random number; `~~` is a `~`
//! EVAL return\s\(1\)  \n  \h                     `\s`, `\(`, `\)`, `\n`, `\h`: space, braces, end of line, `#`
//! ```
//! Invariant: the same line and size give the same bytes.

/// Encoded requests.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// The encoded bytes.
    pub bytes: Vec<u8>,
    /// Number of replies.
    pub reply_count: usize,
}

/// Repetitions of words in braces after which a new request begins, if the line may be cut.
const CHUNK_LEN: usize = 20_000;

/// Whether a line with repeated words may be cut into several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Always one request.
    Never,
    /// Several requests, for preparation.
    Often,
}

/// Returns all requests of a text.
pub fn expand(text: &str, size: usize, cut: Cut) -> Payload {
    let mut payload = Payload::default();
    for line in text.split(';').map(str::trim) {
        match line.split_once(": ") {
            Some((count, lines)) => {
                let count = number(count, size).expect("a count") as usize;
                let lines: Vec<Vec<Part<'_>>> = lines.split('|').map(|line| parts(line, size)).collect();
                for (index, line) in (0..count).flat_map(|index| lines.iter().map(move |line| (index, line)))
                {
                    let words = line.iter().flat_map(|part| part.words(0..part.count, Some(index), size));
                    payload.add(&words.collect::<Vec<_>>());
                }
            }
            None => expand_line(&parts(line, size), size, cut, &mut payload),
        }
    }
    payload
}

fn expand_line(line: &[Part<'_>], size: usize, cut: Cut, payload: &mut Payload) {
    let longest = line.iter().map(|part| part.count).max().unwrap_or(1).max(1);
    let chunk_len = if cut == Cut::Often { CHUNK_LEN } else { longest };
    for start in (0..longest).step_by(chunk_len) {
        let words = line.iter().flat_map(|part| {
            let range = if part.is_repeated {
                start.min(part.count)..part.count.min(start + chunk_len)
            } else {
                0..1
            };
            part.words(range, None, size)
        });
        payload.add(&words.collect::<Vec<_>>());
    }
}

/// Words that occur once, or repeatedly.
struct Part<'a> {
    words: Vec<&'a str>,
    count: usize,
    is_repeated: bool,
}

impl Part<'_> {
    /// Returns the words of some repetitions. In one of many requests, the number is that of the request.
    fn words(
        &self,
        range: std::ops::Range<usize>,
        request: Option<usize>,
        size: usize,
    ) -> impl Iterator<Item = Vec<u8>> {
        let words = range.flat_map(move |index| self.words.iter().map(move |word| (index, *word)));
        words.map(move |(index, word)| match request {
            _ if self.is_repeated => text_of(&fill(word, index), size),
            Some(request) => text_of(&fill(word, request), size),
            None => text_of(word, size),
        })
    }
}

fn parts(line: &str, size: usize) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        let (before, repeated) = rest.split_once('{').unwrap_or((rest, ""));
        parts.push(Part { words: before.split_whitespace().collect(), count: 1, is_repeated: false });
        let Some((words, behind)) = repeated.split_once("}*") else { return parts };
        let (count, behind) = behind.split_once(' ').unwrap_or((behind, ""));
        let count = number(count, size).expect("a count") as usize;
        parts.push(Part { words: words.split_whitespace().collect(), count, is_repeated: true });
        rest = behind;
    }
}

impl Payload {
    fn add(&mut self, words: &[Vec<u8>]) {
        // A subscription gets one reply per channel.
        let is_subscription = words[0].ends_with(b"SUBSCRIBE");
        self.reply_count += if is_subscription { (words.len() - 1).max(1) } else { 1 };
        self.bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }
}

/// Returns the value of a word such as `N`, `-N/2` or `17`.
fn number(word: &str, size: usize) -> Option<i64> {
    let (sign, word) = word.strip_prefix('-').map_or((1, word), |word| (-1, word));
    let value = match word.strip_prefix('N') {
        None => word.parse().ok()?,
        Some("") => size as i64,
        Some(divisor) => size as i64 / divisor.strip_prefix('/')?.parse::<i64>().ok()?,
    };
    Some(sign * value)
}

fn text_of(word: &str, size: usize) -> Vec<u8> {
    if word.trim_start_matches('-').starts_with('N')
        && let Some(number) = number(word, size)
    {
        return number.to_string().into_bytes();
    }
    match word.rsplit_once('^').and_then(|(text, count)| Some((text, number(count, size)? as usize))) {
        Some(("?", len)) => (0..len).map(|place| random(place) as u8).collect(),
        Some((text, len)) => text.bytes().cycle().take(len).collect(),
        None => unescape(word).into_bytes(),
    }
}

/// Substitutes the characters that have a meaning in the syntax.
fn unescape(word: &str) -> String {
    let escapes = [(r"\s", " "), (r"\n", "\n"), (r"\(", "{"), (r"\)", "}"), (r"\h", "#")];
    escapes.iter().fold(word.to_owned(), |word, (escape, text)| word.replace(escape, text))
}

/// Substitutes the number of a repetition in a word.
fn fill(word: &str, index: usize) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(['#', '~']) {
        filled.push_str(&rest[..at]);
        if let Some(behind) = rest[at..].strip_prefix("~~") {
            filled.push('~');
            rest = behind;
            continue;
        }
        let value = if rest[at..].starts_with('#') { index as u64 } else { random(index) >> 32 };
        rest = &rest[at + 1..];
        let operator = rest.bytes().next().filter(|byte| matches!(byte, b'*' | b'%'));
        let digits = if operator.is_some() { &rest[1..] } else { "" };
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        let operand = digits[..len].parse::<u64>();
        let value = match (operator, operand) {
            (Some(b'*'), Ok(factor)) => value * factor,
            (Some(_), Ok(bound)) => value % bound,
            _ => value,
        };
        rest = if len > 0 { &digits[len..] } else { rest };
        filled.push_str(&value.to_string());
    }
    filled + rest
}

/// Returns a pseudo-random number that depends on the position only.
fn random(place: usize) -> u64 {
    crate::random::Random::new(place as u64).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, size: usize, cut: Cut, expected: &str) {
        let payload = expand(text, size, cut);
        let words: Vec<String> = String::from_utf8_lossy(&payload.bytes)
            .split("\r\n")
            .filter(|line| !line.starts_with('$'))
            .map(str::to_owned)
            .collect();
        assert_eq!(words.join(" ").trim_end(), expected);
        assert_eq!(payload.reply_count, expected.matches('*').count(), "{text}");
    }

    #[test]
    fn texts_become_requests() {
        check("LTRIM k 10 -N/2", 8, Cut::Never, "*4 LTRIM k 10 -4");
        check(r"EVAL \h!lua\sreturn\s\(1\) 0", 8, Cut::Never, "*3 EVAL #!lua return {1} 0");
        check("SET k ab^N", 5, Cut::Never, "*3 SET k ababa");
        check("2: SET k# #*8 ; PING", 5, Cut::Never, "*3 SET k0 0 *3 SET k1 8 *1 PING");
        check("2: MULTI | DEL k#", 5, Cut::Never, "*1 MULTI *2 DEL k0 *1 MULTI *2 DEL k1");
        check("XREAD {s#}*2 {0}*2", 5, Cut::Never, "*5 XREAD s0 s1 0 0");
        check("MSET {k# #%2 }*3 x y", 5, Cut::Never, "*9 MSET k0 0 k1 1 k2 0 x y");
        let cut = expand("SADD k {m#}*N", 50_000, Cut::Often);
        assert_eq!(cut.reply_count, 3);
        assert_ne!(fill("~", 1), fill("~", 2));
        assert_eq!(fill("~%1", 7), "0");
        assert_eq!(fill("a~~#", 7), "a~7");
    }
}
