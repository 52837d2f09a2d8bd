//! The cost of a key: bytes and nanoseconds, on one thread, with 16,384 tables as in the keyspace.
//!
//! `cargo bench -p collections --bench table_cost [-- keys [huge]]` (5 million by default, 16-byte
//! keys, 64-byte values; `huge` requests huge pages). Timings on a machine with other load are only
//! indicative; bytes are exact.

#![allow(unsafe_code)]

use std::time::Instant;

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use collections::{ChunkKeeper, ExpiryChange, Heap, Hint, NewValue, PageHooks, ProbeResult, Table};

const SLOT_COUNT: usize = 16_384;
const HEAP_COUNT: usize = 32;
const VALUE: [u8; 64] = [b'v'; 64];

/// Like a slot of the keyspace: latch, hint and table in one line.
#[repr(align(64))]
struct Slot {
    latch: u64,
    hint: Hint,
    table: Table,
}

struct Keyspace {
    slots: Vec<Slot>,
    heaps: Vec<Heap>,
}

fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Key `index`: 16 bytes, and its hash (of the number, which costs about what a fast hash of 16 bytes does).
fn key(index: u64) -> ([u8; 16], u64) {
    let mut bytes = *b"key:000000000000";
    let mut rest = index;
    for digit in bytes[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    (bytes, mix(index))
}

fn slot_of(hash: u64) -> usize {
    (hash >> 50) as usize
}

unsafe extern "C" {
    fn madvise(address: *mut c_void, size: usize, advice: c_int) -> c_int;
}

/// The server's hooks on Linux.
fn page_hooks(wants_huge: bool) -> PageHooks {
    const MADV_DONTNEED: c_int = 4;
    const MADV_HUGEPAGE: c_int = 14;
    let purge = |memory: &mut [MaybeUninit<u8>]| {
        // SAFETY: the range is the slice's, whose contents may change. Failure is harmless.
        unsafe { madvise(memory.as_mut_ptr().cast(), memory.len(), MADV_DONTNEED) };
    };
    let prepare = |memory: &mut [MaybeUninit<u8>]| {
        // SAFETY: changes no contents. Failure is harmless.
        unsafe { madvise(memory.as_mut_ptr().cast(), memory.len(), MADV_HUGEPAGE) };
    };
    PageHooks {
        prepare: wants_huge.then_some(prepare),
        keep: Some(Arc::new(ChunkKeeper::prepare)),
        purge: Some(purge),
    }
}

impl Keyspace {
    fn new(hooks: PageHooks) -> Self {
        // SAFETY: (1) it is published after each change; (2, 3) there is one thread, and no prefetch lasts
        // beyond a change.
        let slot = |_| Slot { latch: 0, hint: unsafe { Hint::new() }, table: Table::with_hint() };
        Self { slots: (0..SLOT_COUNT).map(slot).collect(), heaps: Heap::family_with(HEAP_COUNT, hooks) }
    }

    fn set(&mut self, index: u64, value: &[u8]) {
        let (key, hash) = key(index);
        let slot = &mut self.slots[slot_of(hash)];
        let heap = &self.heaps[slot_of(hash) / (SLOT_COUNT / HEAP_COUNT)];
        slot.table.upsert(heap, hash, &key, NewValue::Bytes(value), ExpiryChange::Clear);
        slot.hint.publish(&mut slot.table);
    }

    fn remove(&mut self, index: u64) -> bool {
        let (key, hash) = key(index);
        let slot = &mut self.slots[slot_of(hash)];
        let heap = &self.heaps[slot_of(hash) / (SLOT_COUNT / HEAP_COUNT)];
        let removed = slot.table.remove(heap, hash, &key);
        slot.hint.publish(&mut slot.table);
        removed.is_some()
    }

    /// The sum of the first bytes of all values, so that they are read.
    fn lookup(&self, index: u64) -> u64 {
        let (key, hash) = key(index);
        let slot = &self.slots[slot_of(hash)];
        let entry = slot.table.find(hash, &key).expect("all keys were set");
        slot.latch + entry.value().text_len().unwrap_or(0) as u64
    }

    /// The prefetch stages of a batch, then the lookups.
    fn lookup_batch(&self, indices: &[u64]) -> u64 {
        for &index in indices {
            let slot: *const Slot = &self.slots[slot_of(key(index).1)];
            prefetch(slot.cast());
        }
        let hashes = || indices.iter().map(|&index| key(index).1);
        let hint_of = |hash| &self.slots[slot_of(hash)].hint;
        let homes: Vec<_> = hashes().map(|hash| hint_of(hash).prefetch_home(hash)).collect();
        let displaced =
            hashes().zip(homes).filter(|(hash, home)| home.prefetch_entry(*hash) == ProbeResult::Displaced);
        let mut sequences: Vec<_> =
            displaced.filter_map(|(hash, _)| hint_of(hash).probes_beyond_home(hash)).collect();
        while !sequences.is_empty() {
            sequences.retain_mut(|probes| probes.follow() == ProbeResult::Displaced);
        }
        indices.iter().map(|&index| self.lookup(index)).sum()
    }

    /// Reports the mean number of buckets that a search for an existing key reads.
    fn report_reads(&self) {
        let stats = self.slots.iter().map(|slot| slot.table.stats());
        let (mut read_count, mut home_count, mut entry_count, mut word_count) = (0, 0, 0, 0);
        for stats in stats {
            let by_reads = stats.entry_count_by_reads.iter().enumerate();
            read_count += by_reads.map(|(index, count)| (index + 1) * count).sum::<usize>();
            home_count += stats.entry_count_by_reads[0];
            entry_count += stats.entry_count;
            word_count += 7 * stats.bucket_count;
        }
        let reads = read_count as f64 / entry_count as f64;
        println!(
            "{:.1} % full; {:.1} % in home buckets; buckets read by a hit: {reads:.3}",
            100.0 * entry_count as f64 / word_count as f64,
            100.0 * home_count as f64 / entry_count as f64,
        );
    }

    fn take_retired(&self) {
        for heap in &self.heaps {
            drop(heap.take_retired());
        }
    }

    fn defragment(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let heap = &self.heaps[index / (SLOT_COUNT / HEAP_COUNT)];
            slot.table.defragment(heap, 0, usize::MAX);
            slot.hint.publish(&mut slot.table);
        }
        self.tidy(0);
    }

    /// The server's periodic work.
    fn tidy(&self, step: u64) {
        if step.is_multiple_of(1024) {
            self.take_retired();
        }
        if step.is_multiple_of(256 * 1024) {
            self.heaps.iter().for_each(Heap::trim);
        }
    }

    fn report(&self, what: &str, key_count: u64, rss_before: u64) {
        self.take_retired();
        let used: u64 = self.heaps.iter().map(Heap::used_bytes).sum();
        let resident: u64 = self.heaps.iter().map(Heap::resident_bytes).sum();
        let segments: usize = self.slots.iter().map(|slot| slot.table.memory_bytes()).sum();
        let per_key = |bytes: u64| bytes as f64 / key_count as f64;
        println!(
            "{what}: {key_count} keys; bytes/key: entries {:.2}, segments {:.2}, heap resident {:.2}, RSS {:.2}; \
             address space {} MiB",
            per_key(used - segments as u64),
            per_key(segments as u64),
            per_key(resident),
            per_key(rss() - rss_before),
            self.heaps[0].family_mapped_bytes() >> 20,
        );
    }
}

fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that a program can observe.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Resident bytes of this process.
fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("its second field");
    pages * 4096
}

/// CPU time of this thread in nanoseconds: other load on the machine affects it only by cache misses.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("its first field")
}

fn timed(what: &str, count: u64, run: impl FnOnce()) {
    let start = cpu_ns();
    run();
    println!("{what}: {:.1} ns", (cpu_ns() - start) as f64 / count as f64);
}

/// Reports the cost of growth steps in a table that is in the cache: the median of many, so that interrupts
/// do not count.
fn report_growth_pauses() {
    let heap = Heap::new();
    let mut by_len: Vec<Vec<u64>> = vec![Vec::new(); 2_000];
    for round in 0..200 {
        let mut table = Table::new();
        for (len, samples) in by_len.iter_mut().enumerate() {
            let (key, hash) = key(round * 10_000 + len as u64);
            let start = Instant::now();
            table.upsert(&heap, hash, &key, NewValue::Bytes(&VALUE), ExpiryChange::Clear);
            samples.push(start.elapsed().as_nanos() as u64);
        }
        drop(heap.take_retired());
    }
    for samples in &mut by_len {
        samples.sort_unstable();
    }
    let steps = [56 * 7 - 28, 64 * 7 - 32];
    for (what, len) in ["a rebuild from 56 to 64 buckets", "a split of 64 buckets, and the first directory"]
        .iter()
        .zip(steps)
    {
        println!("{what}: {} ns", by_len[len][100]);
    }
    let others = by_len[10].get(100).expect("200 rounds");
    println!("an insert without growth, timed the same way: {others} ns");
}

