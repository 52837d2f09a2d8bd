//! `broadloom check-rdb --stats`: what an RDB file holds, by database and type. The fields and forms are those of
//! `valkey-check-rdb`.

use std::io::{self, Write};

use collections::{AllocContext, Object};
use rdb::Value;

/// The types, in the order of the columns.
const TYPES: [&str; 7] = ["string", "list", "set", "zset", "hash", "module", "stream"];

/// Values below this have a bucket each; above it, there are this many for each power of two.
const EXACT_MAX: u64 = 64;

/// The form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Table,
    Info,
    Csv,
}

impl Format {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "table" => Self::Table,
            "info" => Self::Info,
            "csv" => Self::Csv,
            _ => return None,
        })
    }
}

/// A field: its name, and its value.
type Field = (&'static str, fn(&OfType) -> String);

const FIELDS: [Field; 17] = [
    ("keys.total", |of| of.key_count.to_string()),
    ("expire_keys.total", |of| of.volatile_count.to_string()),
    ("already_expired.total", |of| of.expired_count.to_string()),
    ("keys.size", |of| of.key_size.to_string()),
    ("keys.value_size", |of| of.elements.sizes.sum.to_string()),
    ("elements.total", |of| of.elements.counts.sum.to_string()),
    ("elements.size", |of| of.elements.sizes.sum.to_string()),
    ("elements.num.max", |of| of.elements.counts.max.to_string()),
    ("elements.num.avg", |of| of.elements.counts.average()),
    ("elements.num.p99", |of| of.elements.counts.percentile(99)),
    ("elements.num.p90", |of| of.elements.counts.percentile(90)),
    ("elements.num.p50", |of| of.elements.counts.percentile(50)),
    ("elements.size.max", |of| of.elements.sizes.max.to_string()),
    ("elements.size.avg", |of| of.elements.sizes.average()),
    ("elements.size.p99", |of| of.elements.sizes.percentile(99)),
    ("elements.size.p90", |of| of.elements.sizes.percentile(90)),
    ("elements.size.p50", |of| of.elements.sizes.percentile(50)),
];

/// The statistics of a file.
#[derive(Default)]
pub(super) struct Statistics {
    databases: Vec<[OfType; TYPES.len()]>,
}

/// The values of one type in one database.
#[derive(Default)]
struct OfType {
    key_count: u64,
    volatile_count: u64,
    expired_count: u64,
    key_size: u64,
    elements: Elements,
}

/// The elements of these values: how many a value has, and their sizes.
#[derive(Default)]
struct Elements {
    counts: Distribution,
    sizes: Distribution,
}

/// Numbers, counted in buckets of about a sixty-fourth of their size.
#[derive(Default)]
struct Distribution {
    count: u64,
    sum: u64,
    max: u64,
    buckets: Vec<u64>,
}

/// A key that was read.
pub(super) struct ReadKey<'a> {
    pub(super) db: u64,
    pub(super) key: &'a [u8],
    /// Whether it expires, and whether it has expired.
    pub(super) expiry: Option<bool>,
    /// `None`: a module's.
    pub(super) value: Option<&'a Value<'a>>,
}

impl Statistics {
    pub(super) fn note(&mut self, read: &ReadKey<'_>, alloc: AllocContext<'_>) {
        // A file may name any number: beyond those that servers have, keys are counted for the last one.
        const DB_COUNT_MAX: usize = 1 << 16;
        let db = usize::try_from(read.db).unwrap_or(usize::MAX).min(DB_COUNT_MAX - 1);
        while self.databases.len() <= db {
            self.databases.push(Default::default());
        }
        let place = match read.value {
            Some(Value::Bytes(_) | Value::Int(_)) => 0,
            Some(Value::Object(object)) => match object {
                Object::List(_) => 1,
                Object::Set(_) => 2,
                Object::SortedSet(_) => 3,
                Object::Hash(_) => 4,
                _ => 6,
            },
            Some(Value::Empty) => return,
            None => 5,
        };
        let of = &mut self.databases[db][place];
        of.key_count += 1;
        of.volatile_count += u64::from(read.expiry.is_some());
        of.expired_count += u64::from(read.expiry == Some(true));
        of.key_size += read.key.len() as u64;
        of.elements.note(read.value, alloc);
    }

