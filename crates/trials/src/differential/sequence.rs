//! A sequence of requests generated from a seed: the requests, their batches, and the pieces they are sent
//! in.

use super::ensembles::{ENSEMBLES, Ensemble, data_families};
use super::families::{FAMILIES, Family};
use super::grammar::Rule;
use super::words;
use crate::connection::encode;
use crate::random::Random;

/// Encoding of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An array of bulk strings.
    Array,
    /// A line of words.
    Inline,
    /// SCAN from 0 until the cursor is 0 again; the reply is the unordered set of results.
    WholeScan,
}

/// One request of a sequence.
#[derive(Clone, Debug)]
pub struct Step {
    /// Words of the request.
    pub arguments: Vec<Vec<u8>>,
    /// Encoding.
    pub form: Form,
    /// Whether the replies of the batch are awaited before the next request is sent.
    pub ends_batch: bool,
    /// Whether a key expires a moment later; the player waits for that.
    pub expires_soon: bool,
    /// Connection that sends it.
    pub connection: usize,
}

/// The requests of one connection, or of an ensemble, in order.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Seed of the sequence.
    pub seed: u64,
    /// Whether each connection starts with HELLO 3.
    pub is_resp3: Vec<bool>,
    /// The ensemble that plays it, if not a single connection.
    pub ensemble: Option<&'static Ensemble>,
    /// Requests.
    pub steps: Vec<Step>,
}

/// The source of sequences.
pub struct Recipe {
    ensemble: Option<&'static Ensemble>,
    rules: Rules<&'static [usize]>,
    /// Commands of every data type, their percentage of the requests, and the connections that send them.
    data: (Rules<()>, usize, &'static [usize]),
    length: usize,
}

/// Weighted rules, each with its data.
struct Rules<T> {
    rules: Vec<(usize, T, Rule)>,
    weight_sum: usize,
}

impl Recipe {
    /// Creates a recipe of `length` requests of one family, of all families, or of an ensemble.
    pub fn new(name: Option<&str>, length: usize) -> Option<Recipe> {
        if let Some(ensemble) = ENSEMBLES.iter().find(|ensemble| Some(ensemble.name) == name) {
            let rules = ensemble.lines.iter().map(|(weight, by, line)| (*weight, *by, Rule::parse(line)));
            let data = data_families().flat_map(|family| family.lines);
            let data = Rules::new(data.map(|(weight, line)| (*weight, (), Rule::parse(line))));
            let (percent, by) = ensemble.data;
            let rules = Rules::new(rules);
            return Some(Recipe { ensemble: Some(ensemble), rules, data: (data, percent, by), length });
        }
        let wanted = |of: &&Family| name.is_none_or(|name| name == of.name);
        let lines = FAMILIES.iter().filter(wanted).flat_map(|family| family.lines);
        let rules = Rules::new(lines.map(|(weight, line)| (*weight, &[0][..], Rule::parse(line))));
        let data = (Rules::new([].into_iter()), 0, &[][..]);
        (rules.weight_sum > 0).then_some(Recipe { ensemble: None, rules, data, length })
    }

    /// Makes the sequence of a seed.
    pub fn make(&self, seed: u64) -> Sequence {
        let mut random = Random::new(seed);
        let connection_count = self.ensemble.map_or(1, |ensemble| ensemble.connection_count);
        let is_resp3 = (0..connection_count).map(|_| random.chance(50)).collect();
        let batch_length_max = *random.pick(&[1, 3, 10, 30]);
        let mut steps: Vec<Step> = Vec::with_capacity(self.length);
        for _ in 0..self.length {
            let mut step = self.make_step(&mut random, batch_length_max);
            // CACHING applies to the next command, which must not be the PING after a batch.
            if self.ensemble.is_some() && step.is(&["CLIENT", "CACHING"]) {
                step.ends_batch = false;
            }
            // When a connection enables tracking, some servers also report changes made earlier in the batch.
            if let Some(previous) = steps.last_mut().filter(|_| step.is(&["CLIENT", "TRACKING"])) {
                previous.ends_batch |= !previous.is(&["CLIENT", "CACHING"]);
            }
            if let Some(previous) = steps.last().filter(|previous| !previous.ends_batch)
                && self.ensemble.is_some()
            {
                step.connection = previous.connection;
            }
            steps.push(step);
        }
        Sequence { seed, is_resp3, ensemble: self.ensemble, steps }
    }

