//! The changes that a server has acknowledged before a crash, compared with the data after a restart.
//!
//! Each client changes keys of its own, one request after the other, and reads the counters of all clients. So
//! the data after a crash are right under two conditions: each client's data are those after some number of its
//! first changes, not below the number that is guaranteed; and no counter is below a guaranteed value.
//!
//! Performs no I/O: a test fills the histories. Start reading at [`check`].

use std::collections::BTreeMap;

/// A change of a client's own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `INCR` of its counter.
    Count,
    /// `RPUSH` of the next number to its list.
    Push,
    /// A transaction that increments two counters and pushes to a list.
    Transaction,
}

/// The contents of a client's own keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its counter.
    pub count: u64,
    /// The length of its list.
    pub pushed: u64,
    /// The last element of the list; 0 if it is empty.
    pub last_pushed: u64,
    /// The first counter of its transactions.
    pub left: u64,
    /// Their second counter.
    pub right: u64,
    /// The length of their list.
    pub between: u64,
}

/// The changes that must survive a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// All changes that a reply has acknowledged or shown: `appendfsync always`.
    #[default]
    Shown,
    /// A client's own changes that were acknowledged before it sent a successful `WAITAOF`, or are old enough.
    Awaited,
}

/// The changes of one client since the start of the server, and the replies to it.
#[derive(Clone, Debug, Default)]
pub struct History {
    before: Contents,
    /// Changes in the order in which they were sent.
    sent: Vec<Change>,
    shown: Observed,
    awaited: Observed,
}

/// The state that replies have confirmed to a client.
#[derive(Clone, Debug, Default)]
struct Observed {
    /// The number of its changes that were acknowledged.
    change_count: usize,
    /// The largest values of clients' counters.
    counts: BTreeMap<usize, u64>,
}

impl History {
    /// The history of a client whose keys have these contents.
    #[must_use]
    pub fn new(before: Contents) -> Self {
        Self { before, ..Self::default() }
    }

    /// Records changes before they are sent.
    pub fn send(&mut self, changes: &[Change]) {
        self.sent.extend_from_slice(changes);
    }

    /// Records that the last change was refused.
    pub fn refuse(&mut self) {
        self.sent.pop();
    }

    /// Records that all changes so far were acknowledged.
    pub fn acknowledge(&mut self) {
        self.shown.change_count = self.sent.len();
    }

    /// Records that a client's counter was read.
    pub fn read(&mut self, client: usize, count: u64) {
        let largest = self.shown.counts.entry(client).or_default();
        *largest = count.max(*largest);
    }

    /// Records a successful `WAITAOF`, sent after everything that was acknowledged so far. It does not cover
    /// values that the client has only read.
    pub fn awaited(&mut self) {
        self.awaited = Observed { change_count: self.shown.change_count, counts: BTreeMap::new() };
    }

    /// Records that the first `count` changes, which were acknowledged, are old enough to be on disk.
    pub fn settled(&mut self, count: usize) {
        self.awaited.change_count = self.awaited.change_count.max(count);
    }

    /// The number of changes that these contents have; `None` if some from before are missing.
    #[must_use]
    pub fn found_count(&self, found: &Contents) -> Option<u64> {
        let before = &self.before;
        (found.count + found.pushed + found.left).checked_sub(before.count + before.pushed + before.left)
    }

    /// The number of elements in the client's list after all changes so far.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.after(self.sent.len()).pushed
    }

    /// The number of acknowledged changes.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.shown.change_count
    }

    /// The contents after the first `count` changes.
    fn after(&self, count: usize) -> Contents {
        let mut contents = self.before;
        for change in &self.sent[..count] {
            match change {
                Change::Count => contents.count += 1,
                Change::Push => {
                    contents.pushed += 1;
                    contents.last_pushed = contents.pushed;
                }
                Change::Transaction => {
                    contents.left += 1;
                    contents.right += 1;
                    contents.between += 1;
                }
            }
        }
        contents
    }

    fn observed(&self, guarantee: Guarantee) -> &Observed {
        match guarantee {
            Guarantee::Shown => &self.shown,
            Guarantee::Awaited => &self.awaited,
        }
    }
}

