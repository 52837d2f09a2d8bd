//! The append-only files on a disk that fails at each operation, once or permanently, and then crashes: all
//! acknowledged records are recovered, and the recovered data is a prefix of the written data.
//!
//! A record is a number and a line feed, and the numbers ascend. A base says how many records it covers.
#![allow(clippy::unwrap_used)]

use persist::disk::crashing::{CrashingDisk, Failing};
use persist::disk::{Disk, DiskFile};
use persist::files::{AppendOnlyFiles, FilesError, Layout};
use persist::manifest::BaseFormat;
use std::path::Path;

const SEEDS: std::ops::Range<u64> = 0..40;

fn layout() -> Layout {
    Layout { parent: "".into(), directory: "appendonlydir".into(), stem: b"appendonly.aof".to_vec() }
}

/// The server's side: written and acknowledged records.
struct Run {
    files: AppendOnlyFiles<CrashingDisk>,
    issued_count: u64,
    acknowledged_count: u64,
    /// Appended records that no `sync` has covered.
    unsynced: Vec<u64>,
    is_starting: bool,
    /// The number of records that the next base covers.
    cut: u64,
}

type Step = Result<(), FilesError>;

impl Run {
    fn new(disk: &CrashingDisk) -> Result<Self, FilesError> {
        let files = AppendOnlyFiles::open(disk.clone(), layout())?;
        Ok(Run {
            files,
            issued_count: 0,
            acknowledged_count: 0,
            unsynced: Vec::new(),
            is_starting: false,
            cut: 0,
        })
    }

