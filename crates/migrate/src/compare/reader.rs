//! Reads a value in portions with the commands of its type, and computes a digest that does not depend on the server's
//! version or encoding. `DUMP` payloads differ between versions.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use wire::response::Reply;

use crate::servers::integer;

/// Elements, or bytes of a string, in one request.
const PORTION_LEN: usize = 1000;
const PORTION_SIZE: usize = 1024 * 1024;

/// Elements of a value, or bytes of a string, that are read at most. Of longer ones, the digest covers the length and
/// the beginning; of longer sets and hashes, which have no beginning, the length.
const LEN_MAX: usize = 100_000;
const SIZE_MAX: usize = 16 * 1024 * 1024;

/// A request as words.
type Request = Vec<Vec<u8>>;

/// A value that is being read.
///
/// Invariant: after [`Self::request`] returned a request, [`Self::accept`] gets its reply before the next call.
pub struct ValueReader {
    key: Vec<u8>,
    step: Step,
    /// Covers what has an order.
    ordered: DefaultHasher,
    /// Hashes of what has none: a scan may return an element twice.
    unordered: HashSet<u64>,
    has_field_expiries: bool,
}

/// The next request.
enum Step {
    Length(Kind),
    Portion(Kind, usize),
    Scan(Kind, Vec<u8>),
    /// The expiries of these fields with values, and the cursor of the next portion.
    FieldExpiries(Vec<(Vec<u8>, Vec<u8>)>, Vec<u8>),
    /// The length and the last ID of a stream.
    StreamInfo,
    Entries {
        first: Vec<u8>,
        count: usize,
    },
    Groups,
    /// The pending entries of each group.
    Pending(Vec<Vec<u8>>),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
}

fn words<const N: usize>(words: [&[u8]; N]) -> Request {
    words.map(<[u8]>::to_vec).into()
}

impl ValueReader {
    /// Begins to read the value of a key; `None` for a type of a module. Expiries of fields are covered if both servers
    /// have them.
    pub fn new(key: &[u8], type_name: &[u8], has_field_expiries: bool) -> Option<Self> {
        let step = match type_name {
            b"string" => Step::Length(Kind::String),
            b"list" => Step::Length(Kind::List),
            b"set" => Step::Length(Kind::Set),
            b"zset" => Step::Length(Kind::SortedSet),
            b"hash" => Step::Length(Kind::Hash),
            b"stream" => Step::StreamInfo,
            _ => return None,
        };
        let (ordered, unordered) = (DefaultHasher::new(), HashSet::new());
        Some(Self { key: key.to_vec(), step, ordered, unordered, has_field_expiries })
    }

    /// Returns the digest.
    pub fn digest(&self) -> u64 {
        let sum = self.unordered.iter().fold(0u64, |sum, hash| sum.wrapping_add(*hash));
        let mut digest = self.ordered.clone();
        (self.unordered.len(), sum).hash(&mut digest);
        digest.finish()
    }

    /// Returns the next request; `None` at the end.
    pub fn request(&self) -> Option<Request> {
        let key = self.key.as_slice();
        Some(match &self.step {
            Step::Length(kind) => words([kind.length_command(), key]),
            Step::Portion(kind, from) => {
                let step = if *kind == Kind::String { PORTION_SIZE } else { PORTION_LEN };
                let (first, last) = (from.to_string(), (from + step - 1).to_string());
                let range = words([kind.range_command(), key, first.as_bytes(), last.as_bytes()]);
                let scores = (*kind == Kind::SortedSet).then(|| b"WITHSCORES".to_vec());
                range.into_iter().chain(scores).collect()
            }
            Step::Scan(kind, cursor) => words([kind.range_command(), key, cursor, b"COUNT", b"1000"]),
            Step::FieldExpiries(fields, _) => {
                let head = words([b"HPEXPIRETIME", key, b"FIELDS", fields.len().to_string().as_bytes()]);
                head.into_iter().chain(fields.iter().map(|(field, _)| field.clone())).collect()
            }
            Step::StreamInfo => words([b"XINFO", b"STREAM", key]),
            Step::Entries { first, .. } => words([b"XRANGE", key, first, b"+", b"COUNT", b"1000"]),
            Step::Groups => words([b"XINFO", b"GROUPS", key]),
            Step::Pending(groups) => words([b"XPENDING", key, groups.last()?, b"-", b"+", b"1000"]),
            Step::Done => return None,
        })
    }

