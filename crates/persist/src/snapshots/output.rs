//! Where a snapshot goes. A pass over the data writes to several outputs at once, which fail one by one.
//!
//! | output, FROM | TO | by |
//! |---|---|---|
//! | - | open | [`SnapshotOutput::begin`] |
//! | open | complete | [`SnapshotOutput::finish`] |
//! | open | failed | an error, or the output delays the pass for too long; dropped at once |
//! | open | - | the pass fails or is cancelled; dropped |

use std::io;
use std::sync::Arc;

use base::DbIndex;
use keyspace::CutDatabase;
use rdb::Checksum;

use super::pass::{SaveError, Saved};

/// Receives a snapshot as the bytes of an RDB file, from one thread at a time and never under a latch. Dropped before it is
/// complete, it leaves nothing of what it has received.
pub trait SnapshotOutput: Send {
    /// Prepares for the first bytes. The cut is made by then.
    ///
    /// # Errors
    /// It receives nothing.
    fn begin(&mut self) -> Result<(), OutputError>;

    /// Whether it takes bytes now. The pass waits while it does not, but no longer than clients can change data meanwhile: an output
    /// whose receiver is gone must become ready and fail. One that is always ready may block in the other functions; the
    /// other outputs then wait for it.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Takes the next bytes. It must take them even if it is not ready, or fail.
    ///
    /// # Errors
    /// It receives no more, and is dropped. The pass continues for the other outputs.
    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError>;

    /// All bytes were written: puts them in effect.
    ///
    /// # Errors
    /// Its snapshot has failed.
    fn finish(&mut self) -> Result<(), OutputError>;
}

/// Why an output has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("can't {action}: {source}")]
pub struct OutputError {
    /// The operation.
    pub action: String,
    /// The system's error.
    pub source: Arc<io::Error>,
}

impl OutputError {
    /// An error of the system in an operation.
    #[must_use]
    pub fn new(action: impl Into<String>, source: io::Error) -> Self {
        Self { action: action.into(), source: Arc::new(source) }
    }
}

/// Runs with the result of one output, at the end of the pass.
pub type Done = Box<dyn FnOnce(Result<Saved, SaveError>) + Send>;

/// An output, and what follows its end.
pub struct Recipient {
    /// Receives the bytes.
    pub output: Box<dyn SnapshotOutput>,
    /// Runs at the end, when the next snapshot can begin.
    pub done: Done,
}

/// The outputs of a pass, which receive the same bytes.
pub(super) struct Outputs {
    /// For each output itself, or why it has failed.
    outputs: Vec<Result<Box<dyn SnapshotOutput>, SaveError>>,
    checksum: Option<Checksum>,
    size: u64,
    /// The database of the last record.
    selected: Option<DbIndex>,
    /// For each database of the cut, whether its size was written.
    is_announced: Vec<bool>,
}

impl Outputs {
    /// Begins the outputs.
    pub(super) fn begin(outputs: Vec<Box<dyn SnapshotOutput>>, has_checksum: bool, db_count: usize) -> Self {
        let begin = |mut output: Box<dyn SnapshotOutput>| match output.begin() {
            Ok(()) => Ok(output),
            Err(error) => Err(error.into()),
        };
        Self {
            outputs: outputs.into_iter().map(begin).collect(),
            checksum: has_checksum.then(Checksum::new),
            size: 0,
            selected: None,
            is_announced: vec![false; db_count],
        }
    }

    /// Whether all outputs take bytes now.
    pub(super) fn are_ready(&mut self) -> bool {
        self.live().all(|output| output.is_ready())
    }

    /// Ends the outputs that do not take bytes now: the pass can't wait for them.
    pub(super) fn fail_slow(&mut self) {
        self.each(|output| match output.is_ready() {
            true => Ok(()),
            false => {
                let error = io::Error::new(io::ErrorKind::TimedOut, "it is too slow");
                Err(OutputError::new("send the snapshot", error))
            }
        });
    }

