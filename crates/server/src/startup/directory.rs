//! The working directory at the start: whether files can be written there, and how much there is to load.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use config::Config;

/// How long the workers wait for the data before they serve clients, with `LOADING`: for little data so long that only a fault
/// of the disk exceeds it.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_FOR_LITTLE: Duration = Duration::from_secs(10);

/// The size of little data: it is loaded in some milliseconds, on a busy machine in some hundreds.
const LITTLE_SIZE: u64 = 1 << 20;

/// How long the workers wait for the data before they serve clients.
pub(super) fn load_patience(config: &Config) -> Duration {
    // Delays are for tests, which look at loads.
    match data_size(config) <= LITTLE_SIZE && config.key_load_delay == 0 {
        true => PATIENCE_FOR_LITTLE,
        false => PATIENCE,
    }
}

/// The size of the files to load, approximately; a file that can't be examined has none.
fn data_size(config: &Config) -> u64 {
    let size_of = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    if !config.appendonly {
        return size_of(Path::new(&config.dbfilename));
    }
    let files = fs::read_dir(&config.appenddirname).into_iter().flatten().flatten();
    size_of(Path::new(&config.appendfilename)) + files.map(|file| size_of(&file.path())).sum::<u64>()
}

/// Warns if no dump can be written though there are save points: each save, and with it the end of the server, would fail.
pub(super) fn warn_if_unwritable(config: &Config) {
    if config.save.0.is_empty() {
        return;
    }
    // Not the name of a dump: in a container, a server that still saves here may have the same id.
    let probe = format!("temp-probe-{}", std::process::id());
    match fs::OpenOptions::new().write(true).create_new(true).open(&probe) {
        // An error is ignored: the file is empty.
        Ok(_) => _ = fs::remove_file(&probe),
        // That of another server, or of one that was killed: files can be written.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => log::warn!(
            "WARNING: no file can be written in the directory {}: {error}. Saves will fail, and the server will not end with its data \
             saved. Set 'dir' to another directory, or 'save' to \"\" if the data need not be saved.",
            config.dir
        ),
    }
}
