//! The writer over a disk that fails: data reported as durable exists after a crash.

mod states;

use std::io;
use std::path::{Path, PathBuf};

use base::DbIndex;
use rdb::Limits;
use sync::atomic::{AtomicBool, AtomicU64};
use sync::write_log::{Audience, LogWake, LogWriter, Record, WriteLog};
use sync::{Condvar, Mutex};

use super::*;
use crate::disk::crashing::{CrashingDisk, CrashingFile, Failing};
use crate::disk::{Disk, DiskFile};
use crate::files::Layout;
use crate::manifest::BaseFormat;
use crate::snapshots::{Busy, SnapshotId};

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

/// A server that has only a log. Its snapshots fail.
struct TestHost {
    log: Arc<WriteLog>,
    append_only: AppendOnly,
    config: Mutex<Arc<Config>>,
    generation: AtomicU64,
    are_writes_refused: AtomicBool,
    has_snapshot: AtomicBool,
    /// The events of the latency monitor.
    latencies: Mutex<Vec<&'static str>>,
}

impl TestHost {
    fn leak(config: Config) -> &'static Self {
        let append_only = AppendOnly::new(|_| ());
        let signal = append_only.signal();
        let wake = move |wake| match wake {
            LogWake::Reader(_) => signal.set(),
            LogWake::Writer(_) => {}
        };
        let capacity = config.write_log_size.next_power_of_two() as usize;
        Box::leak(Box::new(Self {
            log: Arc::new(WriteLog::new(Lsn(0), capacity, 1, wake)),
            append_only,
            config: Mutex::new(Arc::new(config)),
            generation: AtomicU64::new(0),
            are_writes_refused: AtomicBool::new(false),
            has_snapshot: AtomicBool::new(false),
            latencies: Mutex::default(),
        }))
    }

    fn with(appendfsync: Appendfsync) -> &'static Self {
        Self::leak(Config { appendonly: true, appendfsync, ..Config::default() })
    }

    fn publish(&self, config: Config) {
        *self.config.lock().unwrap() = Arc::new(config);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn is_refused(&self) -> bool {
        self.are_writes_refused.load(Ordering::Acquire)
    }

    fn set_busy(&self, is_busy: bool) {
        self.has_snapshot.store(is_busy, Ordering::Release);
    }

    fn end(&self) -> bool {
        self.append_only.end(self.log.end())
    }
}

impl WriterHost for TestHost {
    fn log(&self) -> &Arc<WriteLog> {
        &self.log
    }

    fn append_only(&self) -> &AppendOnly {
        &self.append_only
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.lock().unwrap())
    }

    fn config_generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn working_directory(&self) -> PathBuf {
        layout().parent
    }

    fn value_limits(&self) -> Limits {
        unreachable!("no base is complete")
    }

    fn refuse_writes(&self, are_refused: bool) {
        self.are_writes_refused.store(are_refused, Ordering::Release);
    }

    fn note_latency(&self, event: &'static str, ms: u64) {
        let threshold = self.config().latency_monitor_threshold;
        if threshold > 0 && ms >= threshold {
            self.latencies.lock().unwrap().push(event);
        }
    }

    fn stream_offset(&self, _lsn: Lsn) -> Option<crate::stream::StreamOffset> {
        None
    }

    fn is_loading(&self) -> bool {
        false
    }

    fn has_snapshot(&self) -> bool {
        self.has_snapshot.load(Ordering::Acquire)
    }

    fn begin_base(&'static self, request: BaseRequest) -> Result<SnapshotId, Busy> {
        (request.at_cut)();
        (request.done)(Err("this server has no data".to_owned()));
        Ok(SnapshotId(1))
    }

    fn cancel_base(&self, _: SnapshotId) {}
}

fn record(number: u64) -> Vec<u8> {
    format!("{number:07}\n").into_bytes()
}

/// The thread under test, and a writer of the log that it reads.
struct Rig {
    host: &'static TestHost,
    writer: LogWriter,
}

