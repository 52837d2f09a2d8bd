//! Searches for an order of the commands of a history that explains it: Wing and Gong's search with Lowe's
//! cache of visited states ("Testing for linearizability", 2017).
//!
//! Invariants: in the order taken, no command precedes one that returned before it was called.
//! Cost: exponential in the number of overlapping commands in the worst case; linear in the length of a
//! history of few clients.

use std::collections::HashSet;
use std::fmt::{self, Debug, Write};
use std::hash::Hash;

use super::store::Key;
use crate::reply::Reply;

/// A command of a history.
pub trait Command: Clone + Debug {
    /// State of the store; the default is the empty store.
    type State: Clone + Default + Eq + Hash;
    /// Output of a command.
    type Output: Clone + Debug + PartialEq;

    /// Applies the command to the state and returns its output.
    fn apply(&self, state: &mut Self::State) -> Self::Output;
    /// Returns the keys of the command.
    fn keys(&self) -> Vec<Key>;
    /// Returns a follow-up command with its output, which takes effect at some time after this one, or never.
    fn aftermath(&self) -> Option<(Self, Self::Output)> {
        None
    }
    /// Returns the words of the request.
    fn request(&self) -> Vec<String>;
    /// Interprets a reply (RESP2); `None` if it is invalid.
    fn read(&self, reply: &Reply) -> Option<Self::Output>;
}

/// One command of a history.
#[derive(Clone, Debug)]
pub struct Operation<C: Command> {
    /// Connection that sent the command.
    pub client: usize,
    /// A moment before the request was sent; only the order of moments matters.
    pub called_at: u64,
    /// A moment after the reply arrived.
    pub returned_at: u64,
    /// The command.
    pub op: C,
    /// Its output.
    pub output: C::Output,
}

/// A history without an explanation: the commands around the point where the search stopped.
#[derive(Debug)]
pub struct NotLinearisable<C: Command> {
    explained_count: usize,
    around: Vec<Operation<C>>,
}

const SHOWN_MAX: usize = 24;

/// Checks a history of commands on any keys, from an empty store.
pub fn check<C: Command>(history: &[Operation<C>]) -> Result<(), NotLinearisable<C>> {
    Search::new(history).run()
}

/// Checks a history of single-key commands key by key: equally strong, and much cheaper.
pub fn check_each_key<C: Command>(history: &[Operation<C>]) -> Result<(), NotLinearisable<C>> {
    let mut keys: Vec<Key> = history.iter().flat_map(|operation| operation.op.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().try_for_each(|key| {
        let of_key: Vec<Operation<C>> =
            history.iter().filter(|operation| operation.op.keys().contains(&key)).cloned().collect();
        check(&of_key)
    })
}

/// A call or a return in the list of events, linked so that a command can be removed and reinserted.
#[derive(Clone, Copy)]
struct Event {
    operation: usize,
    is_call: bool,
    previous: usize,
    next: usize,
}

/// The list's head and tail; events start at 1.
const HEAD: usize = 0;

struct Search<'a, C: Command> {
    history: &'a [Operation<C>],
    events: Vec<Event>,
    /// For each operation, the index of its return in `events`.
    returns: Vec<usize>,
    tried: HashSet<(Vec<u64>, C::State)>,
    taken: Vec<u64>,
    state: C::State,
    /// The calls taken, with the state before each.
    path: Vec<(usize, C::State)>,
    /// Bit set of the operations of the longest path so far.
    best: Vec<u64>,
    best_count: usize,
}

