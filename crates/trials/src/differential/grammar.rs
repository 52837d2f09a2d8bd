//! The grammar of a command in one line: `SET key value [NX|XX|IFEQ value] [GET] [EX seconds|KEEPTTL]`.
//!
//! Capitals are literal, in any case; lower-case letters name a kind of word (`words`); `[a|b]` is one
//! alternative or nothing, `<a|b>` one alternative; `*` after a part repeats it 0 to 3 times, `+` 1 to 4
//! times, `%` 1 to 80 times.

use super::{script_texts, words};
use crate::random::Random;

/// A parsed line, from which requests are made.
#[derive(Debug)]
pub struct Rule {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Literal(String),
    Word(fn(&mut Random) -> Vec<u8>),
    Optional(Vec<Rule>),
    OneOf(Vec<Rule>),
    Repeated { part: Box<Part>, low: i64, high: i64 },
}

impl Rule {
    /// Parses a line. Panics on an invalid line, because lines are part of the program.
    pub fn parse(line: &str) -> Rule {
        let tokens = tokens(line);
        let mut at = 0;
        let rule = parse_rule(&tokens, &mut at);
        assert_eq!(at, tokens.len(), "unparsed tokens in {line:?}");
        rule
    }

    /// Makes a request that matches the line: options may be reordered or repeated, but each word is of its
    /// kind.
    pub fn make(&self, random: &mut Random) -> Vec<Vec<u8>> {
        let mut arguments = Vec::new();
        self.append(random, &mut arguments);
        arguments
    }

    fn append(&self, random: &mut Random, arguments: &mut Vec<Vec<u8>>) {
        let mut rest = self.parts.as_slice();
        while let Some((first, after)) = rest.split_first() {
            let option_count = rest.iter().take_while(|part| matches!(part, Part::Optional(_))).count();
            if option_count < 2 {
                first.append(random, arguments);
                rest = after;
                continue;
            }
            let mut options: Vec<&Part> = rest[..option_count].iter().collect();
            if random.chance(40) {
                random.shuffle(&mut options);
            }
            if random.chance(4) {
                options.push(options[0]);
            }
            options.iter().for_each(|option| option.append(random, arguments));
            rest = &rest[option_count..];
        }
    }
}

impl Part {
    fn append(&self, random: &mut Random, arguments: &mut Vec<Vec<u8>>) {
        match self {
            Part::Literal(word) if random.chance(15) => {
                arguments.push(word.to_ascii_lowercase().into_bytes())
            }
            Part::Literal(word) => arguments.push(word.clone().into_bytes()),
            Part::Word(make) => arguments.push(make(random)),
            // Options are mostly off, because otherwise most requests would be refused.
            Part::Optional(_) if random.chance(60) => {}
            Part::Optional(choices) | Part::OneOf(choices) => random.pick(choices).append(random, arguments),
            Part::Repeated { part, low, high } => {
                (0..random.between(*low, *high)).for_each(|_| part.append(random, arguments));
            }
        }
    }
}

fn tokens(line: &str) -> Vec<String> {
    let mut spaced = String::new();
    for letter in line.chars() {
        match letter {
            '[' | ']' | '<' | '>' | '|' | '*' | '+' | '%' => spaced.extend([' ', letter, ' ']),
            _ => spaced.push(letter),
        }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

fn parse_rule(tokens: &[String], at: &mut usize) -> Rule {
    let mut parts = Vec::new();
    while let Some(token) = tokens.get(*at) {
        let part = match token.as_str() {
            "]" | ">" | "|" => break,
            "[" => Part::Optional(parse_choices(tokens, at, "]")),
            "<" => Part::OneOf(parse_choices(tokens, at, ">")),
            "*" | "+" | "%" => {
                let (low, high) = match token.as_str() {
                    "*" => (0, 3),
                    "+" => (1, 4),
                    _ => (1, 80),
                };
                let part = Box::new(parts.pop().expect("a part stands before the repetition"));
                Part::Repeated { part, low, high }
            }
            word if word.starts_with(|first: char| first.is_ascii_lowercase()) => Part::Word(word_kind(word)),
            word => Part::Literal(word.to_owned()),
        };
        parts.push(part);
        *at += 1;
    }
    Rule { parts }
}

/// Parses from the opening bracket to the closing one, and leaves `at` on the latter.
fn parse_choices(tokens: &[String], at: &mut usize, close: &str) -> Vec<Rule> {
    let mut choices = Vec::new();
    loop {
        *at += 1;
        choices.push(parse_rule(tokens, at));
        match tokens.get(*at).map(String::as_str) {
            Some("|") => {}
            Some(token) if token == close => return choices,
            other => panic!("{close} expected, not {other:?}"),
        }
    }
}

fn word_kind(name: &str) -> fn(&mut Random) -> Vec<u8> {
    match name {
        "key" => words::key,
        "integer" => words::integer,
        "index" => words::index,
        "offset" => words::offset,
        "bitoffset" => words::bit_offset,
        "fieldoffset" => words::field_offset,
        "fieldtype" => words::field_type,
        "entryid" => words::entry_id,
        "startid" => words::start_id,
        "endid" => words::end_id,
        "readid" => words::read_id,
        "groupreadid" => words::group_read_id,
        "name" => words::name,
        "member" => words::member,
        "script" => script_texts::script,
        "sha" => script_texts::sha,
        "loaded" => script_texts::loaded,
        "library" => script_texts::library,
        "function" => script_texts::function,
        "autoid" => words::auto_id,
        "halfautoid" => words::half_auto_id,
        "highest" => words::highest,
        "deepmember" => words::deep_member,
        "deepnumber" => words::deep_number,
        "deepindex" => words::deep_index,
        "float" => words::float,
        "value" => words::value,
        "seconds" => words::seconds,
        "milliseconds" => words::milliseconds,
        "unixseconds" => words::unix_seconds,
        "unixmilliseconds" => words::unix_milliseconds,
        "database" => words::database,
        "pattern" => words::pattern,
        "prefix" => words::prefix,
        "odd" => words::odd,
        "score" => words::score,
        "scoreend" => words::score_end,
        "memberend" => words::member_end,
        "equalkey" => words::equal_key,
        "coordinate" => words::coordinate,
        "distance" => words::distance,
        _ => panic!("no kind of word has the name {name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: &str) -> Vec<String> {
        let rule = Rule::parse(rule);
        let mut random = Random::new(1);
        let mut made: Vec<String> = (0..3000)
            .map(|_| {
                rule.make(&mut random).iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>()
            })
            .map(|words| words.join(" ").to_uppercase())
            .collect();
        made.sort();
        made.dedup();
        made
    }

    #[test]
    fn every_choice_is_made() {
        assert_eq!(lines("A <B|C D>"), ["A B", "A C D"]);
        assert_eq!(lines("A [B|C]"), ["A", "A B", "A C"]);
        assert_eq!(lines("A <B C>+"), ["A B C", "A B C B C", "A B C B C B C", "A B C B C B C B C"]);
        assert_eq!(lines("A B*").first().map(String::as_str), Some("A"));
    }

    #[test]
    fn options_come_in_any_order_and_sometimes_twice() {
        let made = lines("A [B] [C]");
        for line in ["A", "A B C", "A C B", "A B C B"] {
            assert!(made.contains(&line.to_owned()), "{line} of {made:?}");
        }
    }

    #[test]
    #[should_panic(expected = "no kind of word")]
    fn an_unknown_kind_of_word_is_refused() {
        Rule::parse("GET nonsense");
    }
}
