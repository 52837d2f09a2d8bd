//! The cost of a latch: nanoseconds for acquire and release together.
//!
//! `cargo bench -p sync --bench latch_cost`. Indicative: on a shared machine, use the minimum of several
//! runs.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use sync::{LatchTable, Mode, Parked};

const SLOT_COUNT: usize = 16_384;
const TURN_COUNT: usize = 1_000_000;
const ROUND_COUNT: usize = 5;

type Table = LatchTable<u64, u64>;

fn main() {
    let table = Table::new(SLOT_COUNT, |slot| (slot as u64, 0), |_| ());
    println!("acquire + release, ns, minimum of {ROUND_COUNT} rounds");
    report("empty loop", || alone(|turn| _ = black_box(table.shared(near(turn)))));
    report("read, 16 slots in cache", || alone(|turn| read(&table, near(turn))));
    report("write, 16 slots in cache", || alone(|turn| write(&table, near(turn))));
    report("read, all slots in order", || alone(|turn| read(&table, turn % SLOT_COUNT)));
    report("write, all slots in order", || alone(|turn| write(&table, turn % SLOT_COUNT)));
    report("write, all slots at random", || alone(|turn| write(&table, scattered(turn))));
    report("write, at random, prefetched by 8", || {
        alone(|turn| {
            table.prefetch(scattered(turn + 8));
            write(&table, scattered(turn));
        })
    });
    report("2 threads, write, separate slots", || {
        together(|thread, turn| write(&table, 16 * thread + near(turn)))
    });
    report("2 threads, write, at random", || {
        together(|thread, turn| write(&table, scattered(turn + thread * TURN_COUNT)))
    });
    report("2 threads, read, one slot", || together(|_, _| read(&table, 0)));
    report("2 threads, write, one slot, some attempts fail", || together(|_, _| write(&table, 0)));
    let held = table.try_read_now(20);
    report("spin and fail", || alone(|_| write(&table, 20)));
    drop(held);
    report("park, wake, claim: one thread", || alone(|turn| park(&table, near(turn))));
}

fn near(turn: usize) -> usize {
    turn % 16
}

fn scattered(turn: usize) -> usize {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50
}

fn read(table: &Table, slot: usize) {
    if let Some(guard) = table.try_read(slot) {
        black_box(*guard);
    }
}

fn write(table: &Table, slot: usize) {
    if let Some(mut guard) = table.try_write(slot) {
        *guard += 1;
    }
}

fn park(table: &Table, slot: usize) {
    let guard = table.try_write(slot);
    let parked = table.park(slot, Mode::Write, 1);
    assert!(matches!(parked, Parked::Waiting), "the slot is held");
    drop(guard);
    let _ = black_box(table.claim(slot, 1));
}

fn report(what: &str, round: impl Fn() -> f64) {
    let least_ns = (0..ROUND_COUNT).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("{least_ns:8.1}  {what}");
}

fn alone(turn: impl Fn(usize)) -> f64 {
    let start = Instant::now();
    (0..TURN_COUNT).for_each(turn);
    start.elapsed().as_nanos() as f64 / TURN_COUNT as f64
}

/// Wall time for one turn of each of two threads.
fn together(turn: impl Fn(usize, usize) + Sync) -> f64 {
    let (turn, barrier) = (&turn, &Barrier::new(2));
    let run = move |thread| {
        barrier.wait();
        let start = Instant::now();
        (0..TURN_COUNT).for_each(|index| turn(thread, index));
        start.elapsed().as_nanos() as f64 / TURN_COUNT as f64
    };
    thread::scope(|scope| {
        let other = scope.spawn(move || run(1));
        run(0).max(other.join().expect("the other thread does not panic"))
    })
}
