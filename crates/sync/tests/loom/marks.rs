//! Marks of changes: counters of several threads are read as they are at one instant.

use loom::sync::Arc;
use loom::thread;
use sync::{ChangeMark, ThreadCounter};

use super::explore;

/// A thread that changes two counters together, each time by one.
#[derive(Default)]
struct Pair {
    mark: ChangeMark,
    counters: [ThreadCounter; 2],
}

#[test]
fn counters_between_equal_marks_belong_together() {
    explore(Some(3), || {
        let pair = Arc::new(Pair::default());
        let writer = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                for _ in 0..2 {
                    pair.mark.begin();
                    pair.counters.iter().for_each(|counter| counter.add(1));
                    pair.mark.end();
                }
            })
        };
        let before = pair.mark.settled();
        let [one, other] = pair.counters.each_ref().map(ThreadCounter::value);
        ChangeMark::has_read();
        if before.is_some() && pair.mark.settled() == before {
            assert_eq!(one, other);
        }
        writer.join().unwrap();
    });
}

#[test]
fn of_two_announced_changes_one_sees_the_other() {
    explore(None, || {
        let marks = Arc::new([ChangeMark::new(), ChangeMark::new()]);
        let sees_other = |own: usize, marks: &[ChangeMark; 2]| {
            marks[own].announce();
            marks[1 - own].settled().is_none()
        };
        let first = {
            let marks = Arc::clone(&marks);
            thread::spawn(move || sees_other(0, &marks))
        };
        let second = sees_other(1, &marks);
        assert!(first.join().unwrap() || second);
    });
}