    fn make_step(&self, random: &mut Random, batch_length_max: usize) -> Step {
        let (mut arguments, mut connection);
        loop {
            (connection, arguments) = self.draw(random);
            mutate(random, &mut arguments);
            let is_settled = expiry(&arguments) != Expiry::Unclear && !leaves_to_chance(&arguments);
            // A writer that reads an expired key publishes the expiry after its own event, at least in our
            // server.
            let is_late = expiry(&arguments) == Expiry::Soon;
            let is_untimely = self
                .ensemble
                .is_some_and(|ensemble| only_grows(&arguments) || is_late && !ensemble.events.is_empty());
            if is_settled && !takes_much_memory(&arguments) && !waits(&arguments) && !is_untimely {
                break;
            }
        }
        let is_whole_scan =
            arguments.len() >= 2 && arguments[0].eq_ignore_ascii_case(b"SCAN") && arguments[1] == b"0";
        let form = match is_whole_scan && self.ensemble.is_none() {
            true => Form::WholeScan,
            false if random.chance(5) && arguments.iter().all(|word| is_plain(word)) => Form::Inline,
            false => Form::Array,
        };
        // Expiries set in a transaction take effect after EXEC.
        let is_exec = arguments[0].eq_ignore_ascii_case(b"EXEC");
        let expires_soon = is_exec || expiry(&arguments) == Expiry::Soon;
        let ends_batch = is_whole_scan || expires_soon || random.below(batch_length_max) == 0;
        let mut step = Step { arguments, form, ends_batch, expires_soon, connection };
        step.ends_batch |= step.may_wait();
        step
    }

    /// Draws a request and the connection that sends it.
    fn draw(&self, random: &mut Random) -> (usize, Vec<Vec<u8>>) {
        let (data, percent, by) = &self.data;
        if *percent > 0 && random.chance(*percent) {
            return (*random.pick(by), data.pick(random).1.make(random));
        }
        let (by, rule) = self.rules.pick(random);
        let by = if by.len() == 1 { by[0] } else { *random.pick(by) };
        (by, rule.make(random))
    }
}

impl<T> Rules<T> {
    fn new(rules: impl Iterator<Item = (usize, T, Rule)>) -> Rules<T> {
        let rules: Vec<(usize, T, Rule)> = rules.collect();
        Rules { weight_sum: rules.iter().map(|(weight, ..)| weight).sum(), rules }
    }

    fn pick(&self, random: &mut Random) -> (&T, &Rule) {
        let mut left = random.below(self.weight_sum);
        for (weight, with, rule) in &self.rules {
            if left < *weight {
                return (with, rule);
            }
            left -= weight;
        }
        unreachable!("the weights add up to weight_sum")
    }
}

impl Sequence {
    /// Returns the steps in groups that are sent at once.
    pub fn batches(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|step, next| {
            !step.ends_batch && next.form != Form::WholeScan && step.connection == next.connection
        })
    }
}

impl Step {
    /// Returns the encoded request.
    pub fn bytes(&self) -> Vec<u8> {
        match self.form {
            Form::Array | Form::WholeScan => encode(&self.arguments),
            Form::Inline => [self.arguments.join(b" ".as_slice()), b"\r\n".to_vec()].concat(),
        }
    }

    /// Whether the command may block.
    pub fn may_wait(&self) -> bool {
        let blocks = self.arguments.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK"));
        WAITING.iter().any(|name| self.is(&[name]))
            || blocks && (self.is(&["XREAD"]) || self.is(&["XREADGROUP"]))
    }

    /// Whether it may run a script that keeps its changes out of the append-only file.
    pub fn chooses_what_is_logged(&self) -> bool {
        const CHOICE: &[u8] = b"set_repl";
        self.arguments.iter().any(|word| word.windows(CHOICE.len()).any(|part| part == CHOICE))
    }

