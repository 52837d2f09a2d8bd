//! The library between a server and its files: calls fail as a word says, and all changes of files are recorded for power cuts.
//!
//! `crates/server/tests/support/failing_disk.c` is loaded before the C library.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::journal::Model;
use crate::random::Random;

/// Words with which calls fail.
pub const FAILURES: [&str; 5] = ["sync", "directory", "hang", "full", "rename"];

/// The word with which synchronisations succeed without effect.
const LOST_SYNCS: &str = "lost";

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/support/failing_disk.c");

/// The number of directories so far in this process.
static DIRECTORY_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The built library with its files, which are removed when it is dropped.
pub(super) struct Disk {
    directory: PathBuf,
    /// The files of the server as they were when it was last started; `None`: there were none.
    model: Option<Model>,
    /// The word while nothing shall fail.
    rest_word: &'static str,
}

impl Disk {
    /// Builds the library with the C compiler.
    pub(super) fn build() -> io::Result<Self> {
        let number = DIRECTORY_COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("trials-disk-{}-{number}", process::id()));
        fs::create_dir_all(&directory)?;
        let disk = Self { directory, model: None, rest_word: "none" };
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(disk.path("failing_disk.so"))
            .args([SOURCE, "-ldl", "-lpthread"])
            .status()?;
        status.success().then_some(disk).ok_or_else(|| io::Error::other("the library can't be built"))
    }

    /// The environment of a server behind it. `has_journal`: for power cuts.
    pub(super) fn environment(&self, has_journal: bool) -> Vec<(&'static str, PathBuf)> {
        let mut variables =
            vec![("LD_PRELOAD", self.path("failing_disk.so")), ("DISK_WORD", self.path("word"))];
        if has_journal {
            variables.push(("DISK_JOURNAL", self.path("journal")));
        }
        variables
    }

    /// From now on calls fail as this word says.
    pub(super) fn set(&self, word: &str) -> io::Result<()> {
        let next = self.path("next");
        fs::write(&next, word)?;
        fs::rename(&next, self.path("word"))
    }

    /// From now on nothing fails.
    pub(super) fn rest(&self) -> io::Result<()> {
        self.set(self.rest_word)
    }

    /// From now on synchronisations succeed without effect while nothing else fails.
    pub(super) fn lose_syncs(&mut self) -> io::Result<()> {
        self.rest_word = LOST_SYNCS;
        self.rest()
    }

    /// Replaces a directory's files by those that a crash of the machine may have left, and begins a new journal. The server
    /// has ended.
    pub(super) fn cut_power(&mut self, data_dir: &Path, random: &mut Random) -> io::Result<()> {
        let root = fs::canonicalize(data_dir)?;
        let journal = self.path("journal");
        let model = self.model.get_or_insert_with(|| Model::new(&root));
        model.replay(&fs::read(&journal)?)?;
        model.crash(random);
        model.write()?;
        fs::remove_file(journal)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Fails only if it is gone already.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
