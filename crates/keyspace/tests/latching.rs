//! Latches of one command after the other: a run on one slot keeps its latch, but not before somebody who waits for it.

use std::sync::mpsc;

use base::Slot;
use keyspace::{Busy, Keyspace, View};
use sync::Mode;

const FIRST: Slot = Slot::new(7);
const SECOND: Slot = Slot::new(8);

#[test]
fn a_run_on_one_slot_keeps_its_latch_until_somebody_waits() {
    let (sender, woken) = mpsc::channel();
    let wake = move |token| sender.send(token).expect("the test listens");
    let keyspace = Keyspace::new(1, [1, 2, 3, 4], wake);
    let (mut runner, mut other) = (View::new(&keyspace, 0, 1), View::new(&keyspace, 1, 2));
    for mode in [Mode::Write, Mode::Read, Mode::Read] {
        assert_eq!(runner.latch_next(FIRST, mode), Ok(()));
    }
    // It is for reading now, as another reader can tell.
    assert_eq!(other.latch(FIRST, Mode::Read), Ok(()));
    assert_eq!(runner.latch_next(FIRST, Mode::Write), Err(Busy(FIRST)));
    assert!(runner.holds_nothing());
    other.release();

    assert_eq!(runner.latch_next(FIRST, Mode::Write), Ok(()));
    assert_eq!(runner.latch_next(SECOND, Mode::Write), Ok(()));
    assert_eq!(other.latch(FIRST, Mode::Write), Ok(()));
    assert_eq!(other.latch_next(SECOND, Mode::Write), Err(Busy(SECOND)));
    assert!(!other.park(Busy(SECOND), Mode::Write, 5));
    assert!(woken.try_recv().is_err());
    assert_eq!(runner.latch_next(SECOND, Mode::Write), Ok(()));
    assert_eq!(woken.try_recv(), Ok(5));
    runner.release();
    assert!(other.claim(Busy(SECOND), 5));
}
