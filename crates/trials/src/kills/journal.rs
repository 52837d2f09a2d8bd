//! What a power cut leaves of a directory: a model of its files, which replays the journal of a server's calls.
//!
//! A synchronised file keeps the contents that it had when the synchronisation began, a synchronised directory its names. Of
//! later changes any subset survives: of names in their order, of writes each wholly or in part, with zeros in the gaps. After a
//! failed synchronisation the changes before it are lost, as on Linux. The seed decides.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::random::Random;

/// The file of a server's log, which the server does not open itself.
const LOG: &str = "log";
/// Size of a record without its names and bytes.
const RECORD_SIZE: usize = 32;

/// A directory's durable files, and the changes since.
#[derive(Debug, Default)]
pub(super) struct Model {
    root: PathBuf,
    names: BTreeMap<PathBuf, Node>,
    /// Each with the number of its record.
    pending: Vec<(u64, NameChange)>,
    files: Vec<File>,
    /// The newest file of each inode.
    by_inode: HashMap<u64, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

#[derive(Debug)]
enum NameChange {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    /// Each with the number of its record.
    pending: Vec<(u64, Change)>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

/// How much of the changes that are not durable a power cut leaves.
#[derive(Clone, Copy)]
enum Survival {
    Nothing,
    Everything,
    Some,
}

/// A record of the journal, see `failing_disk.c`.
struct Record<'a> {
    kind: u32,
    path: &'a Path,
    other: &'a Path,
    bytes: &'a [u8],
    inode: u64,
    value: u64,
}

impl Model {
    /// The model of an empty directory.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    /// Replays a journal, whose last record may be incomplete.
    ///
    /// # Errors
    /// A record is unknown.
    pub(super) fn replay(&mut self, mut journal: &[u8]) -> io::Result<()> {
        for number in 0.. {
            let Some((record, rest)) = Record::read(journal) else { break };
            self.apply(number, &record)?;
            journal = rest;
        }
        Ok(())
    }

    fn apply(&mut self, number: u64, record: &Record<'_>) -> io::Result<()> {
        let is_inside = record.path.starts_with(&self.root);
        let path = record.path.to_owned();
        let value = record.value as usize;
        match record.kind {
            1 if is_inside => {
                self.files.push(File::default());
                let file = self.files.len() - 1;
                self.by_inode.insert(record.inode, file);
                self.pending.push((number, NameChange::Add(path, Node::File(file))));
            }
            2 => self.change(number, record, Change::Write { offset: value, bytes: record.bytes.to_vec() }),
            3 => self.change(number, record, Change::Truncate(value)),
            4 if is_inside => {
                self.pending.push((number, NameChange::Rename(path, record.other.to_owned())));
            }
            5 if is_inside => self.pending.push((number, NameChange::Remove(path))),
            6 if is_inside => self.pending.push((number, NameChange::Add(path, Node::Directory))),
            7 | 8 => {
                if let Some(file) = self.by_inode.get(&record.inode) {
                    self.files[*file].settle(record.value, record.kind == 7);
                }
            }
            9 => {
                let is_covered =
                    |(number, change): &(u64, NameChange)| *number < record.value && change.is_in(&path);
                let (covered, pending) = std::mem::take(&mut self.pending).into_iter().partition(is_covered);
                self.pending = pending;
                let covered: Vec<(u64, NameChange)> = covered;
                covered.iter().for_each(|(_, change)| change.apply(&mut self.names));
            }
            // Another directory.
            1 | 4..=6 => {}
            kind => return Err(io::Error::other(format!("a record of the unknown kind {kind}"))),
        }
        Ok(())
    }

    fn change(&mut self, number: u64, record: &Record<'_>, change: Change) {
        if let Some(file) = self.by_inode.get(&record.inode) {
            self.files[*file].pending.push((number, change));
        }
    }

    /// Decides what survives of the pending changes: now everything is durable.
    pub(super) fn crash(&mut self, random: &mut Random) {
        let survival = *random.pick(&[Survival::Nothing, Survival::Everything, Survival::Some]);
        for (_, change) in std::mem::take(&mut self.pending) {
            if survival.survives(random) {
                change.apply(&mut self.names);
            }
        }
        for file in &mut self.files {
            for (_, change) in std::mem::take(&mut file.pending) {
                if survival.survives(random) {
                    let is_cut = matches!(survival, Survival::Some) && random.chance(50);
                    change.apply(&mut file.durable, is_cut.then_some(&mut *random));
                }
            }
        }
    }

    /// Replaces the directory's files by those of the model, whose changes are all durable.
    ///
    /// # Errors
    /// Of the file system.
    pub(super) fn write(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false if entry.file_name() != LOG => fs::remove_file(entry.path())?,
                false => {}
            }
        }
        self.by_inode.clear();
        let mut files = Vec::new();
        // A directory is before its files.
        for (path, node) in std::mem::take(&mut self.names) {
            if path.parent().is_none_or(|parent| !parent.is_dir()) {
                // Its directory did not survive.
                continue;
            }
            let node = match node {
                Node::Directory => fs::create_dir(&path).map(|()| node)?,
                Node::File(file) => {
                    let durable = std::mem::take(&mut self.files[file].durable);
                    fs::write(&path, &durable)?;
                    self.by_inode.insert(fs::metadata(&path)?.ino(), files.len());
                    files.push(File { durable, pending: Vec::new() });
                    Node::File(files.len() - 1)
                }
            };
            self.names.insert(path, node);
        }
        self.files = files;
        Ok(())
    }
}

