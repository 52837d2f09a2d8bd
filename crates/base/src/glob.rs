//! Redis's glob patterns, for `KEYS`, `SCAN`, channel patterns, ACL patterns and `CONFIG GET`.
//!
//! `*`, `?`, `[abc]`, `[^a-z]`, and a backslash before a literal byte. A `[` without `]` extends to the end of the
//! pattern. An empty text matches only the empty pattern, as in Redis.
//!
//! Cost: at most pattern length times text length, because only the last `*` is retried: extending the match of an
//! earlier one would find no further match. A pattern with more than [`STAR_COUNT_MAX`] stars matches nothing.

/// Maximum number of stars before the end of the pattern that a match may use.
pub const STAR_COUNT_MAX: usize = 1000;

/// Whether `text` matches `pattern`.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    search::<false>(pattern, text)
}

/// Whether `text` matches `pattern`, ignoring the case of ASCII letters.
#[must_use]
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    search::<true>(pattern, text)
}

fn search<const IGNORE_CASE: bool>(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut pattern_at, mut text_at) = (0, 0);
    let mut star_count = 0;
    // Where to continue after a mismatch: after the last `*`, which then matches one more byte.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(text_at) {
        if pattern.get(pattern_at) == Some(&b'*') {
            pattern_at += pattern[pattern_at..].iter().take_while(|byte| **byte == b'*').count();
            if pattern_at == pattern.len() {
                return true;
            }
            star_count += 1;
            if star_count > STAR_COUNT_MAX {
                return false;
            }
            retry = Some((pattern_at, text_at));
            continue;
        }
        if let Some(used) = match_one::<IGNORE_CASE>(&pattern[pattern_at..], byte) {
            pattern_at += used;
            text_at += 1;
            continue;
        }
        let Some((after_star, from)) = retry else { return false };
        retry = Some((after_star, from + 1));
        (pattern_at, text_at) = (after_star, from + 1);
    }
    pattern[pattern_at..].iter().all(|byte| *byte == b'*')
}

#[inline]
fn fold<const IGNORE_CASE: bool>(byte: u8) -> u8 {
    if IGNORE_CASE { byte.to_ascii_lowercase() } else { byte }
}

/// The size of the pattern's first element (`?`, a class, a literal) if it matches `byte`; otherwise `None`.
fn match_one<const IGNORE_CASE: bool>(pattern: &[u8], byte: u8) -> Option<usize> {
    let equals = |literal: u8| fold::<IGNORE_CASE>(literal) == fold::<IGNORE_CASE>(byte);
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => match_class::<IGNORE_CASE>(class, byte).map(|used| used + 1),
        [b'\\', literal, ..] => equals(literal).then_some(2),
        [literal, ..] => equals(literal).then_some(1),
    }
}

/// [`match_one`] for the bytes after a `[`, with the `]`.
fn match_class<const IGNORE_CASE: bool>(class: &[u8], byte: u8) -> Option<usize> {
    let fold = fold::<IGNORE_CASE>;
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            // A byte after a backslash is always compared with its case.
            [b'\\', literal, ..] => {
                found |= literal == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (from, to) = (from.min(to), from.max(to));
                let (from, to) = (fold(from), fold(to));
                found |= (from..=to).contains(&fold(byte));
                at += 3;
            }
            [literal, ..] => {
                found |= fold(literal) == fold(byte);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} on {text}");
    }

    fn check_ignoring_case(pattern: &str, text: &str, expected: bool) {
        let found = matches_ignoring_case(pattern.as_bytes(), text.as_bytes());
        assert_eq!(found, expected, "{pattern} on {text}");
    }

    #[test]
    fn stars_and_question_marks() {
        check("*", "a", true);
        check("max*y", "maxmemory", true);
        check("max*y", "maxmemory-policy", true);
        check("max*z", "maxmemory", false);
        check("max?emory", "maxmemory", true);
        check("*a*b*c*", "xxaxxbxxc", true);
        check("*a*b*c*", "xxaxxcxxb", false);
        check("a***", "a", true);
        check("a", "ab", false);
    }

    #[test]
    fn the_empty_text_matches_the_empty_pattern_only() {
        check("", "", true);
        check("", "a", false);
        check("*", "", false);
    }

    #[test]
    fn classes() {
        check("m[a-c]x", "max", true);
        check("m[c-a]x", "max", true);
        check("m[^a-c]x", "max", false);
        check("m[^b-c]x", "max", true);
        check("m[xa]x*", "max", true);
        check("m[a", "ma", true);
        check("m[", "ma", false);
        check("m[^", "ma", true);
        check("[a-]", "]", true);
        check("[\\]]", "]", true);
        check("[\\", "\\", true);
    }

    #[test]
    fn escapes() {
        check("a\\*", "a*", true);
        check("a\\*", "ab", false);
        check("a\\", "a\\", true);
    }

    #[test]
    fn case() {
        check("A", "a", false);
        check_ignoring_case("MAX?emory", "maxmemory", true);
        check_ignoring_case("[A-C]", "b", true);
        check_ignoring_case("[\\A]", "a", false);
    }

    #[test]
    fn too_many_stars_match_nothing() {
        let text = "a".repeat(2 * STAR_COUNT_MAX);
        check(&"*?".repeat(STAR_COUNT_MAX), &text, true);
        check(&"*?".repeat(STAR_COUNT_MAX + 1), &text, false);
    }
}
