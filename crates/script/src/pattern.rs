//! Patterns of Lua, matched without recursion: each place where the matching may go on otherwise is an entry of a list, so a
//! pattern needs memory by its length and no stack. Each step is counted, so that a long match can be paused and ended.
//!
//! The rules and errors are those of Lua 5.1: a pattern ends at a NUL, and quantifiers apply to single characters.

use std::ops::Range;

use crate::failure::Stopped;

/// The captures of a pattern.
pub(crate) const CAPTURE_COUNT_MAX: usize = 32;

/// Steps between two calls of [`Matcher::next_from`]'s counter.
const COUNTED_STEPS: usize = 4_096;

/// The character that begins a class or an escape.
const ESCAPE: u8 = b'%';

/// Characters that mean something in a pattern.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// Why a match ends without a result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The pattern is malformed.
    Malformed(&'static str),
    /// The counter has ended it.
    Ended(Stopped),
}

/// A capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// It is not closed yet.
    Open { start: usize },
    /// A place in the text, as an offset.
    Position { at: usize },
    /// A part of the text.
    Part { start: usize, end: usize },
}

/// A match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Where it begins.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    captures: [Capture; CAPTURE_COUNT_MAX],
    /// The number of captures.
    pub(crate) count: usize,
}

impl Found {
    /// A capture, or the whole match if there are none and it is the first.
    pub(crate) fn capture(&self, index: usize) -> Result<Capture, Stop> {
        match self.captures[..self.count].get(index) {
            Some(Capture::Open { .. }) => Err(Stop::Malformed("unfinished capture")),
            Some(capture) => Ok(*capture),
            None if index == 0 => Ok(Capture::Part { start: self.start, end: self.end }),
            None => Err(Stop::Malformed("invalid capture index")),
        }
    }

    /// The number of values that stand for the captures, if the whole match stands for none.
    pub(crate) fn value_count(&self) -> usize {
        self.count.max(1)
    }
}

/// Whether a pattern is searched as it is.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().take_while(|byte| **byte != 0).any(|byte| SPECIALS.contains(byte))
}

/// A place where the matching may go on otherwise.
enum Choice {
    /// `?`: without the character.
    Without { text: usize, pattern: usize },
    /// `*` and `+`: with fewer characters, down to `least`.
    Fewer { least: usize, text: usize, pattern: usize },
    /// `-`: with one character more, which `item` matches.
    More { text: usize, item: Range<usize> },
    /// A capture was opened.
    Opened,
    /// A capture was closed; where it begins.
    Closed { index: usize, start: usize },
}

/// How the matching goes on.
enum MatchStep {
    To { text: usize, pattern: usize },
    Fails,
    Ends { text: usize },
}

/// Finds a pattern in a text.
pub(crate) struct Matcher<'a, C> {
    text: &'a [u8],
    pattern: &'a [u8],
    is_anchored: bool,
    captures: [Capture; CAPTURE_COUNT_MAX],
    count: usize,
    choices: Vec<Choice>,
    steps: usize,
    counter: C,
}

