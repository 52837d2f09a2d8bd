//! The real file system. With `lock.rs` beside it the only file of this crate with I/O.

use super::{DirectoryLock, Disk, DiskFile};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The process's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    type File = SystemFile;

    fn open(&self, path: &Path) -> io::Result<SystemFile> {
        // A file that is only checked may be read-only; its first truncation then fails.
        let writable = OpenOptions::new().read(true).append(true).open(path);
        Ok(SystemFile(writable.or_else(|_| File::open(path))?))
    }

    fn open_to_append(&self, path: &Path) -> io::Result<SystemFile> {
        Ok(SystemFile(OpenOptions::new().read(true).append(true).open(path)?))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<DirectoryLock>> {
        DirectoryLock::acquire(path)
    }

    fn create(&self, path: &Path) -> io::Result<SystemFile> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        file.set_len(0)?;
        Ok(SystemFile(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::read_dir(path)?.map(|file| Ok(file?.file_name().into_vec())).collect()
    }
}

/// An open file of the system.
#[derive(Debug)]
pub struct SystemFile(File);

impl DiskFile for SystemFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn begin_writing(&mut self, range: Range<u64>) {
        os::files::begin_writing(&self.0, range);
    }

    fn release_cached(&mut self, range: Range<u64>) {
        os::files::drop_cached(&self.0, range);
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_disk_fulfils_its_contract() {
        let directory = std::env::temp_dir().join(format!("broadloom-disk-{}", std::process::id()));
        let (first, second) = (directory.join("first"), directory.join("second"));
        SystemDisk.create_directory(&directory).unwrap();
        SystemDisk.create_directory(&directory).unwrap();
        let mut file = SystemDisk.create(&first).unwrap();
        file.append(b"0123456789").unwrap();
        file.truncate(4).unwrap();
        file.append(b"x").unwrap();
        file.begin_writing(0..5);
        file.sync().unwrap();
        file.release_cached(0..5);
        assert_eq!(super::super::read_small(&file).unwrap(), b"0123x");
        SystemDisk.rename(&first, &second).unwrap();
        SystemDisk.sync_directory(&directory).unwrap();
        assert_eq!(SystemDisk.list(&directory).unwrap(), [b"second"]);
        let missing = SystemDisk.open(&first).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let mut again = SystemDisk.open(&second).unwrap();
        again.append(b"y").unwrap();
        assert_eq!(again.size().unwrap(), 6);
        assert_eq!(SystemDisk.create(&second).unwrap().size().unwrap(), 0);
        SystemDisk.remove(&second).unwrap();
        assert_eq!(SystemDisk.open_to_append(&first).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A process shares its lock, also after the file's name is gone.
        let lock = SystemDisk.lock(&first).unwrap().unwrap();
        assert!(SystemDisk.lock(&first).unwrap().is_some());
        assert_eq!(fs::read_to_string(&first).unwrap(), format!("{}\n", std::process::id()));
        let other = File::open(&first).unwrap();
        assert!(other.try_lock().is_err(), "it is locked");
        drop(lock);
        other.try_lock().unwrap();
        let holder = SystemDisk.lock(&first).unwrap_err();
        assert_eq!(holder.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(holder.to_string(), format!("in use by process {}", std::process::id()));
        SystemDisk.remove(&first).unwrap();
        assert_eq!(SystemDisk.lock(&first.join("x")).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir(&directory).unwrap();
    }
}