    fn append(&mut self, count: u64) -> Step {
        for _ in 0..count {
            let number = self.issued_count;
            self.issued_count += 1;
            self.unsynced.push(number);
            let record = record(number);
            let (first, second) = record.split_at(record.len() / 2);
            if self.files.append_pieces(&[first, second]).is_err() {
                match self.files.undo_append() {
                    Ok(()) => self.files.append(&record)?,
                    Err(_) => self.repair(1)?,
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Step {
        if self.files.sync().is_err() {
            self.repair(0)?;
            self.files.sync()?;
        }
        self.unsynced.clear();
        if !self.is_starting {
            self.acknowledged_count = self.issued_count;
        }
        Ok(())
    }

    /// Writes the truncated records again: the last `extra_count` records, and those that were appended but not synced.
    fn repair(&mut self, extra_count: usize) -> Step {
        let lost_count = self.files.rollback()? as usize / record(0).len();
        let again = &self.unsynced[self.unsynced.len() - lost_count - extra_count..];
        self.files.append(&again.iter().flat_map(|number| record(*number)).collect::<Vec<_>>())
    }

    /// A second attempt writes the base again: after a failed sync the first one is not trusted.
    fn finish(&mut self) -> Step {
        self.try_finish().or_else(|_| self.try_finish())?;
        self.is_starting = false;
        Ok(())
    }

    fn try_finish(&mut self) -> Step {
        let mut base = self.files.create_base()?;
        base.append(format!("base {:07}\n", self.cut).as_bytes())
            .map_err(|source| FilesError::Disk { action: "write".to_owned(), source })?;
        self.files.finish_rewrite(base, BaseFormat::Rdb)
    }

    fn begin(&mut self) -> Step {
        self.sync()?;
        self.cut = self.issued_count;
        self.files.begin_rewrite()
    }

    fn start(&mut self) -> Step {
        self.cut = self.issued_count;
        self.is_starting = true;
        self.files.start()
    }

    /// Everything that a server does. An error ends it where a real server would continue with the next step.
    fn scenario(&mut self) -> Step {
        self.start()?;
        self.append(2)?;
        self.finish()?;
        self.append(5)?;
        self.sync()?;
        self.append(3)?;
        if self.begin().is_ok() {
            self.append(2)?;
            self.sync()?;
            if self.finish().is_err() {
                self.files.abort_rewrite();
            }
            self.append(1)?;
            self.sync()?;
            let _ = self.files.remove_history();
        }
        self.append(2)?;
        self.sync()?;
        if self.begin().is_ok() {
            self.append(2)?;
            self.files.abort_rewrite();
        }
        self.append(1)?;
        self.sync()?;
        self.files.close();
        // Switched on again: the changes of the time between are in the base only.
        self.issued_count += 4;
        self.start()?;
        self.append(3)?;
        self.sync()?;
        self.finish()?;
        self.sync()?;
        let _ = self.files.remove_history();
        self.append(2)?;
        self.sync()?;
        self.append(2)
    }
}

fn record(number: u64) -> Vec<u8> {
    format!("{number:07}\n").into_bytes()
}

fn read(file: &impl DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.size().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Recovers, and returns the number of records. Cuts a damaged end off.
fn load(files: &mut AppendOnlyFiles<CrashingDisk>) -> u64 {
    let names: Vec<_> = files.manifest().loaded().map(|file| file.name.clone()).collect();
    let mut count = 0;
    for (index, name) in names.iter().enumerate() {
        let bytes = read(&files.open_file(name).unwrap());
        let mut at = 0;
        if let Some(base) = bytes.strip_prefix(b"base ") {
            count = std::str::from_utf8(&base[..7]).unwrap().parse().unwrap();
            at = bytes.len();
        }
        while bytes[at..].starts_with(&record(count)) {
            count += 1;
            at += 8;
        }
        if at < bytes.len() {
            assert_eq!(index + 1, names.len(), "only the last file may be damaged: {name:?}");
            files.truncate_last(at as u64).unwrap();
        }
    }
    count
}

/// Runs the scenario with a failure, crashes, recovers, continues, crashes again.
fn check(seed: u64, failing: Failing) -> u64 {
    let disk = CrashingDisk::new(seed, failing);
    let mut run = Run::new(&disk).unwrap();
    let outcome = run.scenario();
    let case = format!("seed {seed}, {failing:?}, {outcome:?}");
    let operation_count = disk.operation_count();
    let disk = disk.crash();
    let mut files =
        AppendOnlyFiles::open(disk.clone(), layout()).unwrap_or_else(|error| panic!("{case}: {error}"));
    let count = load(&mut files);
    let expected = run.acknowledged_count..=run.issued_count;
    assert!(expected.contains(&count), "{case}: recovered {count} of {expected:?}");

    if !files.manifest().is_empty() {
        files.resume().unwrap();
        files.append(&record(count)).unwrap();
        files.sync().unwrap();
        files.remove_history().unwrap();
        let mut files = AppendOnlyFiles::open(disk.crash(), layout()).unwrap();
        assert_eq!(load(&mut files), count + 1, "{case}");
    }
    operation_count
}

#[test]
fn acknowledged_records_survive_any_failure() {
    let operation_count = check(0, Failing::Nothing);
    assert!(operation_count > 60, "{operation_count}");
    for seed in SEEDS {
        for operation in 0..operation_count {
            check(seed, Failing::From(operation));
            check(seed, Failing::Only(operation));
        }
    }
}

#[test]
fn a_single_file_is_adopted_despite_any_failure() {
    for seed in SEEDS {
        for operation in 0..20 {
            for failing in [Failing::From(operation), Failing::Only(operation)] {
                let disk = CrashingDisk::new(seed, Failing::Nothing);
                let mut old = disk.create(Path::new("appendonly.aof")).unwrap();
                old.append(&record(0)).unwrap();
                old.sync().unwrap();
                disk.sync_directory(Path::new("")).unwrap();
                let before = disk.operation_count();
                disk.set_failing(match failing {
                    Failing::From(nth) => Failing::From(before + nth),
                    Failing::Only(nth) => Failing::Only(before + nth),
                    other => other,
                });
                let _ = AppendOnlyFiles::open(disk.clone(), layout());
                let mut files = AppendOnlyFiles::open(disk.crash(), layout()).unwrap();
                assert_eq!(load(&mut files), 1, "seed {seed}, {failing:?}");
                let names: Vec<_> = files.manifest().loaded().map(|file| file.name.as_slice()).collect();
                assert_eq!(names, [b"appendonly.aof"]);
            }
        }
    }
}