fn main() {
    // Without the argument that Cargo adds.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let key_count: u64 = arguments.next().map_or(5_000_000, |count| count.parse().expect("a number"));
    let lookup_count: u64 = 4_000_000;
    let rss_before = rss();
    let wants_huge = arguments.next().is_some_and(|word| word == "huge");
    let mut keyspace = Keyspace::new(page_hooks(wants_huge));

    timed("insert", key_count, || {
        for index in 0..key_count {
            keyspace.set(index, &VALUE);
            keyspace.tidy(index);
        }
    });
    keyspace.report("filled", key_count, rss_before);
    keyspace.report_reads();
    report_growth_pauses();

    let random = |step: u64| mix(step ^ 0xABCDEF) % key_count;
    let mut sum = 0;
    timed("key and hash alone", lookup_count, || {
        for step in 0..lookup_count {
            sum += key(random(step)).1;
        }
    });
    timed("get", lookup_count, || {
        for step in 0..lookup_count {
            sum += keyspace.lookup(random(step));
        }
    });
    for batch_size in [16, 100] {
        timed(&format!("get, batches of {batch_size}"), lookup_count, || {
            let mut batch = Vec::new();
            for start in (0..lookup_count).step_by(batch_size) {
                batch.clear();
                batch.extend((start..start + batch_size as u64).map(random));
                sum += keyspace.lookup_batch(&batch);
            }
        });
    }
    timed("overwrite", lookup_count, || {
        for step in 0..lookup_count {
            keyspace.set(random(step), &VALUE);
        }
    });
    keyspace.report("overwritten", key_count, rss_before);

    // Churn: each step removes the oldest key and adds a new one, for a whole turnover.
    timed("remove and insert", key_count, || {
        for index in 0..key_count {
            assert!(keyspace.remove(index));
            keyspace.set(index + key_count, &VALUE);
            keyspace.tidy(index);
        }
    });
    keyspace.report("turned over", key_count, rss_before);
    timed("remove nine tenths", key_count / 10 * 9, || {
        for index in 0..key_count {
            if !mix(index).is_multiple_of(10) {
                assert!(keyspace.remove(index + key_count));
            }
            keyspace.tidy(index);
        }
    });
    keyspace.report("a tenth left", key_count / 10, rss_before);
    timed("defragment, an entry", key_count / 10, || keyspace.defragment());
    keyspace.report("defragmented", key_count / 10, rss_before);
    for slot in &mut keyspace.slots {
        slot.table.clear();
        slot.hint.publish(&mut slot.table);
    }
    keyspace.report("cleared", 1, rss_before);
    keyspace.heaps.iter().for_each(Heap::trim);
    keyspace.report("trimmed", 1, rss_before);

    // Sizes that differ from those at allocation: 64 bytes, then 16 to 256.
    let half = key_count / 2;
    for index in 0..half {
        keyspace.set(index, &VALUE);
        keyspace.tidy(index);
    }
    for index in 0..half {
        keyspace.set(index, &[b'v'; 256][..16 + (mix(index) % 241) as usize]);
        keyspace.tidy(index);
    }
    keyspace.report("random 16..=256", half, rss_before);
    keyspace.defragment();
    keyspace.report("random 16..=256, defragmented", half, rss_before);
    timed("overwrite with another length", key_count, || {
        for step in 0..key_count {
            let random = mix(step ^ 77);
            keyspace.set(random % half, &[b'v'; 256][..16 + (random >> 32) as usize % 241]);
        }
    });
    keyspace.report("random 16..=256, churned", half, rss_before);
    std::hint::black_box(sum);
}
