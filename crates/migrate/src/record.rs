//! The record of a move: a file with the servers' earlier settings, for `--undo` in another run.
//!
//! It is written before each change that it describes, so a run that ends at any point leaves a record from which the
//! change can be undone. It may contain a password of the target's former primary: only its owner can read it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::address::HostPort;
use crate::error::MigrateError;
use crate::server::Server;

/// What the tool has done to the servers of a move.
///
/// | from | to | by |
/// |---|---|---|
/// | `Begun` | `Switched` | `--switch` |
/// | `Switched` | `Reversed` | `--switch --reverse` |
/// | `Reversed` | `Returning` | `--undo`, before the promotion of the source |
/// | `Returning` | `Begun` | the same `--undo`, at its end |
/// | `Switched`, `Returning` | `Begun` | `--undo --discard` |
/// | `Begun` | removed | `--undo` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The source is the primary; settings may be changed.
    Begun,
    /// The target is the primary; the source is not its replica.
    Switched,
    /// The target is the primary of the source.
    Reversed,
    /// The source is made the primary again; the target is fenced.
    Returning,
}

/// A server of the move, in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    Source,
    Target,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Target => "target",
        })
    }
}

/// A setting that was changed, with its earlier value.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Earlier {
    side: Side,
    name: String,
    value: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    from: String,
    to: String,
    stage: Stage,
    /// The run ID of the server that was to be promoted last, when it had all changes of the other one.
    #[serde(default)]
    complete_run_id: Option<String>,
    settings: Vec<Earlier>,
}

/// The record of a move.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    content: Content,
    is_stored: bool,
    /// Held until the end: a second run would overwrite what this one has recorded.
    _lock: File,
}

impl Record {
    /// Reads the record of a move between these servers, or begins one. Nothing is written yet.
    pub fn open(path: Option<&Path>, from: &HostPort, to: &HostPort) -> Result<Self, MigrateError> {
        let path = path.map_or_else(|| default_path(from, to), Path::to_owned);
        let lock = lock(&path)?;
        let (from, to) = (from.to_string(), to.to_string());
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let (stage, settings) = (Stage::Begun, Vec::new());
                let content = Content { from, to, stage, complete_run_id: None, settings };
                return Ok(Self { path, content, is_stored: false, _lock: lock });
            }
            Err(error) => return Err(MigrateError::file(format!("reading {}", path.display()))(error)),
        };
        let content: Content = serde_json::from_slice(&text)
            .map_err(|error| MigrateError::file(format!("reading {}", path.display()))(error.into()))?;
        if (&content.from, &content.to) != (&from, &to) {
            return Err(MigrateError::usage(format!(
                "--state: '{}' is of the move from {} to {}",
                path.display(),
                content.from,
                content.to
            )));
        }
        Ok(Self { path, content, is_stored: true, _lock: lock })
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there was a file, or is one now.
    pub fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Returns the stage that was stored last.
    pub fn stage(&self) -> Stage {
        self.content.stage
    }

    /// Stores the stage. It stays as it was if that fails.
    pub fn set_stage(&mut self, stage: Stage) -> Result<(), MigrateError> {
        let earlier = std::mem::replace(&mut self.content.stage, stage);
        self.store().inspect_err(|_| self.content.stage = earlier)
    }

    /// Stores the stage before a promotion, and that the start of a server with this run ID has all changes of the other one.
    pub fn announce(&mut self, stage: Stage, run_id: Option<String>) -> Result<(), MigrateError> {
        self.content.complete_run_id = run_id;
        self.set_stage(stage)
    }

    /// Whether the start of a server with this run ID is the one that had all changes before its promotion. A server that
    /// has restarted since then may have lost some.
    pub fn is_complete(&self, run_id: Option<&str>) -> bool {
        run_id.is_some() && self.content.complete_run_id.as_deref() == run_id
    }

    /// Changes a setting of a server, after its earlier value is stored. A setting that was changed before keeps
    /// the value of before that. Does nothing if the server has this value.
    pub fn change(
        &mut self,
        side: Side,
        server: &mut Server,
        name: &str,
        value: &str,
    ) -> Result<(), MigrateError> {
        let Some(earlier) = server.setting(name)? else {
            return Err(MigrateError::server(server.name(), format!("the setting {name} can't be read")));
        };
        if earlier == value {
            return Ok(());
        }
        if !self.content.settings.iter().any(|known| (known.side, known.name.as_str()) == (side, name)) {
            self.content.settings.push(Earlier { side, name: name.to_owned(), value: earlier });
            self.store()?;
        }
        server.set(name, value)
    }

    /// Restores those settings of a server that `is_wanted` selects, the last change first. What is restored is stored at the
    /// end, so that a file that can't be written does not prevent it.
    pub fn restore(
        &mut self,
        side: Side,
        server: &mut Server,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<(), MigrateError> {
        let is_due = |known: &Earlier| known.side == side && is_wanted(&known.name);
        let (mut is_changed, mut restored) = (false, Ok(()));
        while let Some(at) = self.content.settings.iter().rposition(is_due) {
            let earlier = &self.content.settings[at];
            restored = server.set(&earlier.name, &earlier.value);
            if restored.is_err() {
                break;
            }
            self.content.settings.remove(at);
            is_changed = true;
        }
        let stored = if is_changed { self.store() } else { Ok(()) };
        restored.and(stored)
    }

    /// Returns the names of the settings of a server that are to be restored.
    pub fn changed(&self, side: Side) -> Vec<&str> {
        let of_side = self.content.settings.iter().filter(|known| known.side == side);
        of_side.map(|known| known.name.as_str()).collect()
    }

    /// Removes the file if it has nothing to undo.
    pub fn remove_if_empty(&mut self) -> Result<(), MigrateError> {
        let is_empty = self.content.settings.is_empty() && self.content.stage == Stage::Begun;
        if is_empty { self.remove() } else { Ok(()) }
    }

    /// Removes the file.
    pub fn remove(&mut self) -> Result<(), MigrateError> {
        if std::mem::take(&mut self.is_stored) {
            fs::remove_file(&self.path)
                .map_err(MigrateError::file(format!("removing {}", self.path.display())))?;
        }
        Ok(())
    }

    /// Replaces the file in one step.
    fn store(&mut self) -> Result<(), MigrateError> {
        let write = || {
            let new = beside(&self.path, ".new");
            let mut file = own_file().truncate(true).open(&new)?;
            file.write_all(&serde_json::to_vec_pretty(&self.content)?)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        write().map_err(MigrateError::file(format!(
            "writing {} (--state selects another file)",
            self.path.display()
        )))?;
        self.is_stored = true;
        Ok(())
    }
}

/// Locks the record for this run, by a file beside it, which stays.
fn lock(path: &Path) -> Result<File, MigrateError> {
    let lock_path = beside(path, ".lock");
    let open = || {
        if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
            fs::create_dir_all(directory)?;
        }
        let file = own_file().open(&lock_path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    };
    let doing = format!("locking {} (--state selects another file)", lock_path.display());
    open().map_err(MigrateError::file(doing))?.ok_or_else(|| {
        MigrateError::refused(format!(
            "another run works on this move ({} is locked): end it with Ctrl-C first",
            lock_path.display()
        ))
    })
}

/// Opens files for writing that only their owner can read.
fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn default_path(from: &HostPort, to: &HostPort) -> PathBuf {
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")));
    let in_name = |address: &HostPort| format!("{}-{}", address.host.replace(['/', ':'], "_"), address.port);
    let name = format!("migrate-{}-{}.json", in_name(from), in_name(to));
    state.map_or_else(PathBuf::new, |state| state.join("broadloom")).join(name)
}