impl Rig {
    fn start<D>(host: &'static TestHost, files: AppendOnlyFiles<D>) -> Self
    where
        D: Disk + Clone + Send + 'static,
        D::File: Send,
    {
        let log = &host.log;
        let writer = log.writer(0);
        Writer::start(host, files, log.attach(0, Audience::File).unwrap()).unwrap();
        Self { host, writer }
    }

    fn append(&mut self, number: u64) -> Lsn {
        let bytes = record(number);
        let parts = [bytes.as_slice()];
        let record = Record { database: Some(DbIndex(0)), ..Record::new(&parts) };
        let appended = self.writer.append(&record).expect("the log has a reader");
        self.writer.notify();
        appended.end
    }

    /// Ends the thread. Returns whether the file has all changes.
    fn stop(self) -> bool {
        self.host.end()
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
    let host = TestHost::with(Appendfsync::Always);
    let files = new_files(&disk);
    let before = disk.operation_count();
    disk.set_failing(match failing {
        Failing::Only(operation) => Failing::Only(before + operation),
        other => other,
    });
    let mut rig = Rig::start(host, files);
    let mut expected = Vec::new();
    for number in 0..RECORD_COUNT {
        let end = rig.append(number);
        await_that(|| host.append_only.durable.end() >= end);
        expected.extend(record(number));
        let found = recovered(&disk);
        assert!(found.starts_with(&expected), "{failing:?}, record {number}: {}", found.escape_ascii());
    }
    assert!(rig.stop());
    assert_eq!(recovered(&disk), expected, "{failing:?}");
    assert_eq!(host.append_only.failure(), None);
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
    let host = TestHost::with(Appendfsync::Everysec);
    let files = new_files(&disk);
    let mut rig = Rig::start(host, files);
    let end = rig.append(0);
    await_that(|| host.append_only.figures.written.load(Ordering::Relaxed) == end.0);
    disk.set_failing(Failing::From(0));
    rig.append(1);
    await_that(|| host.is_refused());
    assert!(host.append_only.failure().is_some());
    disk.set_failing(Failing::Nothing);
    await_that(|| !host.is_refused());
    rig.append(2);
    rig.stop();
    assert_eq!(recovered(&disk), [record(0), record(1), record(2)].concat());
}

#[test]
fn writes_are_refused_until_a_write_succeeds_on_a_full_disk() {
    let disk = CrashingDisk::new(5, Failing::Nothing);
    let host = TestHost::with(Appendfsync::Everysec);
    let files = new_files(&disk);
    let mut rig = Rig::start(host, files);
    disk.set_failing(Failing::Appends(0));
    rig.append(0);
    await_that(|| host.is_refused());
    // Each attempt cuts the file, which succeeds, and appends, which fails.
    let tried = disk.operation_count() + 20;
    await_that(|| {
        assert!(host.is_refused());
        disk.operation_count() > tried
    });
    disk.set_failing(Failing::Nothing);
    await_that(|| !host.is_refused());
    rig.stop();
    assert_eq!(recovered(&disk), record(0));
}

#[test]
fn the_thread_ends_on_a_full_disk() {
    for is_failing_before in [false, true] {
        let disk = CrashingDisk::new(6, Failing::Nothing);
        let host = TestHost::with(Appendfsync::Everysec);
        let files = new_files(&disk);
        let mut rig = Rig::start(host, files);
        disk.set_failing(Failing::Appends(0));
        rig.append(0);
        if is_failing_before {
            await_that(|| host.is_refused());
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
    let host = TestHost::leak(config);
    let files = new_files(&disk);
    disk.gate.set_closed(true);
    let mut rig = Rig::start(host, files);
    rig.append(0);
    await_that(|| disk.gate.waiting.load(Ordering::Relaxed) > 0);
    let mut number = 1;
    while host.log.has_room(64) {
        rig.append(number);
        number += 1;
    }
    assert!(number > (1 << 20) / 10, "{number} records of 8 bytes");
    assert_eq!(host.append_only.failure(), None);
    let figures = &host.append_only.figures;
    await_that(|| {
        check_sync(host, Uptime::now());
        figures.delayed_syncs.load(Ordering::Relaxed) > 0
    });
    assert!(figures.syncing.is_under_way());
    assert!(host.latencies.lock().unwrap().contains(&"aof-fsync-everysec"));
    check_sync(host, Uptime::now());
    assert_eq!(figures.delayed_syncs.load(Ordering::Relaxed), 1);
    disk.gate.set_closed(false);
    await_that(|| host.log.has_room(64));
    rig.stop();
    assert!(!figures.syncing.is_under_way());
    let expected: Vec<u8> = (0..number).flat_map(record).collect();
    assert!(recovered(&disk.disk) == expected);
}

/// A thread that is in the sync of the first record, and takes no order until the disk's gate opens. Returns the end of the record, too.
fn syncing_rig() -> (SlowDisk, &'static TestHost, Rig, Lsn) {
    let disk = SlowDisk { disk: CrashingDisk::new(5, Failing::Nothing), gate: Arc::default() };
    let host = TestHost::with(Appendfsync::Always);
    let files = new_files(&disk);
    disk.gate.set_closed(true);
    let mut rig = Rig::start(host, files);
    let end = rig.append(0);
    await_that(|| disk.gate.waiting.load(Ordering::Relaxed) == 1);
    (disk, host, rig, end)
}

#[test]
fn a_file_that_is_switched_off_has_no_later_changes() {
    let (disk, host, mut rig, _) = syncing_rig();
    rig.append(1);
    host.append_only.switch_off(|| host.log.end());
    rig.append(2);
    disk.gate.set_closed(false);
    assert!(rig.stop());
    assert_eq!(recovered(&disk.disk), [record(0), record(1)].concat());
}

/// A file that is switched off and on again has no base yet while the thread before completes its own file.
#[test]
fn the_end_of_the_thread_before_makes_nothing_of_its_successor_durable() {
    let (disk, host, rig, end) = syncing_rig();
    host.append_only.switch_off(|| host.log.end());
    let former = host.append_only.take_thread().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let awaited = Arc::clone(&is_over);
    Writer::<SlowDisk>::start_later(host, Purpose::SwitchOn, move |_| {
        await_that(|| awaited.load(Ordering::Acquire));
        None
    })
    .unwrap();
    assert!(!host.append_only.is_durable(end));
    disk.gate.set_closed(false);
    assert!(former.join(&host.append_only, end));
    assert_eq!(host.append_only.durable.end(), end);
    assert!(!host.append_only.is_durable(end));
    is_over.store(true, Ordering::Release);
    rig.stop();
}

#[test]
fn the_cut_of_a_rewrite_that_has_ended_is_ignored() {
    let append_only = &TestHost::with(Appendfsync::Everysec).append_only;
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
