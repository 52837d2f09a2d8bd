//! The writer over a disk that fails: data reported as durable exists after a crash.

mod states;

use std::io;
use std::path::Path;

use base::{DbIndex, Lsn};
use commands::acl::Users;
use commands::table::CATALOGUE;
use config::Config;
use persist::disk::crashing::{CrashingDisk, CrashingFile, Failing};
use persist::disk::{Disk, DiskFile};
use persist::files::{AppendOnlyFiles, Layout};
use persist::manifest::BaseFormat;
use sync::atomic::AtomicU64;
use sync::write_log::{LogWriter, Record};
use sync::{Condvar, Mutex};

use super::*;
use crate::connection::listeners::ListenSockets;
use crate::process::identity::Identity;
use crate::shared::modes::GlobalFlags;

const RECORD_COUNT: u64 = 12;

fn layout() -> Layout {
    Layout { parent: "data".into(), directory: "aof".into(), stem: b"a".to_vec() }
}

fn new_files<D: Disk + Clone>(disk: &D) -> AppendOnlyFiles<D> {
    disk.create_directory(&layout().parent).unwrap();
    disk.sync_directory(std::path::Path::new("")).unwrap();
    let mut files = AppendOnlyFiles::open(disk.clone(), layout()).unwrap();
    files.start().unwrap();
    let mut base = files.create_base().unwrap();
    base.append(b"base").unwrap();
    files.finish_rewrite(base, BaseFormat::Rdb).unwrap();
    files.sync().unwrap();
    files
}

fn shared_with(appendfsync: Appendfsync) -> &'static Shared {
    leak(Config { appendonly: true, appendfsync, ..Config::default() })
}

fn leak(config: Config) -> &'static Shared {
    let (identity, users) = (Identity::new(None, "broadloom".to_owned(), None), Users::new(&CATALOGUE));
    Shared::leak(config, users, &[], identity, ListenSockets::default(), crate::worker::start)
}

fn record(number: u64) -> Vec<u8> {
    format!("{number:07}\n").into_bytes()
}

/// The thread under test, and a writer of the log that it reads.
struct Rig {
    shared: &'static Shared,
    writer: LogWriter,
}

impl Rig {
    fn start<D>(shared: &'static Shared, files: AppendOnlyFiles<D>) -> Self
    where
        D: Disk + Send + 'static,
        D::File: Send,
    {
        let log = &shared.keyspace.log;
        let writer = log.writer(0);
        Writer::start(shared, files, log.attach(0).unwrap()).unwrap();
        Self { shared, writer }
    }

    fn append(&mut self, number: u64) -> Lsn {
        let record =
            Record { database: Some(DbIndex(0)), leaves: None, select: b"", parts: &[&record(number)] };
        let appended = self.writer.append(&record).expect("the log has a reader");
        self.writer.notify();
        appended.end
    }

    /// Ends the thread. Returns whether the file has all changes.
    fn stop(self) -> bool {
        crate::persistence::append_only::end(self.shared)
    }
}

/// The contents of the increments after a crash.
fn recovered(disk: &CrashingDisk) -> Vec<u8> {
    let files = AppendOnlyFiles::open(disk.crash(), layout()).unwrap();
    let mut bytes = Vec::new();
    for increment in &files.manifest().increments {
        let file = files.open_file(&increment.name).unwrap();
        let start = bytes.len();
        bytes.resize(start + file.size().unwrap() as usize, 0);
        assert_eq!(file.read_at(0, &mut bytes[start..]).unwrap(), bytes.len() - start);
    }
    bytes
}

/// A disk whose syncs take as long as the gate is closed.
#[derive(Clone)]
struct SlowDisk {
    disk: CrashingDisk,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
}

struct SlowFile(CrashingFile, Arc<Gate>);

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut is_closed = self.is_closed.lock().unwrap();
        while *is_closed {
            is_closed = self.opened.wait(is_closed).unwrap();
        }
        drop(is_closed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Disk for SlowDisk {
    type File = SlowFile;

    fn open(&self, path: &Path) -> io::Result<SlowFile> {
        self.disk.open(path).map(|file| SlowFile(file, Arc::clone(&self.gate)))
    }

    fn create(&self, path: &Path) -> io::Result<SlowFile> {
        self.disk.create(path).map(|file| SlowFile(file, Arc::clone(&self.gate)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
        self.disk.list(path)
    }
}

impl DiskFile for SlowFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.0.truncate(size)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }
}

fn await_that(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Appends records one after the other, each once the one before is durable, on a disk of which one operation fails.
/// Returns the number of operations.
fn check_always(failing: Failing) -> u64 {
    let disk = CrashingDisk::new(7, Failing::Nothing);
    let shared = shared_with(Appendfsync::Always);
    let files = new_files(&disk);
    let before = disk.operation_count();
    disk.set_failing(match failing {
        Failing::Only(operation) => Failing::Only(before + operation),
        other => other,
    });
    let mut rig = Rig::start(shared, files);
    let mut expected = Vec::new();
    for number in 0..RECORD_COUNT {
        let end = rig.append(number);
        await_that(|| shared.persistence.durable.end() >= end);
        expected.extend(record(number));
        let found = recovered(&disk);
        assert!(found.starts_with(&expected), "{failing:?}, record {number}: {}", found.escape_ascii());
    }
    assert!(rig.stop());
    assert_eq!(recovered(&disk), expected, "{failing:?}");
    assert_eq!(shared.persistence.append_only.failure(), None);
    disk.operation_count() - before
}

#[test]
fn durable_records_survive_crashes_and_failures() {
    let count = check_always(Failing::Nothing);
    assert!(count >= 2 * RECORD_COUNT, "{count}");
    for operation in 0..count {
        check_always(Failing::Only(operation));
    }
}

#[test]
fn writes_are_refused_while_the_disk_fails_without_loss() {
    let disk = CrashingDisk::new(3, Failing::Nothing);
    let shared = shared_with(Appendfsync::Everysec);
    let files = new_files(&disk);
    let mut rig = Rig::start(shared, files);
    let end = rig.append(0);
    await_that(|| shared.persistence.append_only.figures.written.load(Ordering::Relaxed) == end.0);
    disk.set_failing(Failing::From(0));
    rig.append(1);
    await_that(|| shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED));
    assert!(shared.persistence.append_only.failure().is_some());
    disk.set_failing(Failing::Nothing);
    await_that(|| !shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED));
    rig.append(2);
    rig.stop();
    assert_eq!(recovered(&disk), [record(0), record(1), record(2)].concat());
}

#[test]
fn writes_are_refused_until_a_write_succeeds_on_a_full_disk() {
    let disk = CrashingDisk::new(5, Failing::Nothing);
    let shared = shared_with(Appendfsync::Everysec);
    let files = new_files(&disk);
    let mut rig = Rig::start(shared, files);
    disk.set_failing(Failing::Appends(0));
    rig.append(0);
    let is_refused = || shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED);
    await_that(is_refused);
    // Each attempt cuts the file, which succeeds, and appends, which fails.
    let tried = disk.operation_count() + 20;
    await_that(|| {
        assert!(is_refused());
        disk.operation_count() > tried
    });
    disk.set_failing(Failing::Nothing);
    await_that(|| !is_refused());
    rig.stop();
    assert_eq!(recovered(&disk), record(0));
}