    /// Takes the reply to the request. A reply of another form ends the value: it was deleted meanwhile.
    pub fn accept(&mut self, reply: &Reply) {
        let step = std::mem::replace(&mut self.step, Step::Done);
        self.step = self.next(step, reply).unwrap_or(Step::Done);
    }

    fn next(&mut self, step: Step, reply: &Reply) -> Option<Step> {
        match step {
            Step::Length(kind) => self.take_length(kind, reply),
            Step::Portion(Kind::String, from) => {
                let text = reply.text()?;
                // The first portion of a HyperLogLog has its count as it was computed last. PFCOUNT writes it.
                let is_counted = from == 0 && text.starts_with(b"HYLL") && text.len() >= 16;
                let count = if is_counted { 8..16 } else { 0..0 };
                (&text[..count.start], &text[count.end..]).hash(&mut self.ordered);
                let next = from + text.len();
                (text.len() == PORTION_SIZE && next < SIZE_MAX).then_some(Step::Portion(Kind::String, next))
            }
            Step::Portion(kind, from) => {
                let elements = reply.elements()?;
                for (at, element) in elements.iter().enumerate() {
                    // Servers write scores with different numbers of digits.
                    let score = (kind == Kind::SortedSet && at % 2 == 1).then(|| score_bits(element));
                    match score {
                        Some(bits) => bits.hash(&mut self.ordered),
                        None => element.text()?.hash(&mut self.ordered),
                    }
                }
                let count = if kind == Kind::SortedSet { elements.len() / 2 } else { elements.len() };
                let next = from + count;
                (count == PORTION_LEN && next < LEN_MAX).then_some(Step::Portion(kind, next))
            }
            Step::Scan(kind, _) => self.take_scanned(kind, reply),
            Step::FieldExpiries(fields, cursor) => {
                let expiries = reply.elements()?;
                for ((field, value), expiry) in fields.iter().zip(expiries) {
                    // -2: the field has expired meanwhile.
                    if integer(expiry)? != -2 {
                        self.add_unordered(&(field, value, integer(expiry)?));
                    }
                }
                after_scan(Kind::Hash, cursor)
            }
            Step::StreamInfo => {
                let fields = reply.elements()?;
                integer(field(fields, b"length")?)?.hash(&mut self.ordered);
                field(fields, b"last-generated-id")?.text()?.hash(&mut self.ordered);
                Some(Step::Entries { first: b"-".to_vec(), count: 0 })
            }
            Step::Entries { count, .. } => self.take_entries(count, reply),
            Step::Groups => {
                let groups = reply.elements()?;
                let mut names = Vec::new();
                for group in groups {
                    let fields = group.elements()?;
                    let name = field(fields, b"name")?.text()?.to_vec();
                    let last_id = field(fields, b"last-delivered-id")?.text()?.to_vec();
                    self.add_unordered(&(&name, last_id, integer(field(fields, b"pending")?)));
                    names.push(name);
                }
                Some(Step::Pending(names))
            }
            Step::Pending(mut groups) => {
                let name = groups.pop()?;
                for entry in reply.elements()? {
                    // The idle time, the third part, advances.
                    if let [id, consumer, _, deliveries] = entry.elements()? {
                        self.add_unordered(&(&name, id.text(), consumer.text(), integer(deliveries)));
                    }
                }
                Some(Step::Pending(groups))
            }
            Step::Done => None,
        }
    }

    fn take_length(&mut self, kind: Kind, reply: &Reply) -> Option<Step> {
        let length = integer(reply)?;
        let is_whole = usize::try_from(length).is_ok_and(|length| length <= LEN_MAX);
        // HLEN may count fields that have expired.
        if kind != Kind::Hash || !is_whole {
            length.hash(&mut self.ordered);
        }
        match kind {
            Kind::Set | Kind::Hash => is_whole.then(|| Step::Scan(kind, b"0".to_vec())),
            _ => Some(Step::Portion(kind, 0)),
        }
    }