impl<'a, C: Command> Search<'a, C> {
    fn new(history: &'a [Operation<C>]) -> Search<'a, C> {
        // Calls first if moments are equal: then the two commands count as overlapping.
        let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(history.len() * 2);
        for (index, operation) in history.iter().enumerate() {
            moments.push((operation.called_at, false, index));
            moments.push((operation.returned_at, true, index));
        }
        moments.sort_unstable();
        let count = moments.len();
        let mut events =
            vec![Event { operation: usize::MAX, is_call: false, previous: count, next: 1 % (count + 1) }];
        let mut returns = vec![HEAD; history.len()];
        for (index, (_, is_return, operation)) in moments.into_iter().enumerate() {
            let at = index + 1;
            events.push(Event {
                operation,
                is_call: !is_return,
                previous: at - 1,
                next: (at + 1) % (count + 1),
            });
            if is_return {
                returns[operation] = at;
            }
        }
        let taken = vec![0; history.len().div_ceil(64)];
        Search {
            history,
            events,
            returns,
            tried: HashSet::new(),
            best: taken.clone(),
            taken,
            state: C::State::default(),
            path: Vec::new(),
            best_count: 0,
        }
    }

    fn run(mut self) -> Result<(), NotLinearisable<C>> {
        let mut at = self.events[HEAD].next;
        while self.events[HEAD].next != HEAD {
            let event = self.events[at];
            if at != HEAD && event.is_call {
                at = if self.try_take(at, event.operation) { self.events[HEAD].next } else { event.next };
                continue;
            }
            // An unexplained command has returned: the last command taken was wrong.
            let Some((call, state)) = self.path.pop() else {
                return Err(self.failure());
            };
            self.put_back(call);
            self.state = state;
            at = self.events[call].next;
        }
        Ok(())
    }

    /// Takes a command next if its output fits and the resulting state was not visited before.
    fn try_take(&mut self, call: usize, operation: usize) -> bool {
        let mut state = self.state.clone();
        if self.history[operation].op.apply(&mut state) != self.history[operation].output {
            return false;
        }
        self.taken[operation / 64] |= 1 << (operation % 64);
        if !self.tried.insert((self.taken.clone(), state.clone())) {
            self.taken[operation / 64] &= !(1 << (operation % 64));
            return false;
        }
        self.path.push((call, std::mem::replace(&mut self.state, state)));
        self.unlink(call);
        self.unlink(self.returns[operation]);
        if self.path.len() > self.best_count {
            self.best_count = self.path.len();
            self.best.clone_from(&self.taken);
        }
        true
    }

    fn put_back(&mut self, call: usize) {
        let operation = self.events[call].operation;
        self.taken[operation / 64] &= !(1 << (operation % 64));
        self.relink(self.returns[operation]);
        self.relink(call);
    }

    fn unlink(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = next;
        self.events[next].previous = previous;
    }

    /// Undoes the last `unlink` that is not undone yet.
    fn relink(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = at;
        self.events[next].previous = at;
    }

    fn failure(&self) -> NotLinearisable<C> {
        let is_open = |index: &usize| self.best[index / 64] & (1 << (index % 64)) == 0;
        let mut open: Vec<usize> = (0..self.history.len()).filter(is_open).collect();
        open.sort_by_key(|index| self.history[*index].called_at);
        // The first unexplained command, and all that overlap it.
        let stuck = open
            .iter()
            .min_by_key(|index| self.history[**index].returned_at)
            .map(|index| &self.history[*index]);
        let overlaps = |operation: &&Operation<C>| {
            stuck.is_some_and(|stuck| {
                operation.called_at <= stuck.returned_at && operation.returned_at >= stuck.called_at
            })
        };
        let mut around: Vec<Operation<C>> = self.history.iter().filter(overlaps).cloned().collect();
        around.sort_by_key(|operation| operation.called_at);
        around.truncate(SHOWN_MAX);
        NotLinearisable { explained_count: self.best_count, around }
    }
}

impl<C: Command> fmt::Display for NotLinearisable<C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "no order explains this history; {} commands were explained, but not all of these:",
            self.explained_count
        )?;
        for Operation { client, called_at, returned_at, op, output } in &self.around {
            let mut line = String::new();
            // Writing to a String can't fail.
            let _ = write!(line, "{called_at}..{returned_at} client {client}: {}", op.request().join(" "));
            writeln!(out, "    {line} -> {output:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::{Op, Output};
    use super::*;

    fn operation(client: usize, called_at: u64, returned_at: u64, op: Op, output: Output) -> Operation<Op> {
        Operation { client, called_at, returned_at, op, output }
    }

    #[test]
    fn an_empty_history_is_linearisable() {
        assert!(check::<Op>(&[]).is_ok());
    }

    #[test]
    fn overlapping_commands_may_have_happened_in_any_order() {
        let history = |read| {
            [
                operation(0, 0, 10, Op::Set(0, 1), Output::Done(true)),
                operation(1, 5, 15, Op::Set(0, 2), Output::Done(true)),
                operation(2, 20, 30, Op::Get(0), Output::Value(Some(read))),
            ]
        };
        assert!(check(&history(1)).is_ok());
        assert!(check(&history(2)).is_ok());
        assert!(check(&history(3)).is_err());
    }

    #[test]
    fn completed_operations_precede_later_ones() {
        let stale = [
            operation(0, 0, 10, Op::Set(0, 1), Output::Done(true)),
            operation(1, 11, 15, Op::Get(0), Output::Value(None)),
        ];
        let error = check(&stale).unwrap_err().to_string();
        assert!(error.contains("GET linear:0 -> Value(None)"), "{error}");
    }

    #[test]
    fn operations_on_two_keys_are_atomic() {
        let torn = [
            operation(0, 0, 10, Op::MultiSet(vec![(0, 1), (1, 1)]), Output::Done(true)),
            operation(1, 1, 9, Op::MultiGet(vec![0, 1]), Output::Values(vec![Some(1), None])),
        ];
        assert!(check(&torn).is_err());
    }
}