#[test]
fn the_thread_ends_on_a_full_disk() {
    for is_failing_before in [false, true] {
        let disk = CrashingDisk::new(6, Failing::Nothing);
        let shared = shared_with(Appendfsync::Everysec);
        let files = new_files(&disk);
        let mut rig = Rig::start(shared, files);
        disk.set_failing(Failing::Appends(0));
        rig.append(0);
        if is_failing_before {
            await_that(|| shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED));
        }
        assert!(!rig.stop(), "the file lacks the record");
        assert_eq!(recovered(&disk), b"", "only whole records");
    }
}

/// While a sync takes long, changes are accepted up to the size of the log's buffer. Then writers wait before they latch,
/// until the disk has caught up. The delay is counted and shown as latency while the sync still hangs, once.
#[test]
fn a_slow_disk_holds_writers_back_only_when_the_buffer_is_full() {
    let disk = SlowDisk { disk: CrashingDisk::new(5, Failing::Nothing), gate: Arc::default() };
    let config = Config {
        appendonly: true,
        appendfsync: Appendfsync::Everysec,
        write_log_size: 1 << 20,
        latency_monitor_threshold: 1,
        ..Config::default()
    };
    let shared = leak(config);
    let files = new_files(&disk);
    disk.gate.set_closed(true);
    let mut rig = Rig::start(shared, files);
    rig.append(0);
    await_that(|| disk.gate.waiting.load(Ordering::Relaxed) > 0);
    let mut number = 1;
    while shared.keyspace.log.has_room(64) {
        rig.append(number);
        number += 1;
    }
    assert!(number > (1 << 20) / 10, "{number} records of 8 bytes");
    assert_eq!(shared.persistence.append_only.failure(), None);
    let figures = &shared.persistence.append_only.figures;
    await_that(|| {
        shared.check_sync(Uptime::now());
        figures.delayed_syncs.load(Ordering::Relaxed) > 0
    });
    assert!(figures.syncing.is_under_way());
    assert!(shared.monitoring.latency.all().iter().any(|event| event.name == "aof-fsync-everysec"));
    shared.check_sync(Uptime::now());
    assert_eq!(figures.delayed_syncs.load(Ordering::Relaxed), 1);
    disk.gate.set_closed(false);
    await_that(|| shared.keyspace.log.has_room(64));
    rig.stop();
    assert!(!figures.syncing.is_under_way());
    let expected: Vec<u8> = (0..number).flat_map(record).collect();
    assert!(recovered(&disk.disk) == expected);
}

#[test]
fn a_file_that_is_switched_off_has_no_later_changes() {
    let disk = SlowDisk { disk: CrashingDisk::new(5, Failing::Nothing), gate: Arc::default() };
    let shared = shared_with(Appendfsync::Always);
    let files = new_files(&disk);
    disk.gate.set_closed(true);
    let mut rig = Rig::start(shared, files);
    rig.append(0);
    await_that(|| disk.gate.waiting.load(Ordering::Relaxed) == 1);
    // The thread is in a sync, and takes no order meanwhile.
    rig.append(1);
    crate::persistence::append_only::switch_off(shared);
    rig.append(2);
    disk.gate.set_closed(false);
    assert!(rig.stop());
    assert_eq!(recovered(&disk.disk), [record(0), record(1)].concat());
}

#[test]
fn the_cut_of_a_rewrite_that_has_ended_is_ignored() {
    let append_only = &shared_with(Appendfsync::Everysec).persistence.append_only;
    let reach_cut_of = |number| append_only.at_cut(number, || append_only.set_cut(Lsn(number)));
    append_only.expect_cut(1);
    append_only.clear_cut();
    reach_cut_of(1);
    assert_eq!(append_only.cut(), None);
    append_only.expect_cut(2);
    reach_cut_of(1);
    assert_eq!(append_only.cut(), None);
    reach_cut_of(2);
    assert_eq!(append_only.cut(), Some(Lsn(2)));
    append_only.clear_cut();
    reach_cut_of(2);
    assert_eq!(append_only.cut(), None);
}