    fn take_scanned(&mut self, kind: Kind, reply: &Reply) -> Option<Step> {
        let [cursor, elements] = reply.elements()? else { return None };
        let (cursor, elements) = (cursor.text()?.to_vec(), elements.elements()?);
        if kind == Kind::Set {
            for element in elements {
                self.add_unordered(&element.text()?);
            }
            return after_scan(kind, cursor);
        }
        let mut fields = Vec::with_capacity(elements.len() / 2);
        for pair in elements.chunks_exact(2) {
            fields.push((pair[0].text()?.to_vec(), pair[1].text()?.to_vec()));
        }
        if self.has_field_expiries && !fields.is_empty() {
            return Some(Step::FieldExpiries(fields, cursor));
        }
        for field in &fields {
            self.add_unordered(field);
        }
        after_scan(kind, cursor)
    }

    fn take_entries(&mut self, count: usize, reply: &Reply) -> Option<Step> {
        let entries = reply.elements()?;
        let mut last = None;
        for entry in entries {
            let [id, fields] = entry.elements()? else { return None };
            id.text()?.hash(&mut self.ordered);
            for part in fields.elements()? {
                part.text()?.hash(&mut self.ordered);
            }
            last = id.text();
        }
        let count = count + entries.len();
        let is_more = entries.len() == PORTION_LEN && count < LEN_MAX;
        Some(match last.filter(|_| is_more).and_then(id_after) {
            Some(first) => Step::Entries { first, count },
            None => Step::Groups,
        })
    }

    fn add_unordered(&mut self, element: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        element.hash(&mut hasher);
        self.unordered.insert(hasher.finish());
    }
}

impl Kind {
    const fn length_command(self) -> &'static [u8] {
        match self {
            Self::String => b"STRLEN",
            Self::List => b"LLEN",
            Self::Set => b"SCARD",
            Self::SortedSet => b"ZCARD",
            Self::Hash => b"HLEN",
        }
    }

    const fn range_command(self) -> &'static [u8] {
        match self {
            Self::String => b"GETRANGE",
            Self::List => b"LRANGE",
            Self::Set => b"SSCAN",
            Self::SortedSet => b"ZRANGE",
            Self::Hash => b"HSCAN",
        }
    }
}

/// Returns the value of a field in a reply of names and values.
fn field<'a>(fields: &'a [Reply], name: &[u8]) -> Option<&'a Reply> {
    let mut pairs = fields.chunks_exact(2);
    pairs.find(|pair| pair[0].text() == Some(name)).map(|pair| &pair[1])
}

fn after_scan(kind: Kind, cursor: Vec<u8>) -> Option<Step> {
    (cursor != b"0").then_some(Step::Scan(kind, cursor))
}

fn score_bits(score: &Reply) -> Option<u64> {
    let text = std::str::from_utf8(score.text()?).ok()?;
    let number: f64 = text.parse().ok()?;
    // Both zeros are equal.
    Some((number + 0.0).to_bits())
}

