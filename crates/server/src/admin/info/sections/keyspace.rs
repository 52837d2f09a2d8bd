//! `keyspace` and `keysizes`: the keys of each database, and the sizes of their values.

use collections::Kind;
use os::clock;

use super::super::figure::Unit::{Milliseconds, None as NoUnit};
use super::super::figure::{Field, Figure, Value, figures};
use super::super::gathered::Gathered;

const DATABASE: &[Field] = &[
    Field::gauge("keys", NoUnit, "The keys."),
    Field::gauge("expires", NoUnit, "The keys that expire."),
    Field::gauge("avg_ttl", Milliseconds, "The mean time until a key expires."),
    Field::gauge("keys_with_volatile_items", NoUnit, "The hashes with fields that expire."),
];

pub static KEYSPACE: &[Figure] = figures! { |all|
    /// A database with keys.
    record(DATABASE) "db{database}", each Database as label = database(all, label.index);
};

pub static KEY_SIZES: &[Figure] = figures! { |all|
    /// The strings by length.
    histogram "db{database}_distrib_strings_sizes": Bytes, each Database as label = sizes(all, label.index, Kind::String);
    /// The lists by number of elements.
    histogram "db{database}_distrib_lists_items", each Database as label = sizes(all, label.index, Kind::List);
    /// The sets by number of members.
    histogram "db{database}_distrib_sets_items", each Database as label = sizes(all, label.index, Kind::Set);
    /// The sorted sets by number of members.
    histogram "db{database}_distrib_zsets_items", each Database as label = sizes(all, label.index, Kind::SortedSet);
    /// The hashes by number of fields.
    histogram "db{database}_distrib_hashes_items", each Database as label = sizes(all, label.index, Kind::Hash);
};

fn database(all: &Gathered<'_>, db: usize) -> Option<Value<'static>> {
    let population = all.counters().population(db);
    if population.keys == 0 {
        return None;
    }
    let mean_ttl = match population.volatile {
        0 => 0,
        count => (population.expiry_sum / count).saturating_sub(clock::unix_millis() as u64),
    };
    Some(Value::record([
        ("keys", population.keys.into()),
        ("expires", population.volatile.into()),
        ("avg_ttl", mean_ttl.into()),
        ("keys_with_volatile_items", population.volatile_members.into()),
    ]))
}

/// For each bin its smallest size, and the number of its values.
fn sizes(all: &Gathered<'_>, db: usize, kind: Kind) -> Option<Value<'static>> {
    let bins = all.sizes(db).bins(kind);
    let pairs: Vec<_> = bins.map(|(size, count)| (shown_size(size).into(), count.into())).collect();
    (!pairs.is_empty()).then_some(Value::Pairs(pairs))
}

/// A power of two in the form of Redis: `1K` for 1024.
fn shown_size(size: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let unit = size.checked_ilog2().map_or(0, |power| power as usize / 10).min(UNITS.len() - 1);
    format!("{}{}", size >> (10 * unit), UNITS[unit])
}
