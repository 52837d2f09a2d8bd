//! One pass over the data for several outputs, of which some are slow and some fail.

use std::io;
use std::sync::{Arc, Mutex, mpsc};

use base::DbIndex;
use collections::{ExpiryChange, NewValue};
use config::Config;
use keyspace::{Key, Keyspace, Latching};
use persist::snapshots::{
    LatchWakes, OutputError, Recipient, Request, SaveError, Saved, ServerVersions, Settings, SnapshotOutput,
    SnapshotPurpose, Snapshots,
};
use rdb::{Cut, Cutter, Event};
use sync::Mode;

const KEY_COUNT: u64 = 20_000;

/// The number of bytes after which an output fails.
const FAILING_SIZE: usize = 100_000;

struct TestOutput {
    received: Arc<Mutex<Vec<u8>>>,
    size_max: usize,
    /// How often it is asked before it is ready; again after each write.
    delay: u32,
    asked: u32,
}

impl SnapshotOutput for TestOutput {
    fn begin(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn is_ready(&mut self) -> bool {
        self.asked += 1;
        self.asked > self.delay
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.asked = 0;
        let mut received = self.received.lock().expect("no test panics with it");
        received.extend(bytes);
        match received.len() > self.size_max {
            true => Err(OutputError::new("send", io::ErrorKind::BrokenPipe.into())),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

fn filled_keyspace(wakes: &'static LatchWakes) -> &'static Keyspace {
    let keyspace: &'static Keyspace =
        Box::leak(Box::new(Keyspace::new(1, [1, 2, 3, 4], move |token| _ = wakes.wake(token))));
    let mut latching = Latching::new(keyspace, 0, 7);
    for number in 0..KEY_COUNT {
        let name = number.to_string();
        let key = Key::new(keyspace.hasher(), name.as_bytes(), DbIndex(0));
        latching.latch(key.slot, Mode::Write).expect("no other session holds a latch");
        latching.set(key, NewValue::Raw(&[b'x'; 20]), ExpiryChange::Clear);
        latching.release();
    }
    keyspace
}

fn key_count(mut bytes: &[u8]) -> u64 {
    let mut cutter = Cutter::new(true);
    let mut count = 0;
    loop {
        let Cut { event, size } = cutter.next(bytes).expect("a valid file").expect("a complete file");
        bytes = &bytes[size..];
        match event {
            Event::Key(_) => count += 1,
            Event::End { .. } => return count,
            _ => {}
        }
    }
}

/// Takes a snapshot for outputs with a size at which they fail, and a delay. Returns their results, and what they have received.
fn snapshot(outputs: &[(usize, u32)]) -> Vec<(Result<Saved, SaveError>, Vec<u8>)> {
    let wakes: &'static LatchWakes = Box::leak(Box::default());
    let versions = ServerVersions { redis: "7.2", valkey: "8.1" };
    let snapshots: &'static Snapshots = Box::leak(Box::new(Snapshots::new(wakes, versions, 0)));
    snapshots.connect(filled_keyspace(wakes));
    let mut ends = Vec::new();
    let recipient = |&(size_max, delay): &(usize, u32)| {
        let received = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = mpsc::channel();
        ends.push((receiver, Arc::clone(&received)));
        Recipient {
            output: Box::new(TestOutput { received, size_max, delay, asked: 0 }),
            done: Box::new(move |result| _ = sender.send(result)),
        }
    };
    let config = Config { snapshot_cpu_percent: 100, snapshot_threads: 2, ..Config::default() };
    let request = Request {
        purpose: SnapshotPurpose::Base,
        recipients: outputs.iter().map(recipient).collect(),
        settings: Settings::of(&config, 0, (0, 1 << 30)),
        at_cut: Box::new(Vec::new),
    };
    snapshots.begin(request).expect("no other snapshot is being taken");
    let end = |(receiver, received): (mpsc::Receiver<_>, Arc<Mutex<Vec<u8>>>)| {
        (receiver.recv().expect("a result"), received.lock().expect("no test panics with it").clone())
    };
    let results = ends.into_iter().map(end).collect();
    assert!(!snapshots.is_busy());
    results
}

#[test]
fn a_pass_continues_without_the_outputs_that_fail() {
    let results = snapshot(&[(usize::MAX, 0), (FAILING_SIZE, 0), (usize::MAX, 3), (0, 0)]);
    let [(whole, bytes), (failed, _), (slow, same), (first, _)] = &results[..] else {
        panic!("four outputs")
    };
    assert_eq!(
        whole.as_ref().expect("it has not failed"),
        &Saved { key_count: KEY_COUNT, size: bytes.len() as u64 }
    );
    assert_eq!(slow.as_ref().expect("it has not failed"), whole.as_ref().expect("it has not failed"));
    assert!(bytes == same && key_count(bytes) == KEY_COUNT);
    for failed in [failed, first] {
        assert!(matches!(failed, Err(SaveError::Output(_))), "{failed:?}");
    }
}

#[test]
fn a_pass_ends_when_all_outputs_have_failed() {
    let results = snapshot(&[(0, 0), (FAILING_SIZE, 1)]);
    assert!(results.iter().all(|(result, _)| matches!(result, Err(SaveError::Output(_)))));
}