/// Returns the smallest ID above one.
fn id_after(id: &[u8]) -> Option<Vec<u8>> {
    let (time, sequence) = std::str::from_utf8(id).ok()?.split_once('-')?;
    let (time, sequence): (u64, u64) = (time.parse().ok()?, sequence.parse().ok()?);
    let (time, sequence) = match sequence.checked_add(1) {
        Some(sequence) => (time, sequence),
        None => (time.checked_add(1)?, 0),
    };
    Some(format!("{time}-{sequence}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a value with these replies, and returns its digest and the requests.
    fn read(type_name: &str, replies: &[&str]) -> (u64, Vec<String>) {
        let mut reader = ValueReader::new(b"k", type_name.as_bytes(), true).expect("a known type");
        let mut requests = Vec::new();
        let mut replies = replies.iter();
        while let Some(request) = reader.request() {
            requests
                .push(request.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "));
            let bytes = replies.next().expect("a reply for each request").as_bytes();
            reader.accept(&Reply::parse(bytes).expect("valid").expect("complete").0);
        }
        assert_eq!(replies.next(), None);
        (reader.digest(), requests)
    }

    #[test]
    fn the_order_of_a_scan_and_repeated_elements_do_not_matter() {
        let (digest, requests) = read(
            "set",
            &[
                ":2\r\n",
                "*2\r\n$1\r\n7\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
                "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n",
            ],
        );
        assert_eq!(requests, ["SCARD k", "SSCAN k 0 COUNT 1000", "SSCAN k 7 COUNT 1000"]);
        let turned = read("set", &[":2\r\n", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n"]).0;
        assert_eq!(digest, turned);
        let other = read("set", &[":2\r\n", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n"]).0;
        assert_ne!(digest, other);
    }

    #[test]
    fn scores_are_compared_as_numbers() {
        let digest = |score: &str| {
            let range = format!("*2\r\n$1\r\nm\r\n${}\r\n{score}\r\n", score.len());
            read("zset", &[":1\r\n", &range]).0
        };
        assert_eq!(digest("1.1"), digest("1.1000000000000001"));
        assert_eq!(digest("-0"), digest("0"));
        assert_ne!(digest("1.1"), digest("1.2"));
        assert_eq!(digest("inf"), digest("inf"));
    }

    #[test]
    fn the_computed_count_of_a_hyperloglog_does_not_matter() {
        let digest = |text: &str| read("string", &[":18\r\n", &format!("$18\r\n{text}\r\n")]).0;
        assert_eq!(digest("HYLL111122222222ab"), digest("HYLL111133333333ab"));
        assert_ne!(digest("HYLL111122222222ab"), digest("HYLL111122222222ac"));
        assert_ne!(digest("other11122222222ab"), digest("other11133333333ab"));
    }

    #[test]
    fn field_expiries_count_and_expired_fields_do_not() {
        let scan = "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n";
        let digest = |expiries: &str| read("hash", &[":2\r\n", scan, expiries]).0;
        assert_ne!(digest("*2\r\n:-1\r\n:-1\r\n"), digest("*2\r\n:-1\r\n:1000\r\n"));
        let gone =
            read("hash", &[":1\r\n", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n", "*1\r\n:-1\r\n"]).0;
        assert_eq!(digest("*2\r\n:-1\r\n:-2\r\n"), gone);
    }

    #[test]
    fn a_stream_includes_its_length_last_id_and_groups() {
        let entries = "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
        let groups = |last: &str| {
            format!(
                "*1\r\n*8\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:1\r\n\
                 $17\r\nlast-delivered-id\r\n$3\r\n{last}\r\n"
            )
        };
        let pending = |idle: u32| format!("*1\r\n*4\r\n$3\r\n1-1\r\n$1\r\nc\r\n:{idle}\r\n:1\r\n");
        let info = |length: u32, last_id: &str| {
            format!("*4\r\n$6\r\nlength\r\n:{length}\r\n$17\r\nlast-generated-id\r\n$3\r\n{last_id}\r\n")
        };
        let of_info = |info: &str, last: &str, idle: u32| {
            read("stream", &[info, entries, &groups(last), &pending(idle)])
        };
        let digest = |last: &str, idle: u32| of_info(&info(1, "1-1"), last, idle);
        assert_eq!(
            digest("1-1", 5).1,
            ["XINFO STREAM k", "XRANGE k - + COUNT 1000", "XINFO GROUPS k", "XPENDING k g - + 1000"]
        );
        assert_ne!(digest("1-1", 5).0, of_info(&info(2, "1-1"), "1-1", 5).0);
        assert_ne!(digest("1-1", 5).0, of_info(&info(1, "2-1"), "1-1", 5).0);
        assert_eq!(digest("1-1", 5).0, digest("1-1", 9).0);
        assert_ne!(digest("1-1", 5).0, digest("2-1", 5).0);
        assert_eq!(id_after(b"5-18446744073709551615").as_deref(), Some(&b"6-0"[..]));
    }
}