    pub(super) fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        let none = [const { OfType::new() }; TYPES.len()];
        let databases = if self.databases.is_empty() { std::slice::from_ref(&none) } else { &self.databases };
        for (db, types) in databases.iter().enumerate() {
            match format {
                Format::Table => {
                    write!(out, "{:<30}", format!("db.{db}.type.name"))?;
                    TYPES.iter().try_for_each(|name| write!(out, "\t{name:<5}"))?;
                    writeln!(out)?;
                }
                Format::Csv => writeln!(out, "db.{db}.type.name,{}", TYPES.join(","))?,
                Format::Info => {}
            }
            for (name, value) in FIELDS {
                match format {
                    Format::Info => {
                        for (of, kind) in types.iter().zip(TYPES) {
                            writeln!(out, "[info] db.{db}.type.{kind}.{name}:{}", value(of))?;
                        }
                    }
                    Format::Table => {
                        write!(out, "{:<30}", format!("db.{db}.{name}"))?;
                        types.iter().try_for_each(|of| write!(out, "\t{:<5}", value(of)))?;
                        writeln!(out)?;
                    }
                    Format::Csv => {
                        let values: Vec<String> = types.iter().map(value).collect();
                        writeln!(out, "db.{db}.{name},{}", values.join(","))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl OfType {
    const fn new() -> Self {
        Self {
            key_count: 0,
            volatile_count: 0,
            expired_count: 0,
            key_size: 0,
            elements: Elements { counts: Distribution::new(), sizes: Distribution::new() },
        }
    }
}

impl Elements {
    fn note(&mut self, value: Option<&Value<'_>>, alloc: AllocContext<'_>) {
        let sizes = &mut self.sizes;
        let mut count = 1;
        match value {
            None | Some(Value::Empty) => {}
            Some(Value::Bytes(bytes)) => sizes.add(bytes.len() as u64),
            Some(Value::Int(value)) => sizes.add(value.to_string().len() as u64),
            Some(Value::Object(Object::List(list))) => {
                count = list.len() as u64;
                list.walk(0, |_, item| {
                    sizes.add(item.len() as u64);
                    true
                });
            }
            Some(Value::Object(Object::Set(set))) => {
                count = set.len() as u64;
                set.iter().for_each(|item| sizes.add(item.len() as u64));
            }
            Some(Value::Object(Object::SortedSet(set))) => {
                count = set.len() as u64;
                set.iter().for_each(|(member, _)| sizes.add(member.len() as u64));
            }
            Some(Value::Object(Object::Hash(hash))) => {
                count = hash.len() as u64;
                let mut from = Some(0);
                while let Some(start) = from {
                    from = hash.scan_with_expiries(alloc, start, |field, value, _| {
                        sizes.add((field.len() + value.len()) as u64);
                    });
                }
            }
            Some(Value::Object(Object::Stream(stream))) => {
                count = stream.len();
                for entry in
                    stream.range(collections::stream::StreamId::MIN, collections::stream::StreamId::MAX)
                {
                    entry.pairs().for_each(|(name, value)| sizes.add((name.len() + value.len()) as u64));
                }
            }
            Some(Value::Object(_)) => {}
        }
        self.counts.add(count);
    }
}

impl Distribution {
    const fn new() -> Self {
        Self { count: 0, sum: 0, max: 0, buckets: Vec::new() }
    }

    fn add(&mut self, number: u64) {
        self.count += 1;
        self.sum += number;
        self.max = self.max.max(number);
        let bucket = bucket_of(number);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    fn average(&self) -> String {
        format!("{:.2}", if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 })
    }

    /// The number that this percentage of all does not exceed, as far as the buckets tell.
    fn percentile(&self, percentage: u64) -> String {
        let wanted = (self.count * percentage).div_ceil(100);
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        });
        format!("{:.2}", place.map_or(0, |place| largest_in(place).min(self.max)) as f64)
    }
}

fn bucket_of(number: u64) -> usize {
    if number < EXACT_MAX {
        return number as usize;
    }
    let shift = number.ilog2() - EXACT_MAX.ilog2();
    (u64::from(shift) * EXACT_MAX + (number >> shift)) as usize
}

/// The largest number in a bucket.
fn largest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * EXACT_MAX {
        return bucket;
    }
    let shift = bucket / EXACT_MAX - 1;
    let head = bucket - shift * EXACT_MAX;
    (((u128::from(head) + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_numbers() {
        for number in (0..5000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
            let bucket = bucket_of(number);
            let largest = largest_in(bucket);
            assert!(largest >= number && largest - number <= number / 32, "{number} {bucket} {largest}");
            assert!(bucket == 0 || largest_in(bucket - 1) < number, "{number} {bucket}");
        }
    }

    #[test]
    fn percentiles_of_small_numbers_are_exact() {
        let mut distribution = Distribution::default();
        (1..=50).for_each(|number| distribution.add(number));
        assert_eq!(distribution.percentile(50), "25.00");
        assert_eq!(distribution.percentile(99), "50.00");
        assert_eq!(distribution.average(), "25.50");
        assert_eq!(Distribution::default().percentile(99), "0.00");
    }
}
