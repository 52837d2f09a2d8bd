//! The cost of a block: this crate's heap compared with the global allocator.
//!
//! `cargo bench -p collections --bench heap_cost -- heap` measures the heap, `... -- malloc` the global allocator; to measure another
//! allocator, preload it with `LD_PRELOAD=libjemalloc.so.2` or `libmimalloc.so.2`. Blocks are entries with
//! keys of 16 bytes: first 5 million with values of 64 bytes, then values of 16 to 256 bytes, then each
//! replaced twice by one of another length.

use collections::{Heap, NewValue, OwnedEntry};

const COUNT: usize = 5_000_000;
const HEAP_COUNT: usize = 32;
const BYTES: [u8; 512] = [7; 512];

/// SplitMix64's finaliser.
fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

enum Allocator {
    Heaps(Vec<Heap>),
    Global,
}

enum Block {
    Vacant,
    Entry(#[expect(dead_code, reason = "it is only kept")] OwnedEntry),
    Bytes(#[expect(dead_code, reason = "it is only kept")] Box<[u8]>),
}

impl Allocator {
    /// A block for an entry whose value has this size.
    fn allocate(&self, index: usize, value_size: usize) -> Block {
        match self {
            Self::Heaps(heaps) => {
                let heap = &heaps[mix(index as u64) as usize % HEAP_COUNT];
                Block::Entry(OwnedEntry::new(heap, &BYTES[..16], NewValue::Raw(&BYTES[..value_size]), None))
            }
            Self::Global => Block::Bytes(BYTES[..24 + value_size].into()),
        }
    }
}

/// Resident bytes of this process.
fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("its second field");
    pages * 4096
}

/// Nanoseconds that this thread has been on a processor.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("its first field")
}

fn measured(what: &str, rss_before: u64, step_count: usize, run: impl FnOnce() -> usize) {
    let start = cpu_ns();
    let needed = run();
    let ns = (cpu_ns() - start) as f64 / step_count as f64;
    let per_block = (rss() - rss_before) as f64 / COUNT as f64;
    let needed = needed as f64 / COUNT as f64;
    let percent = (per_block / needed - 1.0) * 100.0;
    println!("{what}: {ns:.0} ns, {per_block:.1} bytes resident for {needed:.1} needed (+{percent:.1} %)");
}

/// The arguments, without the one that Cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}

fn main() {
    let allocator = match arguments().next().as_deref() {
        Some("heap") => Allocator::Heaps(Heap::family(HEAP_COUNT)),
        Some("malloc") => Allocator::Global,
        _ => return eprintln!("usage: heap_cost heap|malloc"),
    };
    let mut blocks: Vec<Block> = (0..COUNT).map(|_| Block::Vacant).collect();
    let rss_before = rss();
    measured("5 million of 88 bytes", rss_before, COUNT, || {
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = allocator.allocate(index, 64);
        }
        88 * COUNT
    });
    measured("free and allocate one at random", rss_before, COUNT, || {
        for step in 0..COUNT {
            let index = mix(step as u64) as usize % COUNT;
            blocks[index] = Block::Vacant;
            blocks[index] = allocator.allocate(index, 64);
        }
        88 * COUNT
    });
    let mut sizes: Vec<u16> = (0..COUNT).map(|index| 16 + (mix(index as u64) >> 40) as u16 % 241).collect();
    let rss_before = rss_before + 2 * COUNT as u64;
    let needed = |sizes: &[u16]| sizes.iter().map(|&size| 24 + usize::from(size)).sum();
    measured("each replaced by a random size", rss_before, COUNT, || {
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = Block::Vacant;
            *block = allocator.allocate(index, usize::from(sizes[index]));
        }
        needed(&sizes)
    });
    measured("two random replacements a block", rss_before, 2 * COUNT, || {
        for step in 0..2 * COUNT as u64 {
            let random = mix(step ^ 0xC0FFEE);
            let index = random as usize % COUNT;
            sizes[index] = 16 + (random >> 48) as u16 % 241;
            blocks[index] = Block::Vacant;
            blocks[index] = allocator.allocate(index, usize::from(sizes[index]));
        }
        needed(&sizes)
    });
    measured("free all", rss_before, COUNT, || {
        blocks.clear();
        if let Allocator::Heaps(heaps) = &allocator {
            heaps.iter().for_each(Heap::trim);
        }
        COUNT
    });
}
