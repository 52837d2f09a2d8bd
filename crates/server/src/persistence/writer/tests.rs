//! The writer over a disk that fails: what it says to be durable is there after a crash.

use base::{DbIndex, Lsn};
use commands::acl::Users;
use commands::table::CATALOGUE;
use config::Config;
use persist::disk::DiskFile;
use persist::disk::crashing::{CrashingDisk, Failing};
use persist::files::{AppendOnlyFiles, Layout};
use persist::manifest::BaseFormat;
use sync::write_log::{LogWriter, Record};

use super::*;
use crate::connection::listeners::ListenSockets;
use crate::process::identity::Identity;
use crate::shared::modes::GlobalFlags;

const RECORD_COUNT: u64 = 12;

fn layout() -> Layout {
    Layout { parent: "data".into(), directory: "aof".into(), stem: b"a".to_vec() }
}

fn new_files(disk: &CrashingDisk) -> AppendOnlyFiles<CrashingDisk> {
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
    let config = Config { appendonly: true, appendfsync, ..Config::default() };
    let (identity, users) = (Identity::new(None, "broadloom".to_owned(), None), Users::new(&CATALOGUE));
    Shared::leak(config, users, &[], identity, ListenSockets::default(), crate::worker::start)
}

fn record(number: u64) -> Vec<u8> {
    format!("{number:07}\n").into_bytes()
}

fn append(log: &mut LogWriter, number: u64) -> Lsn {
    let record = Record { database: Some(DbIndex(0)), leaves: None, select: b"", parts: &[&record(number)] };
    let appended = log.append(&record).expect("the log has a reader");
    log.notify();
    appended.end
}

/// The contents of the increment after a crash.
fn recovered(disk: &CrashingDisk) -> Vec<u8> {
    let files = AppendOnlyFiles::open(disk.crash(), layout()).unwrap();
    let name = &files.manifest().increments.last().expect("an increment").name;
    let file = files.open_file(name).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
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
    let log = &shared.keyspace.log;
    let mut writer = log.writer(0);
    let thread = Writer::start(shared, files, log.attach(0)).unwrap();
    let mut expected = Vec::new();
    for number in 0..RECORD_COUNT {
        let end = append(&mut writer, number);
        await_that(|| shared.persistence.durable.end() >= end);
        expected.extend(record(number));
        let found = recovered(&disk);
        assert!(found.starts_with(&expected), "{failing:?}, record {number}: {}", found.escape_ascii());
    }
    shared.persistence.append_only.order(Order::Stop);
    thread.join().unwrap();
    assert_eq!(recovered(&disk), expected, "{failing:?}");
    assert_eq!(shared.persistence.append_only.failure(), None);
    disk.operation_count() - before
}

#[test]
fn what_is_durable_survives_a_crash_whatever_fails() {
    let count = check_always(Failing::Nothing);
    assert!(count >= 2 * RECORD_COUNT, "{count}");
    for operation in 0..count {
        check_always(Failing::Only(operation));
    }
}

#[test]
fn writes_are_refused_while_the_disk_fails_and_nothing_is_lost() {
    let disk = CrashingDisk::new(3, Failing::Nothing);
    let shared = shared_with(Appendfsync::Everysec);
    let files = new_files(&disk);
    let log = &shared.keyspace.log;
    let mut writer = log.writer(0);
    let thread = Writer::start(shared, files, log.attach(0)).unwrap();
    let end = append(&mut writer, 0);
    await_that(|| shared.persistence.append_only.figures.written.load(Ordering::Relaxed) == end.0);
    disk.set_failing(Failing::From(0));
    append(&mut writer, 1);
    await_that(|| shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED));
    assert!(shared.persistence.append_only.failure().is_some());
    disk.set_failing(Failing::Nothing);
    await_that(|| !shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED));
    append(&mut writer, 2);
    shared.persistence.append_only.order(Order::Stop);
    thread.join().unwrap();
    assert_eq!(recovered(&disk), [record(0), record(1), record(2)].concat());
}

#[test]
fn writes_are_refused_until_a_write_succeeds_on_a_full_disk() {
    let disk = CrashingDisk::new(5, Failing::Nothing);
    let shared = shared_with(Appendfsync::Everysec);
    let files = new_files(&disk);
    let log = &shared.keyspace.log;
    let mut writer = log.writer(0);
    let thread = Writer::start(shared, files, log.attach(0)).unwrap();
    disk.set_failing(Failing::Appends);
    append(&mut writer, 0);
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
    shared.persistence.append_only.order(Order::Stop);
    thread.join().unwrap();
    assert_eq!(recovered(&disk), record(0));
}

#[test]
fn the_thread_ends_on_a_full_disk() {
    for is_failing_before in [false, true] {
        let disk = CrashingDisk::new(6, Failing::Nothing);
        let shared = shared_with(Appendfsync::Everysec);
        let files = new_files(&disk);
        let log = &shared.keyspace.log;
        let mut writer = log.writer(0);
        let thread = Writer::start(shared, files, log.attach(0)).unwrap();
        disk.set_failing(Failing::Appends);
        append(&mut writer, 0);
        if is_failing_before {
            await_that(|| shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED));
        }
        shared.persistence.append_only.order(Order::Stop);
        thread.join().unwrap();
        assert_eq!(recovered(&disk), b"", "only whole records");
    }
}