    /// Whether the first words are these, in any case.
    pub fn is(&self, words: &[&str]) -> bool {
        let pairs = words.iter().zip(&self.arguments);
        self.arguments.len() >= words.len()
            && pairs.into_iter().all(|(word, argument)| argument.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// Commands that block, except stream commands with BLOCK.
const WAITING: &[&str] =
    &["BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP"];

#[derive(PartialEq, Eq)]
enum Expiry {
    /// No expiry, one in the past, or one far after the end of any trial.
    Settled,
    /// The one millisecond of the expiry family.
    Soon,
    /// An expiry that some servers would observe and others not.
    Unclear,
}

/// Classifies the expiry that a request sets.
fn expiry(arguments: &[Vec<u8>]) -> Expiry {
    const SEEN_MILLISECONDS_MAX: i64 = 900_000;
    let is_word = |argument: &Vec<u8>, word: &str| argument.eq_ignore_ascii_case(word.as_bytes());
    let unit_ms = |argument: &Vec<u8>| match () {
        () if is_word(argument, "PX") || is_word(argument, "PEXPIRE") || is_word(argument, "PSETEX") => {
            Some(1)
        }
        () if is_word(argument, "EX") || is_word(argument, "EXPIRE") || is_word(argument, "SETEX") => {
            Some(1000)
        }
        () => None,
    };
    let mut worst = Expiry::Settled;
    for (position, argument) in arguments.iter().enumerate() {
        let Some(unit_ms) = unit_ms(argument) else { continue };
        let time_at = if position == 0 { 2 } else { position + 1 };
        let time = arguments.get(time_at).and_then(|time| std::str::from_utf8(time).ok());
        let left_ms = time.and_then(|time| time.parse::<i64>().ok()).unwrap_or(0).saturating_mul(unit_ms);
        match left_ms {
            1 => worst = Expiry::Soon,
            2..=SEEN_MILLISECONDS_MAX => return Expiry::Unclear,
            _ => {}
        }
    }
    worst
}

/// Whether a request would create a string or a reply of tens of MB or more, which adds no coverage.
fn takes_much_memory(arguments: &[Vec<u8>]) -> bool {
    const HARMLESS_OFFSET_MAX: i64 = 1_000_000;
    const OFFSET_MAX: i64 = u32::MAX as i64;
    const REPETITION_MIN: i64 = -1000;
    if let [name, _, count, ..] = arguments
        && [b"SRANDMEMBER".as_slice(), b"ZRANDMEMBER", b"HRANDFIELD"]
            .iter()
            .any(|of| name.eq_ignore_ascii_case(of))
    {
        let count = std::str::from_utf8(count).ok().and_then(|count| count.parse::<i64>().ok());
        return count.is_some_and(|count| count < REPETITION_MIN && count != i64::MIN);
    }
    let is_field_type = |word: &Vec<u8>| {
        let (sign, width) = word.split_at(word.len().min(1));
        matches!(sign, b"u" | b"i" | b"U" | b"I") && !width.is_empty() && width.iter().all(u8::is_ascii_digit)
    };
    let offsets: Vec<&Vec<u8>> = match arguments[0].to_ascii_uppercase().as_slice() {
        b"SETBIT" | b"SETRANGE" => arguments.get(2).into_iter().collect(),
        b"BITFIELD" => {
            arguments.windows(2).filter(|pair| is_field_type(&pair[0])).map(|pair| &pair[1]).collect()
        }
        _ => Vec::new(),
    };
    let mut numbers =
        offsets.into_iter().filter_map(|offset| std::str::from_utf8(offset).ok()?.parse::<i64>().ok());
    numbers.any(|offset| (HARMLESS_OFFSET_MAX..=OFFSET_MAX).contains(&offset))
}

/// Whether a request may extend a string and write nothing else. Our server sends notifications for it,
/// because the value that clients have read has changed; Valkey and Redis do not.
fn only_grows(arguments: &[Vec<u8>]) -> bool {
    let is = |word: &Vec<u8>, name: &[u8]| word.eq_ignore_ascii_case(name);
    is(&arguments[0], b"BITFIELD") && arguments.iter().any(|word| is(word, b"FAIL"))
}

/// Whether a request changes data at random, so that servers would hold different data afterwards.
fn leaves_to_chance(arguments: &[Vec<u8>]) -> bool {
    const WHOLE_SET: i64 = 1000;
    let is_spop = arguments[0].eq_ignore_ascii_case(b"SPOP");
    match arguments {
        [_, _] => is_spop,
        [_, _, count] => {
            let count = std::str::from_utf8(count).ok().and_then(|count| count.parse::<i64>().ok());
            is_spop && count.is_some_and(|count| (1..WHOLE_SET).contains(&count))
        }
        _ => false,
    }
}

/// Whether a request waits for non-existent replicas, or blocks with a timeout that ends during the trial.
fn waits(arguments: &[Vec<u8>]) -> bool {
    const WAIT_MILLISECONDS_MAX: i64 = 10;
    const TRIAL_SECONDS_MAX: f64 = 100_000.0;
    let number = |at: usize| std::str::from_utf8(arguments.get(at)?).ok()?.parse::<f64>().ok();
    let times_out =
        |at: usize, unit: f64| number(at).is_some_and(|time| 0.0 < time && time * unit < TRIAL_SECONDS_MAX);
    let is_bounded = number(2).is_some_and(|time| (1.0..=WAIT_MILLISECONDS_MAX as f64).contains(&time));
    match arguments[0].to_ascii_uppercase().as_slice() {
        b"WAIT" => number(1).is_some_and(|replicas| replicas > 0.0) && !is_bounded,
        b"BLMPOP" | b"BZMPOP" => times_out(1, 1.0),
        b"BLPOP" | b"BRPOP" | b"BLMOVE" | b"BRPOPLPUSH" | b"BZPOPMIN" | b"BZPOPMAX" => {
            times_out(arguments.len() - 1, 1.0)
        }
        b"XREAD" | b"XREADGROUP" => {
            let blocks = |at: &usize| arguments[*at].eq_ignore_ascii_case(b"BLOCK");
            (0..arguments.len()).filter(blocks).any(|at| times_out(at + 1, 0.001))
        }
        _ => false,
    }
}

/// Sometimes corrupts a request: removes, adds or replaces a word.
fn mutate(random: &mut Random, arguments: &mut Vec<Vec<u8>>) {
    let at = random.below(arguments.len());
    match random.below(100) {
        0..=2 if arguments.len() > 1 => drop(arguments.remove(at.max(1))),
        3..=5 => arguments.push(words::odd(random)),
        6..=8 if at > 0 => arguments[at] = words::odd(random),
        9 if at > 0 => arguments.insert(at, words::odd(random)),
        _ => {}
    }
}

/// Whether a word can be sent unquoted in an inline request.
fn is_plain(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:{}".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_sequence_each_time() {
        let recipe = Recipe::new(None, 200).unwrap();
        let lines = |seed| recipe.make(seed).steps.iter().map(Step::bytes).collect::<Vec<_>>();
        assert_eq!(lines(3), lines(3));
        assert_ne!(lines(3), lines(4));
        assert!(Recipe::new(Some("nonsense"), 1).is_none());
    }

    #[test]
    fn short_expiries_are_detected() {
        let of =
            |line: &str| expiry(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        assert!(of("SET k v PX 1") == Expiry::Soon);
        assert!(of("PEXPIRE k 1 NX") == Expiry::Soon);
        assert!(of("set k v px 10") == Expiry::Unclear);
        assert!(of("SETEX k 10 v") == Expiry::Unclear);
        assert!(of("EXPIRE k -1") == Expiry::Settled);
        assert!(of("SET k v EX 100000") == Expiry::Settled);
        assert!(of("SET EX 5") == Expiry::Unclear);
    }

    #[test]
    fn random_draws_are_detected() {
        let of = |line: &str| {
            leaves_to_chance(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
        };
        assert!(of("SPOP k") && of("spop k 1") && of("SPOP k 999"));
        assert!(!of("SPOP k 0") && !of("SPOP k -1") && !of("SPOP k x") && !of("SPOP k 1000000"));
        assert!(!of("SCARD k") && !of("SPOP") && !of("SPOP k 1 2"));
    }

    #[test]
    fn offsets_that_need_much_memory_are_detected() {
        let of = |line: &str| {
            takes_much_memory(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
        };
        assert!(of("setbit k 4294967295 1"));
        assert!(!of("SETBIT k 4294967296 1"));
        assert!(of("SETRANGE k 536870911 x"));
        assert!(of("BITFIELD k GET u8 0 SET i64 2147483647 1"));
        assert!(!of("BITFIELD k SET i64 7 2147483647"));
    }
}
