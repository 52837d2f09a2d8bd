//! The only file of this crate that accesses the file system: reads configuration files, and replaces one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::load::Files;
use base::glob;

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&mut self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    /// Wildcards match names in one directory, and no hidden ones unless the pattern starts with a dot.
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

/// Replaces a file atomically: after a crash it contains either the old or the new text, completely.
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
        // The first error is reported. A leftover temporary file is acceptable.
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

/// Writes the temporary file, with the permissions of the old file if it exists.
fn write_synced(temporary: &Path, old: &Path, text: &[u8]) -> io::Result<()> {
    // Removes a leftover of a crashed process with an equal process id. A link at this path must not be
    // followed.
    drop(fs::remove_file(temporary));
    let mut file = File::create_new(temporary)?;
    if let Ok(metadata) = fs::metadata(old) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}

/// The entries of a directory that match one part of a pattern; none if it cannot be read.
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
