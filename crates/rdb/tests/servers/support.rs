//! Decoding in a heap, and the textual form of values that the fixtures have, too.

use collections::stream::{Group, NodeLimits, Stream, StreamId};
use collections::{
    AllocContext, CollectionLimits, DecimalBuffer, Hash, Heap, Item, KeyHasher, ListLimits, Object,
    SetLimits, SortedSetLimits, ValueRef,
};
use rdb::{DecodeContext, Encoder, Error, Limits, Payload, PayloadChecks, Value, ValueType, Version, decode};

/// The limits that servers have by default.
fn limits() -> Limits {
    Limits {
        list: ListLimits::of_directive(-2),
        set: SetLimits { intset_len_max: 512, listpack_len_max: 128, listpack_value_size_max: 64 },
        hash: CollectionLimits { entry_count_max: 512, value_size_max: 64 },
        sorted_set: SortedSetLimits { entry_count_max: 128, value_size_max: 64 },
        stream: NodeLimits { entry_count_max: 100, size_max: 4096 },
    }
}

/// A heap, and the other resources for decoding.
pub struct Fixture {
    heap: Heap,
    hasher: KeyHasher,
}

impl Fixture {
    pub fn new() -> Self {
        Self { heap: Heap::new(), hasher: KeyHasher::new([7; 4]) }
    }

    pub fn alloc_context(&self) -> AllocContext<'_> {
        AllocContext { heap: &self.heap, hasher: &self.hasher }
    }

    pub fn decode<'a>(&self, value_type: ValueType, bytes: &'a [u8]) -> Result<Value<'a>, Error> {
        let context =
            DecodeContext { alloc: self.alloc_context(), limits: limits(), drop_fields_before: None };
        decode(value_type, bytes, 0, context)
    }

    /// Decodes the payload of a dump, whose checksum is right.
    pub fn open<'a>(&self, payload: &'a [u8]) -> Result<Value<'a>, Error> {
        let payload = Payload::open(payload, PayloadChecks::ALL).expect("the payload is sealed");
        let value_type = ValueType::of_byte(payload.type_byte, payload.version.family).expect("a known type");
        self.decode(value_type, payload.value)
    }

    /// The payload of a dump of a value.
    pub fn dump(&self, value: &Value<'_>, version: Version, is_packing: bool) -> Option<Vec<u8>> {
        let mut encoder = Encoder::new(version, is_packing);
        let value = value_ref(value);
        let mut out = vec![encoder.type_byte(value).ok()?];
        encoder.write_value(self.alloc_context(), value, &mut out).ok()?;
        Payload::seal(version, &mut out);
        Some(out)
    }
}

pub fn value_ref<'a>(value: &'a Value<'_>) -> ValueRef<'a> {
    match value {
        Value::Bytes(bytes) => ValueRef::Bytes(bytes),
        Value::Int(value) => ValueRef::Int(*value),
        Value::Object(object) => ValueRef::Object(object),
        Value::Empty => panic!("an empty value has no form"),
    }
}

/// The value as `fixtures/generate` describes it.
pub fn describe(fixture: &Fixture, value: &Value<'_>) -> String {
    let words: Vec<String> = match value {
        Value::Bytes(bytes) => vec!["string".to_owned(), text(bytes)],
        Value::Int(value) => vec!["string".to_owned(), text(value.to_string().as_bytes())],
        Value::Empty => vec!["empty".to_owned()],
        Value::Object(Object::List(list)) => {
            let mut words = vec!["list".to_owned()];
            list.walk(0, |_, item| {
                words.push(text(&bytes(item)));
                true
            });
            words
        }
        Value::Object(Object::Set(set)) => {
            let mut members: Vec<Vec<u8>> = set.iter().map(bytes).collect();
            members.sort();
            std::iter::once("set".to_owned()).chain(members.iter().map(|member| text(member))).collect()
        }
        Value::Object(Object::SortedSet(set)) => {
            let pairs = set.iter().map(|(member, score)| format!("{}={score:?}", text(member)));
            std::iter::once("zset".to_owned()).chain(pairs).collect()
        }
        Value::Object(Object::Hash(hash)) => hash_words(fixture, hash),
        Value::Object(Object::Stream(stream)) => stream_words(stream),
        Value::Object(_) => panic!("an unknown type"),
    };
    words.join(" ")
}

fn hash_words(fixture: &Fixture, hash: &Hash) -> Vec<String> {
    let mut fields = Vec::new();
    let mut from = Some(0);
    while let Some(position) = from {
        from = hash.scan_with_expiries(fixture.alloc_context(), position, |field, value, expiry| {
            fields.push((bytes(field), bytes(value), expiry));
        });
    }
    fields.sort();
    let words = fields.iter().map(|(field, value, expiry)| {
        let expiry = expiry.map_or(String::new(), |at| format!("@{at}"));
        format!("{}={}{expiry}", text(field), text(value))
    });
    std::iter::once("hash".to_owned()).chain(words).collect()
}

fn stream_words(stream: &Stream) -> Vec<String> {
    let mut words = vec![
        "stream".to_owned(),
        format!("last={}", stream.last_id),
        format!("deleted={}", stream.max_deleted_id),
        format!("added={}", stream.entries_added),
    ];
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        let texts: Vec<String> = entry.pairs().flat_map(|(name, value)| [text(name), text(value)]).collect();
        words.push(format!("{}:{}", entry.id, texts.join(",")));
    }
    for (name, group) in stream.groups() {
        let read = group.entries_read.map_or("?".to_owned(), |read| read.to_string());
        words.push(format!("group={},{},{read}", text(name), group.last_id));
        words.extend(consumer_words(group));
    }
    words
}

fn consumer_words(group: &Group) -> Vec<String> {
    let describe = |(index, consumer): (_, &collections::stream::Consumer)| {
        let pending = group.pending_of(index, StreamId::MIN);
        let pending: Vec<String> =
            pending.map(|(id, delivery)| format!("{id}*{}@{}", delivery.count, delivery.at)).collect();
        let active = consumer.active_at.unwrap_or(-1);
        format!("consumer={},{},{active},{}", text(&consumer.name), consumer.seen_at, pending.join("+"))
    };
    group.consumers().map(describe).collect()
}

pub fn bytes(item: Item<'_>) -> Vec<u8> {
    item.text(&mut DecimalBuffer::new()).to_vec()
}

fn text(bytes: &[u8]) -> String {
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    match bytes.len() {
        0 => "-".to_owned(),
        1..=64 => hex(bytes),
        len => format!("#{len}:{:08x}", CRC.checksum(bytes)),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that a text in hexadecimal means.
pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
