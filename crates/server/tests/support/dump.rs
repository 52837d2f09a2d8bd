//! Reads a dump, to compare it with the data of its cut.

use std::collections::BTreeMap;
use std::path::Path;

use collections::stream::{NodeLimits, StreamEntry, StreamId};
use collections::{
    AllocContext, CollectionLimits, DecimalBuffer, Heap, Item, KeyHasher, ListLimits, Object, SetLimits,
    SortedSetLimits,
};
use rdb::{Cutter, DecodeContext, Event, Limits, Value};

/// A file's strings and collections by database and key; a sorted set as its members and their scores, a set as its
/// members.
#[derive(Debug, Default, PartialEq)]
pub struct Dump {
    pub version: u16,
    pub strings: BTreeMap<(u64, String), String>,
    pub hashes: BTreeMap<(u64, String), BTreeMap<String, String>>,
    /// Lists, and streams as their ids and the texts of their entries.
    pub lists: BTreeMap<(u64, String), Vec<String>>,
    /// For each stream the number of entries that were ever added.
    pub entries_added: BTreeMap<String, u64>,
    pub volatile_count: usize,
    pub properties: BTreeMap<String, String>,
}

pub fn read_dump(path: &Path) -> Dump {
    let bytes = std::fs::read(path).expect("a dump");
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let collection = CollectionLimits { entry_count_max: 128, value_size_max: 64 };
    let limits = Limits {
        list: ListLimits::of_directive(-2),
        set: SetLimits { intset_len_max: 512, listpack_len_max: 128, listpack_value_size_max: 64 },
        hash: collection,
        sorted_set: SortedSetLimits { entry_count_max: 128, value_size_max: 64 },
        stream: NodeLimits { entry_count_max: 100, size_max: 4096 },
    };
    let context = DecodeContext { alloc, limits, drop_fields_before: None };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut cutter, mut rest, mut dump) = (Cutter::new(true), &bytes[..], Dump::default());
    loop {
        let cut = cutter.next(rest).expect("a valid file").expect("a complete file");
        match cut.event {
            Event::Header(version) => dump.version = version.number,
            Event::Aux { name, value } => drop(dump.properties.insert(text(&name), text(&value))),
            Event::End { is_checked } => {
                assert!(is_checked);
                return dump;
            }
            Event::Key(record) => {
                let place = (record.db, text(&record.key));
                dump.volatile_count += usize::from(record.expiry.is_some());
                let value = rdb::decode(record.value_type, record.value, record.offset, context);
                let is_new = match value.expect("a valid value") {
                    Value::Bytes(bytes) => dump.strings.insert(place, text(&bytes)).is_none(),
                    Value::Int(number) => dump.strings.insert(place, number.to_string()).is_none(),
                    Value::Object(Object::Hash(hash)) => {
                        let mut fields = BTreeMap::new();
                        hash.visit(i64::MIN, |field, value| {
                            let [field, value] =
                                [field, value].map(|item| text(item.text(&mut DecimalBuffer::new())));
                            fields.insert(field, value);
                            true
                        });
                        dump.hashes.insert(place, fields).is_none()
                    }
                    Value::Object(Object::SortedSet(set)) => {
                        let members = set.iter().map(|(member, score)| (text(member), score.to_string()));
                        dump.hashes.insert(place, members.collect()).is_none()
                    }
                    Value::Object(Object::Set(set)) => {
                        let shown = |item: Item<'_>| text(item.text(&mut DecimalBuffer::new()));
                        let members = set.iter().map(|item| (shown(item), String::new()));
                        dump.hashes.insert(place, members.collect()).is_none()
                    }
                    Value::Object(Object::List(list)) => {
                        let mut items = Vec::new();
                        list.walk(0, |_, item| {
                            items.push(text(item.text(&mut DecimalBuffer::new())));
                            true
                        });
                        dump.lists.insert(place, items).is_none()
                    }
                    Value::Object(Object::Stream(stream)) => {
                        dump.entries_added.insert(place.1.clone(), stream.entries_added);
                        let entries = stream.range(StreamId::MIN, StreamId::MAX);
                        let shown = |entry: StreamEntry<'_>| {
                            let pairs =
                                entry.pairs().map(|(name, value)| text(&[name, b"=", value].concat()));
                            format!("{:020}-{:020} {}", entry.id.ms, entry.id.seq, pairs.collect::<String>())
                        };
                        dump.lists.insert(place, entries.map(shown).collect()).is_none()
                    }
                    other => panic!("not made here: {other:?}"),
                };
                assert!(is_new, "a key occurs twice");
            }
            _ => {}
        }
        rest = &rest[cut.size..];
    }
}