impl Survival {
    fn survives(self, random: &mut Random) -> bool {
        match self {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Some => random.chance(50),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            NameChange::Add(path, node) => _ = names.insert(path.clone(), *node),
            NameChange::Remove(path) => _ = names.remove(path),
            NameChange::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }

    fn is_in(&self, directory: &Path) -> bool {
        let is_in = |path: &Path| path.parent() == Some(directory);
        match self {
            NameChange::Add(path, _) | NameChange::Remove(path) => is_in(path),
            NameChange::Rename(from, to) => is_in(from) || is_in(to),
        }
    }
}

impl File {
    /// Makes the changes before this record durable, or drops them.
    fn settle(&mut self, covered: u64, is_durable: bool) {
        let end = self.pending.partition_point(|(number, _)| *number < covered);
        for (_, change) in self.pending.drain(..end) {
            if is_durable {
                change.apply(&mut self.durable, None);
            }
        }
    }
}

impl Change {
    /// Applies it, or a part of it of a random size.
    fn apply(&self, durable: &mut Vec<u8>, cut: Option<&mut Random>) {
        match self {
            Change::Write { offset, bytes } => {
                let size = cut.map_or(bytes.len(), |random| random.below(bytes.len() + 1));
                if durable.len() < offset + size {
                    durable.resize(offset + size, 0);
                }
                durable[*offset..offset + size].copy_from_slice(&bytes[..size]);
            }
            // A file never grows by it.
            Change::Truncate(size) => durable.truncate(*size),
        }
    }
}

impl<'a> Record<'a> {
    /// The first record of a journal, and the rest.
    fn read(journal: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = journal.split_at_checked(RECORD_SIZE)?;
        let word = |at: usize| head[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
        let long = |at: usize| head[at..at + 8].try_into().map(u64::from_ne_bytes).ok();
        let (path, rest) = rest.split_at_checked(word(4)? as usize)?;
        let (other, rest) = rest.split_at_checked(word(8)? as usize)?;
        let (bytes, rest) = rest.split_at_checked(word(12)? as usize)?;
        let path_of = |bytes| Path::new(OsStr::from_bytes(bytes));
        let record = Self {
            kind: word(0)?,
            path: path_of(path),
            other: path_of(other),
            bytes,
            inode: long(16)?,
            value: long(24)?,
        };
        Some((record, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, path: &str, other: &str, inode: u64, value: u64, bytes: &str) -> Vec<u8> {
        let sizes = [path, other, bytes].map(|text| text.len() as u32);
        let head = [kind, sizes[0], sizes[1], sizes[2]].into_iter().flat_map(u32::to_ne_bytes);
        let numbers = [inode, value].into_iter().flat_map(u64::to_ne_bytes);
        head.chain(numbers).chain([path, other, bytes].concat().into_bytes()).collect()
    }

    /// The files after a power cut that leaves only what is durable.
    fn durable(records: &[Vec<u8>]) -> BTreeMap<String, String> {
        let mut model = Model::new(Path::new("/data"));
        let mut journal = records.concat();
        // A record that the cut has torn.
        journal.extend(&record(1, "/data/torn", "", 9, 0, "")[..40]);
        model.replay(&journal).expect("all kinds are known");
        let contents = |node: &Node| match node {
            Node::Directory => "directory".to_owned(),
            Node::File(file) => String::from_utf8_lossy(&model.files[*file].durable).into_owned(),
        };
        model.names.iter().map(|(path, node)| (path.display().to_string(), contents(node))).collect()
    }

    fn expected(names: &[(&str, &str)]) -> BTreeMap<String, String> {
        names.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn what_is_synchronised_is_durable() {
        let mut records = vec![
            record(1, "/data/a", "", 5, 0, ""),
            record(1, "/elsewhere/b", "", 6, 0, ""),
            record(2, "", "", 5, 0, "0123"),
            // It began before the write.
            record(7, "", "", 5, 2, ""),
            record(9, "/data", "", 0, 4, ""),
        ];
        assert_eq!(durable(&records), expected(&[("/data/a", "")]));
        records.push(record(7, "", "", 5, 5, ""));
        records.push(record(3, "", "", 5, 2, ""));
        assert_eq!(durable(&records), expected(&[("/data/a", "0123")]));
        records.push(record(7, "", "", 5, 7, ""));
        records.push(record(4, "/data/a", "/data/c", 0, 0, ""));
        assert_eq!(durable(&records), expected(&[("/data/a", "01")]));
        records.push(record(9, "/data", "", 0, 9, ""));
        assert_eq!(durable(&records), expected(&[("/data/c", "01")]));
        records.push(record(5, "/data/c", "", 0, 0, ""));
        records.push(record(6, "/data/d", "", 0, 0, ""));
        records.push(record(9, "/data", "", 0, 12, ""));
        assert_eq!(durable(&records), expected(&[("/data/d", "directory")]));
    }

    #[test]
    fn a_failed_synchronisation_loses_the_writes_before_it() {
        let records = [
            record(1, "/data/a", "", 5, 0, ""),
            record(9, "/data", "", 0, 1, ""),
            record(2, "", "", 5, 0, "lost"),
            record(8, "", "", 5, 3, ""),
            record(2, "", "", 5, 4, "kept"),
            record(7, "", "", 5, 5, ""),
        ];
        assert_eq!(durable(&records), expected(&[("/data/a", "\0\0\0\0kept")]));
    }

    #[test]
    fn a_power_cut_leaves_nothing_everything_or_some() {
        let mut sizes = [false; 9];
        for seed in 0..2000 {
            let mut model = Model::new(Path::new("/data"));
            let records = [
                record(1, "/data/a", "", 5, 0, ""),
                record(9, "/data", "", 0, 1, ""),
                record(2, "", "", 5, 0, "01234567"),
            ];
            model.replay(&records.concat()).expect("all kinds are known");
            model.crash(&mut Random::new(seed));
            sizes[model.files[0].durable.len()] = true;
        }
        assert_eq!(sizes, [true; 9]);
    }
}
