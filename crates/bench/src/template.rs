//! Request templates: `HSET h:{key} f {value}` compiled into pre-rendered RESP with holes.
//!
//! A request whose every hole has a fixed size is one copied text and a few patched bytes. At an argument of
//! drawn size (`--value-size 16..256`, `{int}`) the text is interrupted, and that argument is rendered with
//! its length.
//! Start reading at [`Template::parse`].

use std::ops::Range;

use rand::rngs::SmallRng;

use crate::distribution::{KeyPicker, below};
use crate::error::BenchError;
use crate::keys::{KEY_COUNT_MAX, KeyShape, write_digits};
use crate::values::ValueSource;

/// The syntax, for `--help`.
pub const PLACEHOLDERS: &str = "  {key}        a key, drawn by --distribution
  {value}      a value of --value-size bytes
  {int}        a number from 0 to 2147483647
  {int:A..B}   a number from A to B, inclusive
  {key*N}      N keys, one argument each (must be a whole word)
  {pair*N}     N pairs of key and value (must be a whole word)
  {num:N}      a number below N, zero-padded to a fixed length
  {+N}         the last number drawn by {int} or {int:A..B}, plus N
  {times:N WORDS }  repeats WORDS N times; in them {nth} is 00, 01, ...
  {{           a literal {
  ;            as a separate word: starts another command, sent together with the previous one";

/// Maximum number of arguments of `{key*N}`.
const REPETITION_COUNT_MAX: usize = 1_000_000;

/// One compiled command, or several that are always sent together.
#[derive(Clone, Debug)]
pub struct Template {
    segments: Vec<Segment>,
    command_count: u64,
}

/// Pre-rendered bytes with holes of fixed size, then at most one argument of drawn size.
#[derive(Clone, Debug, Default)]
struct Segment {
    text: Vec<u8>,
    patches: Vec<Patch>,
    drawn: Option<Vec<Part>>,
}

#[derive(Clone, Debug)]
enum Patch {
    Key { digits: Range<usize> },
    Value { bytes: Range<usize> },
    Number { digits: Range<usize>, count: u64 },
}

/// A part of one argument.
#[derive(Clone, Debug)]
enum Part {
    Literal(Vec<u8>),
    Key { zeroth: Vec<u8>, digits: Range<usize> },
    Value,
    Integer { min: i64, max: i64 },
    Number { count: u64, width: usize },
    AfterInteger { by: i64 },
}

/// Source of keys and values for templates: one per load thread and flow.
#[derive(Clone, Debug)]
pub struct Draw {
    /// Random number generator of the thread.
    pub rng: SmallRng,
    /// Source of key numbers.
    pub keys: KeyPicker,
    /// Source of values.
    pub values: ValueSource,
    scratch: Vec<u8>,
    integer_last: i64,
}

impl Draw {
    /// Creates a source from its parts.
    #[must_use]
    pub const fn new(rng: SmallRng, keys: KeyPicker, values: ValueSource) -> Self {
        Self { rng, keys, values, scratch: Vec::new(), integer_last: 0 }
    }
}

impl Template {
    /// Compiles a command line, split into words by shell rules.
    pub fn parse(command: &str, keys: &KeyShape, values: &ValueSource) -> Result<Self, BenchError> {
        let words = shlex::split(command)
            .filter(|words| !words.is_empty())
            .ok_or_else(|| BenchError::usage(format!("missing command or unclosed quote in '{command}'")))?;
        let mut template = Self { segments: Vec::new(), command_count: 0 };
        for words in repeat_groups(words)?.split(|word| word == ";").filter(|words| !words.is_empty()) {
            template.append_command(words, keys, values)?;
        }
        Ok(template)
    }

    /// Returns the number of commands per request.
    #[must_use]
    pub const fn command_count(&self) -> u64 {
        self.command_count
    }

    fn append_command(
        &mut self,
        words: &[String],
        keys: &KeyShape,
        values: &ValueSource,
    ) -> Result<(), BenchError> {
        let mut arguments: Vec<Vec<Part>> = Vec::new();
        for word in words {
            match Repetition::parse(word)? {
                Some(repetition) => repetition.expand(keys, &mut arguments),
                None => arguments.push(parse_word(word, keys)?),
            }
        }

        let mut open =
            Segment { text: format!("*{}\r\n", arguments.len()).into_bytes(), ..Segment::default() };
        for argument in arguments {
            let sizes: Option<Vec<usize>> = argument.iter().map(|part| part.fixed_size(values)).collect();
            match sizes {
                Some(sizes) => open.append_fixed(&argument, &sizes),
                None => {
                    open.drawn = Some(argument);
                    self.segments.push(std::mem::take(&mut open));
                }
            }
        }
        if !open.text.is_empty() {
            self.segments.push(open);
        }
        self.command_count += 1;
        Ok(())
    }

    /// Appends one request.
    #[inline]
    pub fn render(&self, draw: &mut Draw, out: &mut Vec<u8>) {
        for segment in &self.segments {
            let start = out.len();
            out.extend_from_slice(&segment.text);
            let text = &mut out[start..];
            for patch in &segment.patches {
                match patch {
                    Patch::Key { digits } => {
                        write_digits(draw.keys.pick(&mut draw.rng), &mut text[digits.clone()]);
                    }
                    Patch::Value { bytes } => {
                        let value = draw.values.draw(bytes.len(), &mut draw.rng);
                        text[bytes.clone()].copy_from_slice(value);
                    }
                    Patch::Number { digits, count } => {
                        write_digits(below(*count, &mut draw.rng), &mut text[digits.clone()]);
                    }
                }
            }
            if let Some(argument) = &segment.drawn {
                render_drawn(argument, draw, out);
            }
        }
    }
}

impl Segment {
    fn append_fixed(&mut self, argument: &[Part], sizes: &[usize]) {
        self.text.extend_from_slice(format!("${}\r\n", sizes.iter().sum::<usize>()).as_bytes());
        for (part, size) in argument.iter().zip(sizes) {
            let start = self.text.len();
            match part {
                Part::Literal(bytes) => self.text.extend_from_slice(bytes),
                Part::Key { zeroth, digits } => {
                    self.text.extend_from_slice(zeroth);
                    self.patches.push(Patch::Key { digits: start + digits.start..start + digits.end });
                }
                Part::Value => {
                    self.text.resize(start + size, b'.');
                    self.patches.push(Patch::Value { bytes: start..start + size });
                }
                Part::Integer { min, .. } => self.text.extend_from_slice(min.to_string().as_bytes()),
                Part::Number { count, .. } => {
                    self.text.resize(start + size, b'0');
                    self.patches.push(Patch::Number { digits: start..start + size, count: *count });
                }
                Part::AfterInteger { .. } => unreachable!("fixed_size returns None for this part"),
            }
        }
        self.text.extend_from_slice(b"\r\n");
    }
}

impl Part {
    /// Returns the size in bytes of every rendering, if it is constant.
    fn fixed_size(&self, values: &ValueSource) -> Option<usize> {
        match self {
            Self::Literal(bytes) => Some(bytes.len()),
            Self::Key { zeroth, .. } => Some(zeroth.len()),
            Self::Value => values.size().as_fixed(),
            Self::Integer { min, max } => (min == max).then(|| min.to_string().len()),
            Self::Number { width, .. } => Some(*width),
            Self::AfterInteger { .. } => None,
        }
    }

    fn key(keys: &KeyShape) -> Self {
        Self::Key { zeroth: keys.zeroth(), digits: keys.digits() }
    }
}

fn render_drawn(argument: &[Part], draw: &mut Draw, out: &mut Vec<u8>) {
    if let [Part::Value] = argument {
        let size = draw.values.draw_size(&mut draw.rng);
        append_size(size, out);
        out.extend_from_slice(draw.values.draw(size, &mut draw.rng));
        out.extend_from_slice(b"\r\n");
        return;
    }
    let mut body = std::mem::take(&mut draw.scratch);
    body.clear();
    for part in argument {
        match part {
            Part::Literal(bytes) => body.extend_from_slice(bytes),
            Part::Key { zeroth, digits } => {
                let start = body.len();
                body.extend_from_slice(zeroth);
                let number = draw.keys.pick(&mut draw.rng);
                write_digits(number, &mut body[start + digits.start..start + digits.end]);
            }
            Part::Value => {
                let size = draw.values.draw_size(&mut draw.rng);
                body.extend_from_slice(draw.values.draw(size, &mut draw.rng));
            }
            Part::Integer { min, max } => {
                let span = max.abs_diff(*min).saturating_add(1);
                draw.integer_last = min.wrapping_add_unsigned(below(span, &mut draw.rng));
                append_integer(draw.integer_last, &mut body);
            }
            Part::Number { count, width } => {
                let start = body.len();
                body.resize(start + width, b'0');
                write_digits(below(*count, &mut draw.rng), &mut body[start..]);
            }
            Part::AfterInteger { by } => append_integer(draw.integer_last.saturating_add(*by), &mut body),
        }
    }
    append_size(body.len(), out);
    out.extend_from_slice(&body);
    out.extend_from_slice(b"\r\n");
    draw.scratch = body;
}

fn append_size(size: usize, out: &mut Vec<u8>) {
    out.push(b'$');
    append_integer(size as i64, out);
    out.extend_from_slice(b"\r\n");
}

fn append_integer(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// A word that expands to several arguments.
struct Repetition {
    with_value: bool,
    count: usize,
}

impl Repetition {
    fn parse(word: &str) -> Result<Option<Self>, BenchError> {
        let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let Some((name, count)) = inner.and_then(|inner| inner.split_once('*')) else {
            return Ok(None);
        };
        let with_value = match name {
            "key" => false,
            "pair" => true,
            _ => return Ok(None),
        };
        match count.parse() {
            Ok(count) if (1..=REPETITION_COUNT_MAX).contains(&count) => Ok(Some(Self { with_value, count })),
            _ => Err(BenchError::usage(format!(
                "the count in '{word}' is not an integer from 1 to {REPETITION_COUNT_MAX}"
            ))),
        }
    }

    fn expand(&self, keys: &KeyShape, arguments: &mut Vec<Vec<Part>>) {
        for _ in 0..self.count {
            arguments.push(vec![Part::key(keys)]);
            if self.with_value {
                arguments.push(vec![Part::Value]);
            }
        }
    }
}

/// Expands each `{times:N WORDS }`.
fn repeat_groups(words: Vec<String>) -> Result<Vec<String>, BenchError> {
    let mut all = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(count) = word.strip_prefix("{times:").filter(|rest| !rest.contains('}')) else {
            all.push(word);
            continue;
        };
        let group: Vec<String> = words.by_ref().take_while(|word| word != "}").collect();
        match count.parse::<usize>() {
            Ok(count) if (1..=REPETITION_COUNT_MAX).contains(&count) => {
                let width = (count - 1).max(10).to_string().len();
                all.extend((0..count).flat_map(|nth| {
                    let nth = format!("{nth:0width$}");
                    group.iter().map(move |word| word.replace("{nth}", &nth))
                }));
            }
            _ => {
                return Err(BenchError::usage(format!(
                    "the count in '{word}' is not an integer from 1 to {REPETITION_COUNT_MAX}"
                )));
            }
        }
    }
    Ok(all)
}

fn parse_word(word: &str, keys: &KeyShape) -> Result<Vec<Part>, BenchError> {
    let mut parts = Vec::new();
    let mut literal = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        literal.extend_from_slice(&rest.as_bytes()[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('{') {
            literal.push(b'{');
            rest = after;
            continue;
        }
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| BenchError::usage(format!("'{{' without '}}' in '{word}'")))?;
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(parse_placeholder(name, keys)?);
        rest = after;
    }
    literal.extend_from_slice(rest.as_bytes());
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

fn parse_placeholder(name: &str, keys: &KeyShape) -> Result<Part, BenchError> {
    match name {
        "key" => return Ok(Part::key(keys)),
        "value" => return Ok(Part::Value),
        "int" => return Ok(Part::Integer { min: 0, max: i64::from(i32::MAX) }),
        _ => {}
    }
    if let Some(count) = name.strip_prefix("num:").and_then(|count| count.parse().ok())
        && (1..=KEY_COUNT_MAX).contains(&count)
    {
        return Ok(Part::Number { count, width: (count - 1).max(1).to_string().len() });
    }
    if let Some(by) = name.strip_prefix('+').and_then(|by| by.parse().ok()) {
        return Ok(Part::AfterInteger { by });
    }
    let range = name.strip_prefix("int:").and_then(|range| range.split_once(".."));
    let range = range.and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    match range {
        Some((min, max)) if min <= max => Ok(Part::Integer { min, max }),
        _ => Err(BenchError::usage(format!(
            "unknown placeholder '{{{name}}}' (write '{{{{' for a brace); valid placeholders:\n{PLACEHOLDERS}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::distribution::{Distribution, Share};

    fn render(command: &str, value_size: &str, count: usize) -> String {
        let keys = KeyShape::new("key:", 16, 1_000_000).unwrap();
        let values = ValueSource::new(value_size.parse().unwrap());
        let picker =
            KeyPicker::new(Distribution::Sequential, 1_000_000, Share { index: 0, count: 1 }).unwrap();
        let mut draw = Draw::new(SmallRng::seed_from_u64(3), picker, values);
        let template = Template::parse(command, &keys, &draw.values).unwrap();
        let mut out = Vec::new();
        for _ in 0..count {
            template.render(&mut draw, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fixed_requests_are_one_segment() {
        assert_eq!(
            render("GET {key}", "64", 2),
            "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"
        );
        let keys = KeyShape::new("key:", 16, 10).unwrap();
        let values = ValueSource::new("64".parse().unwrap());
        let template = Template::parse("SET {key} {value}", &keys, &values).unwrap();
        assert_eq!(template.segments.len(), 1);
    }

    #[test]
    fn several_commands_form_one_template() {
        assert_eq!(
            render("MULTI ; {times:2 INCR {key} ; } EXEC", "64", 1),
            "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$16\r\nkey:000000000000\r\n\
             *2\r\n$4\r\nINCR\r\n$16\r\nkey:000000000001\r\n*1\r\n$4\r\nEXEC\r\n"
        );
        let keys = KeyShape::new("key:", 16, 10).unwrap();
        let values = ValueSource::new("64".parse().unwrap());
        assert_eq!(Template::parse("MULTI ; EXEC", &keys, &values).unwrap().command_count(), 2);
    }

    #[test]
    fn values_fill_their_placeholder() {
        let request = render("SET {key} {value}", "5", 1);
        let value = request.strip_prefix("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$5\r\n").unwrap();
        assert_eq!(value.len(), 7);
        assert!(value[..5].bytes().all(|byte| byte.is_ascii_lowercase()), "{value}");
    }

    #[test]
    fn drawn_sizes_match_their_length_lines() {
        for request in render("SET {key} {value}", "1..300", 500).split("*3\r\n").skip(1) {
            let lines: Vec<&str> = request.split("\r\n").collect();
            let [_, _, _, _, size, value, ""] = lines[..] else { panic!("{request}") };
            assert_eq!(size[1..].parse::<usize>().unwrap(), value.len());
        }
    }

    #[test]
    fn parts_mix_inside_a_word() {
        assert_eq!(
            render("HSET 'h:{key}:x' f-{int:7..7} '{{tag}}'", "64", 1),
            "*4\r\n$4\r\nHSET\r\n$20\r\nh:key:000000000000:x\r\n$3\r\nf-7\r\n$6\r\n{tag}}\r\n"
        );
        let text = render("ZADD z {int:-9..110} m:{key}", "64", 300);
        for request in text.split("*4\r\n").skip(1) {
            let lines: Vec<&str> = request.split("\r\n").collect();
            let score: i64 = lines[5].parse().unwrap();
            assert!((-9..=110).contains(&score));
            assert_eq!(lines[4], format!("${}", lines[5].len()));
            assert_eq!(lines[7].len(), 18);
        }
    }

    #[test]
    fn repetitions_become_arguments() {
        assert_eq!(
            render("MGET {key*3}", "64", 1),
            "*4\r\n$4\r\nMGET\r\n$16\r\nkey:000000000000\r\n$16\r\nkey:000000000001\r\n$16\r\nkey:000000000002\r\n"
        );
        assert!(
            render("MSET {pair*10}", "3", 1)
                .starts_with("*21\r\n$4\r\nMSET\r\n$16\r\nkey:000000000000\r\n$3\r\n")
        );
    }

    #[test]
    fn groups_are_written_out() {
        assert_eq!(
            render("HSET h {times:2 f{nth} v }", "1", 1),
            "*6\r\n$4\r\nHSET\r\n$1\r\nh\r\n$3\r\nf00\r\n$1\r\nv\r\n$3\r\nf01\r\n$1\r\nv\r\n"
        );
        let request = render("ZADD z {times:12 {nth} m{nth} }", "1", 1);
        assert!(
            request.starts_with("*26\r\n") && request.ends_with("$2\r\n11\r\n$3\r\nm11\r\n"),
            "{request}"
        );
    }

    #[test]
    fn random_numbers_have_fixed_length_and_may_be_offset() {
        let text = render("HGET {key} f{num:50}", "1", 200);
        for request in text.split("*3\r\n").skip(1) {
            let lines: Vec<&str> = request.split("\r\n").collect();
            assert_eq!((lines[4], lines[5].len()), ("$3", 3));
            assert!(lines[5][1..].parse::<u32>().unwrap() < 50);
        }
        let text = render("ZRANGE z {int:0..500} {+99}", "1", 200);
        for request in text.split("*4\r\n").skip(1) {
            let lines: Vec<&str> = request.split("\r\n").collect();
            assert_eq!(lines[5].parse::<u32>().unwrap() + 99, lines[7].parse::<u32>().unwrap());
        }
    }

    #[test]
    fn invalid_input_is_refused() {
        let keys = KeyShape::new("key:", 16, 10).unwrap();
        let values = ValueSource::new("64".parse().unwrap());
        for command in
            ["", "GET 'x", "GET {nokey}", "GET {key", "GET {int:5..1}", "MGET {key*0}", "MGET {key*x}"]
        {
            assert!(Template::parse(command, &keys, &values).is_err(), "{command}");
        }
    }

    #[test]
    fn integers_of_every_length() {
        for number in [0, 9, 10, -1, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            append_integer(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