impl<'a, C: FnMut(usize) -> Result<(), Stopped>> Matcher<'a, C> {
    /// `anchors`: a `^` at the beginning of the pattern anchors it. The counter is called with numbers of steps.
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], anchors: bool, counter: C) -> Self {
        let len = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
        let pattern = &pattern[..len];
        let rest = pattern.strip_prefix(b"^").filter(|_| anchors);
        Self {
            text,
            pattern: rest.unwrap_or(pattern),
            is_anchored: rest.is_some(),
            captures: [Capture::Position { at: 0 }; CAPTURE_COUNT_MAX],
            count: 0,
            choices: Vec::new(),
            steps: 0,
            counter,
        }
    }

    /// The first match that begins at `from` or, unless the pattern is anchored, after it.
    pub(crate) fn next_from(&mut self, from: usize) -> Result<Option<Found>, Stop> {
        let last = if self.is_anchored { from } else { self.text.len() };
        for start in from..=last {
            if let Some(end) = self.match_at(start)? {
                let (captures, count) = (self.captures, self.count);
                return Ok(Some(Found { start, end, captures, count }));
            }
        }
        // What is left is counted, too: a program may call this often.
        self.flush()?;
        Ok(None)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        (self.counter)(std::mem::take(&mut self.steps)).map_err(Stop::Ended)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps >= COUNTED_STEPS { self.flush() } else { Ok(()) }
    }

    /// Where a match that begins at `start` ends.
    fn match_at(&mut self, start: usize) -> Result<Option<usize>, Stop> {
        self.count = 0;
        self.choices.clear();
        let mut step = MatchStep::To { text: start, pattern: 0 };
        loop {
            self.spend(1)?;
            step = match step {
                MatchStep::To { text, pattern } => self.step(text, pattern)?,
                MatchStep::Ends { text } => return Ok(Some(text)),
                MatchStep::Fails => match self.choices.pop() {
                    Some(choice) => self.choose(choice)?,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Goes on otherwise.
    fn choose(&mut self, choice: Choice) -> Result<MatchStep, Stop> {
        Ok(match choice {
            Choice::Without { text, pattern } => MatchStep::To { text, pattern },
            Choice::Fewer { least, text, pattern } => {
                if text > least {
                    self.choices.push(Choice::Fewer { least, text: text - 1, pattern });
                }
                MatchStep::To { text, pattern }
            }
            Choice::More { text, item } if self.is_single(text, &item)? => {
                let pattern = item.end + 1;
                self.choices.push(Choice::More { text: text + 1, item });
                MatchStep::To { text: text + 1, pattern }
            }
            Choice::More { .. } => MatchStep::Fails,
            Choice::Opened => {
                self.count -= 1;
                MatchStep::Fails
            }
            Choice::Closed { index, start } => {
                self.captures[index] = Capture::Open { start };
                MatchStep::Fails
            }
        })
    }

    /// Matches the next item of the pattern.
    fn step(&mut self, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        match (self.at(pattern), self.at(pattern + 1)) {
            _ if pattern >= self.pattern.len() => Ok(MatchStep::Ends { text }),
            (b'(', b')') => self.open(Capture::Position { at: text }, text, pattern + 2),
            (b'(', _) => self.open(Capture::Open { start: text }, text, pattern + 1),
            (b')', _) => self.close(text, pattern + 1),
            (ESCAPE, b'b') => self.balance(text, pattern + 2),
            (ESCAPE, b'f') => self.frontier(text, pattern + 2),
            (ESCAPE, digit @ b'0'..=b'9') => self.repeat(digit, text, pattern + 2),
            (b'$', _) if pattern + 1 == self.pattern.len() => {
                Ok(if text == self.text.len() { MatchStep::Ends { text } } else { MatchStep::Fails })
            }
            _ => self.item(text, pattern),
        }
    }

    /// Matches a single character with its quantifier.
    fn item(&mut self, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        let item = pattern..self.item_end(pattern)?;
        let next = item.end + 1;
        match self.at(item.end) {
            b'?' => {
                if !self.is_single(text, &item)? {
                    return Ok(MatchStep::To { text, pattern: next });
                }
                self.choices.push(Choice::Without { text, pattern: next });
                Ok(MatchStep::To { text: text + 1, pattern: next })
            }
            quantifier @ (b'*' | b'+') => {
                let least = text + usize::from(quantifier == b'+');
                let mut end = text;
                while self.is_single(end, &item)? {
                    end += 1;
                }
                if end < least {
                    return Ok(MatchStep::Fails);
                }
                self.choose(Choice::Fewer { least, text: end, pattern: next })
            }
            b'-' => {
                self.choices.push(Choice::More { text, item });
                Ok(MatchStep::To { text, pattern: next })
            }
            _ if self.is_single(text, &item)? => Ok(MatchStep::To { text: text + 1, pattern: item.end }),
            _ => Ok(MatchStep::Fails),
        }
    }

    fn open(&mut self, capture: Capture, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        if self.count >= CAPTURE_COUNT_MAX {
            return Err(Stop::Malformed("too many captures"));
        }
        self.captures[self.count] = capture;
        self.count += 1;
        self.choices.push(Choice::Opened);
        Ok(MatchStep::To { text, pattern })
    }

    fn close(&mut self, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        for index in (0..self.count).rev() {
            if let Capture::Open { start } = self.captures[index] {
                self.captures[index] = Capture::Part { start, end: text };
                self.choices.push(Choice::Closed { index, start });
                return Ok(MatchStep::To { text, pattern });
            }
        }
        Err(Stop::Malformed("invalid pattern capture"))
    }

    /// `%b`: a text between two characters, which are balanced in it.
    fn balance(&mut self, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        let (opening, closing) = (self.at(pattern), self.at(pattern + 1));
        if opening == 0 || closing == 0 {
            return Err(Stop::Malformed("unbalanced pattern"));
        }
        if self.text.get(text) != Some(&opening) {
            return Ok(MatchStep::Fails);
        }
        let mut open_count = 1;
        for at in text + 1..self.text.len() {
            self.spend(1)?;
            let byte = self.text[at];
            if byte == closing {
                open_count -= 1;
                if open_count == 0 {
                    return Ok(MatchStep::To { text: at + 1, pattern: pattern + 2 });
                }
            } else if byte == opening {
                open_count += 1;
            }
        }
        Ok(MatchStep::Fails)
    }

    /// `%f`: between a character that is not in the set and one that is.
    fn frontier(&mut self, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        if self.at(pattern) != b'[' {
            return Err(Stop::Malformed("missing '[' after '%f' in pattern"));
        }
        let set = pattern..self.item_end(pattern)?;
        let before = text.checked_sub(1).map_or(0, |at| self.text[at]);
        let after = self.text.get(text).copied().unwrap_or(0);
        self.spend(set.len() / 8)?;
        if self.is_in_set(before, &set) || !self.is_in_set(after, &set) {
            return Ok(MatchStep::Fails);
        }
        Ok(MatchStep::To { text, pattern: set.end })
    }

    /// `%1` to `%9`: what a capture has matched.
    fn repeat(&mut self, digit: u8, text: usize, pattern: usize) -> Result<MatchStep, Stop> {
        const INVALID: Stop = Stop::Malformed("invalid capture index");
        let index = usize::from(digit).checked_sub(usize::from(b'1')).ok_or(INVALID)?;
        match self.captures[..self.count].get(index) {
            None | Some(Capture::Open { .. }) => Err(INVALID),
            Some(Capture::Position { .. }) => Ok(MatchStep::Fails),
            Some(Capture::Part { start, end }) => {
                let part = &self.text[*start..*end];
                let is_there = self.text[text..].starts_with(part);
                let len = part.len();
                self.spend(len / 16)?;
                Ok(if is_there { MatchStep::To { text: text + len, pattern } } else { MatchStep::Fails })
            }
        }
    }

    fn at(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Where the single character that begins there ends in the pattern.
    fn item_end(&mut self, begin: usize) -> Result<usize, Stop> {
        match self.at(begin) {
            ESCAPE if begin + 1 >= self.pattern.len() => {
                Err(Stop::Malformed("malformed pattern (ends with '%')"))
            }
            ESCAPE => Ok(begin + 2),
            b'[' => {
                let mut at = begin + 1 + usize::from(self.at(begin + 1) == b'^');
                loop {
                    let byte = self.at(at);
                    if at >= self.pattern.len() {
                        return Err(Stop::Malformed("malformed pattern (missing ']')"));
                    }
                    at += 1;
                    if byte == ESCAPE && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.at(at) == b']' {
                        self.spend((at - begin) / 8)?;
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(begin + 1),
        }
    }

    /// Whether the text has a character there, which the item matches.
    fn is_single(&mut self, text: usize, item: &Range<usize>) -> Result<bool, Stop> {
        let Some(&byte) = self.text.get(text) else { return Ok(false) };
        self.spend(1)?;
        Ok(match self.at(item.start) {
            b'.' => true,
            ESCAPE => is_in_class(byte, self.at(item.start + 1)),
            b'[' => {
                self.spend(item.len() / 8)?;
                self.is_in_set(byte, item)
            }
            own => own == byte,
        })
    }

    /// Whether a set in brackets has a character.
    fn is_in_set(&self, byte: u8, set: &Range<usize>) -> bool {
        let end = set.end - 1;
        let is_complement = self.at(set.start + 1) == b'^';
        let mut at = set.start + 1 + usize::from(is_complement);
        while at < end {
            if self.at(at) == ESCAPE {
                at += 1;
                if is_in_class(byte, self.at(at)) {
                    return !is_complement;
                }
            } else if self.at(at + 1) == b'-' && at + 2 < end {
                if (self.at(at)..=self.at(at + 2)).contains(&byte) {
                    return !is_complement;
                }
                at += 2;
            } else if self.at(at) == byte {
                return !is_complement;
            }
            at += 1;
        }
        is_complement
    }
}

/// Whether a class such as `%a` has a character; in upper case, whether it has not.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in == class.is_ascii_lowercase()
}
