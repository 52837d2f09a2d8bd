//! Values and files in the format of RDB: any bytes are a value or an error, and a written value reads back unchanged.
//!
//! The input's first byte is the type of a value, or 255 for a whole file; the second selects the family or the size of
//! the pieces in which the file arrives.

#![no_main]

use collections::stream::NodeLimits;
use collections::{
    AllocContext, CollectionLimits, Heap, KeyHasher, ListLimits, Object, SetLimits, SortedSetLimits, ValueRef,
};
use libfuzzer_sys::fuzz_target;
use rdb::{Cutter, DecodeContext, Encoder, Event, Family, Limits, Value, ValueType, Version, decode};

fuzz_target!(|data: &[u8]| {
    let [kind, choice, rest @ ..] = data else { return };
    let (heap, hasher) = (Heap::new(), KeyHasher::new([1, 2, 3, 4]));
    let alloc = AllocContext { heap: &heap, hasher: &hasher };
    let limits = Limits {
        list: ListLimits::of_directive(-2),
        set: SetLimits { intset_len_max: 16, listpack_len_max: 8, listpack_value_size_max: 64 },
        hash: CollectionLimits { entry_count_max: 8, value_size_max: 64 },
        sorted_set: SortedSetLimits { entry_count_max: 8, value_size_max: 64 },
        stream: NodeLimits { entry_count_max: 8, size_max: 256 },
    };
    let context = DecodeContext { alloc, limits, drop_fields_before: None };
    if *kind == u8::MAX {
        return cut(rest, usize::from(*choice) + 1, context);
    }
    let family = if choice % 2 == 0 { Family::Redis } else { Family::Valkey };
    let Ok(value_type) = ValueType::of_byte(*kind, family) else { return };
    if let Ok(value) = decode(value_type, rest, 0, context) {
        come_back(&value, context);
    }
});

fn cut(file: &[u8], piece_size: usize, context: DecodeContext<'_>) {
    let mut cutter = Cutter::new(false);
    let (mut start, mut end) = (0, 0);
    loop {
        match cutter.next(&file[start..end]) {
            Ok(Some(cut)) => {
                start += cut.size;
                match cut.event {
                    Event::Key(record) => _ = decode(record.value_type, record.value, record.offset, context),
                    Event::End { .. } => return,
                    _ => {}
                }
            }
            Ok(None) if end < file.len() => end = (end + piece_size).min(file.len()),
            Ok(None) | Err(_) => return,
        }
    }
}

fn come_back(value: &Value<'_>, context: DecodeContext<'_>) {
    let value = match value {
        Value::Bytes(bytes) => ValueRef::Bytes(bytes),
        Value::Int(value) => ValueRef::Int(*value),
        Value::Object(object) => ValueRef::Object(object),
        Value::Empty => return,
    };
    check(value, context.alloc);
    for version in [Version::V12, Version::V80] {
        let mut encoder = Encoder::new(version, true);
        let mut bytes = Vec::new();
        let type_byte = encoder.type_byte(value).expect("the version has field expiries");
        encoder.write_value(context.alloc, value, &mut bytes).expect("likewise");
        let value_type = ValueType::of_byte(type_byte, version.family).expect("a type that was written");
        let again = decode(value_type, &bytes, 0, context).expect("it was written here");
        match (again, value) {
            (Value::Object(again), ValueRef::Object(before)) => assert_eq!(len(&again), len(before)),
            (Value::Int(again), ValueRef::Int(before)) => assert_eq!(again, before),
            (Value::Bytes(again), ValueRef::Bytes(before)) => assert_eq!(again, before),
            // An integer's text may be stored as the integer, and a long one as its text.
            (Value::Int(again), ValueRef::Bytes(before)) => assert_eq!(again.to_string().as_bytes(), before),
            (Value::Bytes(again), ValueRef::Int(before)) => assert_eq!(*again, *before.to_string().as_bytes()),
            (again, before) => panic!("{again:?} for {before:?}"),
        }
    }
}

fn len(object: &Object) -> u64 {
    match object {
        Object::List(list) => list.len() as u64,
        Object::Set(set) => set.len() as u64,
        Object::Hash(hash) => hash.len() as u64,
        Object::SortedSet(set) => set.len() as u64,
        Object::Stream(stream) => stream.len(),
        _ => 0,
    }
}

fn check(value: ValueRef<'_>, alloc: AllocContext<'_>) {
    let ValueRef::Object(object) = value else { return };
    match object {
        Object::List(list) => list.check(),
        Object::Set(set) => assert_eq!(set.check(alloc), Ok(())),
        Object::Hash(hash) => assert_eq!(hash.check(alloc), Ok(())),
        Object::SortedSet(set) => assert_eq!(set.check(alloc), Ok(())),
        Object::Stream(stream) => stream.check(),
        _ => {}
    }
}
