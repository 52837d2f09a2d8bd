//! Collections that are written in portions, as a snapshot does, are read as those that are written at once.

use std::sync::{Arc, Mutex};

use collections::stream::{Delivery, Group, NodeLimits, Stream, StreamId};
use collections::{Collection, Element, ElementSink, End, List, Object, PortionLimits, Tracking, ValueRef};
use rdb::{ElementForm, Encoder, Payload, Value, Version};

use crate::support::{Fixture, describe};

/// The bytes of a value.
struct Sink {
    encoder: Encoder,
    form: ElementForm,
    end: Vec<u8>,
    len: usize,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl ElementSink for Sink {
    fn add(&mut self, element: Element<'_>) {
        self.len += element.len();
        let mut bytes = self.bytes.lock().expect("no test panics with it");
        self.encoder.write_element(self.form, element, &mut bytes);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn size(&self) -> usize {
        0
    }

    fn settle(&mut self, _kept_size: usize) {}

    fn finish(&mut self) {
        self.bytes.lock().expect("no test panics with it").append(&mut self.end);
    }

    fn take(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// The payload of a dump of a value, written in portions.
fn dump_in_portions(fixture: &Fixture, object: &Object, version: Version) -> Vec<u8> {
    let value = ValueRef::Object(object);
    let mut encoder = Encoder::new(version, true);
    let mut out = vec![encoder.type_byte(value).expect("it has no field expiries")];
    let form = encoder.begin_elements(value, &mut out).expect("as before").expect("it is large");
    let (mut end, bytes) = (Vec::new(), Arc::new(Mutex::new(out)));
    encoder.write_end(value, &mut end);
    let sink = Sink { encoder, form, end, len: 0, bytes: Arc::clone(&bytes) };
    let hasher = fixture.alloc_context().hasher;
    let tracking = Tracking::begin(object, hasher, Box::new(sink)).expect("it is large");
    while !tracking.walk(object, PortionLimits { len_max: 7, size_max: 1 }) {}
    let mut out = std::mem::take(&mut *bytes.lock().expect("no test panics with it"));
    Payload::seal(version, &mut out);
    out
}

fn list() -> Object {
    let mut list = List::new();
    for number in 0..5000_usize {
        match number % 500 {
            77 => list.push(End::Right, &vec![b'x'; 2500 + number]),
            78 => list.push(End::Right, &vec![b'y'; 9000]),
            79 => list.push(End::Right, b""),
            80..200 => list.push(End::Right, number.to_string().as_bytes()),
            _ => list.push(End::Right, format!("item {number}").as_bytes()),
        }
    }
    list.report_as_quicklist();
    list.into_object()
}

fn stream() -> Object {
    let mut stream = Stream::new();
    for number in 1..6000_u64 {
        let id = StreamId { ms: number / 3, seq: number };
        let name = if number.is_multiple_of(9) { "other" } else { "name" };
        let pairs = [(name.as_bytes(), b"value".as_slice())];
        let limits = NodeLimits { entry_count_max: 100, size_max: 4096 };
        stream.append(id, pairs.into_iter(), limits).expect("ids ascend");
    }
    for number in (1..3000_u64).step_by(2) {
        assert!(stream.delete(StreamId { ms: number / 3, seq: number }));
    }
    let mut group = Group::new(StreamId { ms: 10, seq: 30 }, Some(30));
    let consumer = group.add_consumer(b"reader", 5);
    group.deliver(StreamId { ms: 10, seq: 30 }, Delivery { consumer, at: 7, count: 2 });
    stream.add_group(b"group", group);
    stream.into_object()
}

#[test]
fn values_in_portions_are_read_as_whole_ones() {
    let fixture = Fixture::new();
    for object in [list(), stream()] {
        assert!(object.is_large());
        for version in [Version::V9, Version::V11] {
            let payload = dump_in_portions(&fixture, &object, version);
            let whole = Value::Object(object.to_copy(fixture.alloc_context().heap));
            let whole = fixture.dump(&whole, version, true).expect("it can be dumped");
            assert!(payload.len() < whole.len() * 11 / 10, "{} of {}", payload.len(), whole.len());
            let shown = |payload: &[u8]| describe(&fixture, &fixture.open(payload).expect("a valid value"));
            // Version 9 does not have all of a stream.
            assert!(shown(&payload) == shown(&whole), "{version:?}");
            if version == Version::V11 {
                let object = Value::Object(object.to_copy(fixture.alloc_context().heap));
                assert!(shown(&payload) == describe(&fixture, &object));
            }
        }
    }
}
