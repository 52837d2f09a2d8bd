//! An RDB file that is loaded while another thread receives it: a bounded pipe between the two.
//!
//! | end | by | the loader then |
//! |---|---|---|
//! | complete | [`SnapshotFeed::complete`] | reads the rest, and after it nothing |
//! | broken | the feed is dropped | gets an error |
//! | no longer wanted | the [`ReceivedSnapshot`] is dropped | - ; the receiver may drop what it receives |

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sync::{Condvar, Mutex, MutexGuard};

use super::source::RdbSource;

/// Bytes from which on the pipe is full.
const PIPE_SIZE: usize = 2 << 20;

struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    portions: VecDeque<Vec<u8>>,
    size: usize,
    is_complete: bool,
    is_broken: bool,
    is_unwanted: bool,
}

/// The receiving side.
pub struct SnapshotFeed(Arc<Pipe>);

/// The loading side.
pub struct ReceivedSnapshot {
    pipe: Arc<Pipe>,
    total_size: Option<u64>,
    read_size: u64,
    /// Bytes that are read next.
    portion: Vec<u8>,
    at: usize,
}

/// Both sides for a file of this size in bytes, if it is known.
#[must_use]
pub fn pipe(total_size: Option<u64>) -> (SnapshotFeed, ReceivedSnapshot) {
    let pipe = Arc::new(Pipe { state: Mutex::default(), changed: Condvar::new() });
    let snapshot =
        ReceivedSnapshot { pipe: Arc::clone(&pipe), total_size, read_size: 0, portion: Vec::new(), at: 0 };
    (SnapshotFeed(pipe), snapshot)
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl SnapshotFeed {
    /// Adds bytes, also if the pipe is full.
    pub fn add(&self, bytes: Vec<u8>) {
        self.0.change(|state| {
            if !state.is_unwanted && !bytes.is_empty() {
                state.size += bytes.len();
                state.portions.push_back(bytes);
            }
        });
    }

    /// Waits for room, at most for this time. Returns whether there is room.
    #[must_use]
    pub fn await_room(&self, time: Duration) -> bool {
        let state = self.0.lock();
        let has_room = |state: &State| state.size < PIPE_SIZE || state.is_unwanted;
        if has_room(&state) {
            return true;
        }
        let (state, _) = self.0.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        has_room(&state)
    }

    /// The file is complete.
    pub fn complete(&self) {
        self.0.change(|state| state.is_complete = true);
    }
}

impl Drop for SnapshotFeed {
    fn drop(&mut self) {
        self.0.change(|state| state.is_broken = !state.is_complete);
    }
}

impl ReceivedSnapshot {
    /// Reads the rest of a file whose data are loaded.
    ///
    /// # Errors
    /// It is not complete.
    pub fn finish(&mut self) -> io::Result<()> {
        while self.fill()? {
            self.at = self.portion.len();
        }
        Ok(())
    }

    /// Waits until there are bytes in `portion`. Returns whether there are any.
    fn fill(&mut self) -> io::Result<bool> {
        let pipe = Arc::clone(&self.pipe);
        let mut state = pipe.lock();
        while !self.take_portion(&mut state) {
            if state.is_complete {
                return Ok(false);
            }
            if state.is_broken {
                let text = "the connection to the primary has ended";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            state = pipe.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(true)
    }

    /// Makes the next bytes those of `portion`, if there are any. Returns whether there are.
    fn take_portion(&mut self, state: &mut State) -> bool {
        if self.at < self.portion.len() {
            return true;
        }
        if state.is_broken {
            return false;
        }
        let Some(portion) = state.portions.pop_front() else { return false };
        state.size -= portion.len();
        self.pipe.changed.notify_all();
        self.read_size += portion.len() as u64;
        (self.portion, self.at) = (portion, 0);
        true
    }

    fn unread(&self) -> &[u8] {
        &self.portion[self.at..]
    }
}

impl Drop for ReceivedSnapshot {
    fn drop(&mut self) {
        self.pipe.change(|state| {
            state.is_unwanted = true;
            state.portions.clear();
            state.size = 0;
        });
    }
}

impl Read for ReceivedSnapshot {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.fill()? {
            return Ok(0);
        }
        let size = buffer.len().min(self.unread().len());
        buffer[..size].copy_from_slice(&self.unread()[..size]);
        self.at += size;
        Ok(size)
    }
}

impl RdbSource for ReceivedSnapshot {
    fn total_size(&self) -> Option<u64> {
        self.total_size
    }

    fn size_left(&self) -> Option<usize> {
        let left = self.total_size?.saturating_sub(self.read_size);
        Some(usize::try_from(left).ok()?.saturating_add(self.unread().len()))
    }

    fn head(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        while head.len() < size && self.fill()? {
            head.extend_from_slice(self.unread());
            self.at = self.portion.len();
        }
        (self.portion, self.at) = (head.clone(), 0);
        head.truncate(size);
        Ok(head)
    }

    fn read_stretch(&mut self, wanted: usize, buffer: &mut Vec<u8>) -> io::Result<usize> {
        // An incomplete record is not searched for its end again before it has doubled.
        let (before, enough) = (buffer.len(), buffer.len().max(1));
        let pipe = Arc::clone(&self.pipe);
        loop {
            let size = buffer.len() - before;
            let is_there = match size < enough {
                true => self.fill()?,
                false => size < wanted && self.take_portion(&mut pipe.lock()),
            };
            if !is_there {
                return Ok(size);
            }
            let part = self.unread().len().min(wanted - size);
            buffer.extend_from_slice(&self.unread()[..part]);
            self.at += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_the_beginning_is_read_again() {
        let (feed, mut snapshot) = pipe(Some(9));
        feed.add(b"RED".to_vec());
        feed.add(b"IS12".to_vec());
        assert_eq!(snapshot.head(4).unwrap(), b"REDI");
        assert_eq!(snapshot.size_left(), Some(9));
        let mut bytes = Vec::new();
        assert_eq!(snapshot.read_stretch(100, &mut bytes).unwrap(), 7);
        assert_eq!(snapshot.size_left(), Some(2));
        feed.add(b"34".to_vec());
        feed.complete();
        drop(feed);
        assert_eq!(snapshot.read_stretch(100, &mut bytes).unwrap(), 2);
        assert_eq!(snapshot.read_stretch(100, &mut bytes).unwrap(), 0);
        assert_eq!(bytes, b"REDIS1234");
        snapshot.finish().unwrap();
    }

    #[test]
    fn an_incomplete_file_is_an_error() {
        let (feed, mut snapshot) = pipe(None);
        feed.add(b"REDIS".to_vec());
        let mut bytes = Vec::new();
        assert_eq!(snapshot.read_stretch(3, &mut bytes).unwrap(), 3);
        feed.add(b"0011".to_vec());
        drop(feed);
        let error = snapshot.finish().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_pipe_is_bounded_until_nothing_is_wanted() {
        let (feed, snapshot) = pipe(None);
        assert!(feed.await_room(Duration::ZERO));
        feed.add(vec![0; PIPE_SIZE]);
        assert!(!feed.await_room(Duration::ZERO));
        drop(snapshot);
        assert!(feed.await_room(Duration::ZERO));
        feed.add(vec![0; PIPE_SIZE]);
        assert!(feed.await_room(Duration::ZERO));
    }
}