    /// Selects a database of the cut, and writes its size the first time.
    pub(super) fn select(&mut self, db: DbIndex, databases: &[CutDatabase]) {
        if self.selected == Some(db) {
            return;
        }
        self.selected = Some(db);
        let mut bytes = Vec::new();
        rdb::write_select(db.0.into(), &mut bytes);
        if let Some(place) = databases.iter().position(|database| database.db == db)
            && !std::mem::replace(&mut self.is_announced[place], true)
        {
            let population = databases[place].population;
            rdb::write_resize(population.keys, population.volatile, &mut bytes);
        }
        self.write(&bytes);
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.have_failed() {
            return;
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        self.size += bytes.len() as u64;
        self.each(|output| output.write(bytes));
    }

    /// Ends all outputs that have not failed, because the pass has.
    pub(super) fn fail(&mut self, error: &SaveError) {
        for output in self.outputs.iter_mut().filter(|output| output.is_ok()) {
            *output = Err(error.clone());
        }
    }

    /// Whether no output receives anything any more.
    pub(super) fn have_failed(&self) -> bool {
        self.outputs.iter().all(Result::is_err)
    }

    /// Writes the end mark and the checksum, and completes the outputs.
    pub(super) fn finish(&mut self) {
        let mut end = Vec::new();
        rdb::write_end(&mut end);
        self.write(&end);
        let checksum = self.checksum.take().map_or(0, |checksum| checksum.value());
        self.write(&checksum.to_le_bytes());
        self.each(|output| output.finish());
    }

    /// The result of each output, of which the complete ones have so many keys.
    pub(super) fn results(&mut self, key_count: u64) -> Vec<Result<Saved, SaveError>> {
        let size = self.size;
        self.outputs.drain(..).map(|output| output.map(|_| Saved { key_count, size })).collect()
    }

    fn live(&mut self) -> impl Iterator<Item = &mut Box<dyn SnapshotOutput>> {
        self.outputs.iter_mut().filter_map(|output| output.as_mut().ok())
    }

    /// Takes a step of each output that has not failed. One that fails is dropped.
    fn each(&mut self, mut step: impl FnMut(&mut dyn SnapshotOutput) -> Result<(), OutputError>) {
        for output in &mut self.outputs {
            if let Ok(live) = output
                && let Err(error) = step(live.as_mut())
            {
                *output = Err(error.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use sync::Mutex;

    use super::*;

    /// What an output has received, and whether it is complete.
    type Received = Arc<Mutex<(Vec<u8>, bool)>>;

    struct TestOutput {
        received: Received,
        /// The number of writes after which it fails.
        write_count_max: usize,
        /// How often it is asked before it is ready.
        delay: usize,
    }

    impl SnapshotOutput for TestOutput {
        fn begin(&mut self) -> Result<(), OutputError> {
            Ok(())
        }

        fn is_ready(&mut self) -> bool {
            self.delay = self.delay.saturating_sub(1);
            self.delay == 0
        }

        fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
            if self.write_count_max == 0 {
                return Err(OutputError::new("write", io::ErrorKind::BrokenPipe.into()));
            }
            self.write_count_max -= 1;
            self.received.lock().unwrap_or_else(PoisonError::into_inner).0.extend(bytes);
            Ok(())
        }

        fn finish(&mut self) -> Result<(), OutputError> {
            self.received.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
            Ok(())
        }
    }

    /// Outputs that fail after these numbers of writes, and are ready after so many questions.
    fn begin(outputs: &[(usize, usize)]) -> (Outputs, Vec<Received>) {
        let received: Vec<Received> = outputs.iter().map(|_| Received::default()).collect();
        let output = |(&(write_count_max, delay), received): (&(usize, usize), &Received)| {
            let received = Arc::clone(received);
            Box::new(TestOutput { received, write_count_max, delay }) as Box<dyn SnapshotOutput>
        };
        let outputs = outputs.iter().zip(&received).map(output).collect();
        (Outputs::begin(outputs, true, 0), received)
    }

    fn check(outputs: &mut Outputs, received: &[Received], complete: &[bool]) {
        for part in 0..4_u8 {
            outputs.write(&[part]);
        }
        outputs.finish();
        let results = outputs.results(1);
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), complete);
        for (received, is_complete) in received.iter().zip(complete) {
            let received = received.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(received.1, *is_complete);
            // Four bytes, the end mark and the checksum.
            assert!(!is_complete || received.0.starts_with(&[0, 1, 2, 3]) && received.0.len() == 13);
        }
    }

    #[test]
    fn outputs_fail_one_by_one() {
        let (mut outputs, received) = begin(&[(100, 0), (2, 0), (100, 0), (0, 0)]);
        check(&mut outputs, &received, &[true, false, true, false]);
        let (mut outputs, _) = begin(&[(0, 0), (1, 0)]);
        outputs.write(b"x");
        assert!(!outputs.have_failed());
        outputs.write(b"x");
        assert!(outputs.have_failed());
    }

    #[test]
    fn an_output_that_is_not_ready_is_awaited_until_it_is_too_slow() {
        let (mut outputs, received) = begin(&[(100, 3), (100, 9), (100, 0)]);
        assert_eq!([(); 3].map(|()| outputs.are_ready()), [false, false, false]);
        outputs.fail_slow();
        assert!(outputs.are_ready());
        check(&mut outputs, &received, &[true, false, true]);
    }
}
