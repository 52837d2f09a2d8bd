//! The only file of this crate that touches the file system: reading configuration files, and replacing one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::load::Files;
use base::glob;

/// The files of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&mut self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    /// Wildcards stand for names in one directory, and match no hidden one unless the pattern starts with a dot.
    fn matching(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        let root = if pattern.starts_with('/') { "/" } else { "" };
        let mut found = vec![PathBuf::from(root)];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            found = found.iter().flat_map(|directory| entries_matching(directory, part)).collect();
        }
        found.sort_unstable();
        found.dedup();
        Ok(found.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect())
    }

    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    }
}

/// Replaces a file by one with this text: after a crash either the old text or the new one is there, whole.
pub fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = write_synced(&temporary, path, text).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is the one to report; that the leftover stays is the lesser harm.
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

/// Writes the new file beside the old one, with the old one's permissions if there is one.
fn write_synced(temporary: &Path, old: &Path, text: &[u8]) -> io::Result<()> {
    // What a crashed process of the same number left behind must not be in the way, and a link that somebody put
    // there must not be followed.
    drop(fs::remove_file(temporary));
    let mut file = File::create_new(temporary)?;
    if let Ok(metadata) = fs::metadata(old) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}

/// The entries of a directory that match one part of a pattern; none if it can't be read.
fn entries_matching(directory: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[']) {
        let path = directory.join(part);
        return if path.exists() { vec![path] } else { Vec::new() };
    }
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = fs::read_dir(listed) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| !name.starts_with('.') || part.starts_with('.'))
        .filter(|name| glob::matches(part.as_bytes(), name.as_bytes()))
        .map(|name| directory.join(name))
        .collect()
}
