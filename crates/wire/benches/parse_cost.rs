//! The cost of parsing and replying, in nanoseconds a request, for pipelines of common commands.
//!
//! `cargo bench -p wire --bench parse_cost`. Each figure is the best of many rounds over a buffer
//! that stays in the cache, so it measures instructions, not memory.

use std::hint::black_box;
use std::time::Instant;

use wire::number;
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Batch, Parser, RequestLimits};
use wire::response::{encode_command, skip_reply};

const REQUEST_COUNT: usize = 100;
const ROUND_COUNT: usize = 300;
const REPEAT_COUNT: usize = 20;

fn main() {
    println!("parsing a pipeline of {REQUEST_COUNT}, ns a request");
    parsing("GET key:000000000042", |index| vec![b"GET".to_vec(), key(index)]);
    parsing("GET, keys of 1 to 30 bytes", |index| vec![b"GET".to_vec(), vec![b'k'; 1 + index * 7 % 30]]);
    parsing("SET, 64-byte values", |index| vec![b"SET".to_vec(), key(index), vec![b'v'; 64]]);
    parsing("SET, 1000-byte values", |index| vec![b"SET".to_vec(), key(index), vec![b'v'; 1000]]);
    parsing("SET key value EX 100", |index| {
        vec![b"SET".to_vec(), key(index), vec![b'v'; 64], b"EX".to_vec(), b"100".to_vec()]
    });
    parsing("MGET of 20 keys", |index| {
        std::iter::once(b"MGET".to_vec()).chain((0..20).map(|at| key(index + at))).collect()
    });
    parsing("PING", |_| vec![b"PING".to_vec()]);
    let inline = "GET key:000000000042\r\n".repeat(REQUEST_COUNT).into_bytes();
    parsing_bytes("inline GET key:000000000042", &inline);

    println!("writing {REQUEST_COUNT} replies, ns each");
    let value = [b'v'; 64];
    replying("+OK", |reply, _| reply.ok());
    replying("integer below 100", |reply, index| reply.integer(index as i64));
    replying("integer of 10 digits", |reply, index| reply.integer(1_234_567_890 + index as i64));
    replying("null", |reply, _| reply.null());
    replying("bulk of 64 bytes", |reply, _| reply.bulk(&value));
    replying("double 3.25", |reply, index| reply.double(index as f64 + 0.25));
    replying("double of 17 digits", |reply, index| reply.double((index as f64 + 2.0).sqrt()));

    println!("skipping {REQUEST_COUNT} replies, ns each");
    skipping("+OK", |reply| reply.ok());
    skipping("bulk of 64 bytes", |reply| reply.bulk(&value));
    skipping("array of 10 bulks", |reply| {
        reply.array(10);
        (0..10).for_each(|_| reply.bulk(&value[..10]));
    });

    println!("reading numbers, ns each");
    let texts: Vec<Vec<u8>> =
        (0..REQUEST_COUNT as i64).map(|n| (n * 98_765_432).to_string().into()).collect();
    let cost = best(|| texts.iter().filter_map(|text| number::parse_i64_strict(black_box(text))).count());
    println!("  {:<32} {cost:6.2}", "integer of 10 digits");
}

fn key(index: usize) -> Vec<u8> {
    format!("key:{index:012}").into_bytes()
}

/// Nanoseconds for one of the [`REQUEST_COUNT`] operations of `run`, which returns the number of its
/// operations.
fn best(mut run: impl FnMut() -> usize) -> f64 {
    let mut best_ns = f64::MAX;
    for _ in 0..ROUND_COUNT {
        let start = Instant::now();
        for _ in 0..REPEAT_COUNT {
            assert_eq!(black_box(run()), REQUEST_COUNT);
        }
        let count = (REPEAT_COUNT * REQUEST_COUNT) as f64;
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / count);
    }
    best_ns
}

fn parsing(name: &str, request: impl Fn(usize) -> Vec<Vec<u8>>) {
    let mut input = Vec::new();
    for index in 0..REQUEST_COUNT {
        encode_command(&request(index), &mut input);
    }
    parsing_bytes(name, &input);
}

fn parsing_bytes(name: &str, input: &[u8]) {
    let (mut parser, mut batch) = (Parser::new(), Batch::new());
    let limits = RequestLimits::default();
    let cost = best(|| {
        batch.clear();
        let parsed = parser.parse(black_box(input), &limits, &mut batch, usize::MAX);
        assert_eq!(parsed.consumed, input.len());
        batch.len()
    });
    println!("  {name:<32} {cost:6.2}");
}

fn replying(name: &str, mut write: impl FnMut(&mut ReplyBuffer<'_>, usize)) {
    let mut out = Vec::with_capacity(1 << 16);
    let cost = best(|| {
        out.clear();
        let mut reply = ReplyBuffer::new(&mut out, Protocol::Resp3);
        for index in 0..REQUEST_COUNT {
            write(&mut reply, black_box(index));
        }
        black_box(&out);
        REQUEST_COUNT
    });
    println!("  {name:<32} {cost:6.2}");
}

fn skipping(name: &str, write: impl Fn(&mut ReplyBuffer<'_>)) {
    let mut out = Vec::new();
    let mut reply = ReplyBuffer::new(&mut out, Protocol::Resp2);
    (0..REQUEST_COUNT).for_each(|_| write(&mut reply));
    let cost = best(|| {
        let mut rest = black_box(&out[..]);
        let mut count = 0;
        while let Ok(Some(skipped)) = skip_reply(rest) {
            rest = &rest[skipped.len..];
            count += 1;
        }
        count
    });
    println!("  {name:<32} {cost:6.2}");
}