/// Compares the contents of all clients' keys after a restart with their histories.
///
/// # Errors
/// The missing or incomplete changes.
pub fn check(histories: &[History], found: &[Contents], guarantee: Guarantee) -> Result<(), String> {
    for (client, (history, found)) in histories.iter().zip(found).enumerate() {
        if found.left != found.right || found.left != found.between {
            return Err(format!("client {client}: a transaction is half there: {found:?}"));
        }
        let count = history
            .found_count(found)
            .ok_or_else(|| format!("client {client}: changes before the start are missing: {found:?}"))?;
        let guaranteed = history.observed(guarantee).change_count;
        if count < guaranteed as u64 {
            return Err(format!(
                "client {client}: {guaranteed} changes were guaranteed, {count} are there: {found:?}"
            ));
        }
        if count > history.sent.len() as u64 || history.after(count as usize) != *found {
            return Err(format!("client {client}: not the first {count} changes: {found:?}"));
        }
    }
    for (reader, history) in histories.iter().enumerate() {
        for (client, count) in &history.observed(guarantee).counts {
            if found[*client].count < *count {
                return Err(format!(
                    "client {reader} was shown {count} of client {client}, which has {} now",
                    found[*client].count
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients; the first has sent five changes, of which four are acknowledged and two awaited.
    fn histories() -> Vec<History> {
        let mut first = History::new(Contents { count: 10, ..Contents::default() });
        first.send(&[Change::Count, Change::Transaction]);
        first.acknowledge();
        first.awaited();
        first.send(&[Change::Push, Change::Count]);
        first.acknowledge();
        first.send(&[Change::Transaction]);
        let mut second = History::default();
        second.read(0, 12);
        vec![first, second]
    }

    fn found(count: usize) -> Vec<Contents> {
        let histories = histories();
        vec![histories[0].after(count), Contents::default()]
    }

    #[track_caller]
    fn check_fails(found: &[Contents], guarantee: Guarantee, part: &str) {
        let error = check(&histories(), found, guarantee).expect_err(part);
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn data_that_keep_the_guarantee_pass() {
        for (guarantee, counts) in [(Guarantee::Shown, 4..6), (Guarantee::Awaited, 2..6)] {
            for count in counts {
                assert_eq!(check(&histories(), &found(count), guarantee), Ok(()));
            }
        }
    }

    #[test]
    fn each_kind_of_loss_is_reported() {
        check_fails(&found(3), Guarantee::Shown, "4 changes were guaranteed, 3 are there");
        check_fails(&found(1), Guarantee::Awaited, "2 changes were guaranteed, 1 are there");
        let mut settled = histories();
        settled[0].settled(3);
        let error = check(&settled, &found(2), Guarantee::Awaited).expect_err("three are old enough");
        assert!(error.contains("3 changes were guaranteed, 2 are there"), "{error}");
        let mut torn = found(5);
        torn[0].right -= 1;
        check_fails(&torn, Guarantee::Awaited, "half there");
        let mut hole = found(4);
        (hole[0].pushed, hole[0].last_pushed, hole[0].count) = (0, 0, hole[0].count + 1);
        check_fails(&hole, Guarantee::Shown, "not the first 4 changes");
        check_fails(&[Contents::default(), Contents::default()], Guarantee::Awaited, "before the start");
    }

    #[test]
    fn a_value_that_only_a_reader_saw_is_guaranteed_too() {
        let mut histories = histories();
        // Nothing was acknowledged to the writer.
        histories[0].shown = Observed::default();
        let error = check(&histories, &found(1), Guarantee::Shown).expect_err("the reader saw 12");
        assert!(error.contains("client 1 was shown 12 of client 0"), "{error}");
        assert_eq!(check(&histories, &found(4), Guarantee::Shown), Ok(()));
        assert_eq!(check(&histories, &found(2), Guarantee::Awaited), Ok(()));
    }
}
