//! The file system that holds the append-only files and the snapshots: the process's, or in a simulation a simulated one.

use persist::disk::Disk;

#[cfg(feature = "simulation")]
pub use simulated::SimulatedDisk as ServerDisk;

/// The process's file system.
#[cfg(not(feature = "simulation"))]
pub type ServerDisk = persist::disk::system::SystemDisk;

/// An open file of the [`ServerDisk`].
pub type ServerFile = <ServerDisk as Disk>::File;

/// Returns the file system of the caller.
#[must_use]
pub fn current() -> ServerDisk {
    #[cfg(feature = "simulation")]
    return ServerDisk::current();
    #[cfg(not(feature = "simulation"))]
    persist::disk::system::SystemDisk
}

/// Whether the caller's file system is a simulated one.
#[must_use]
pub fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    return sync::simulation::extension::<persist::disk::crashing::CrashingDisk>().is_some();
    #[cfg(not(feature = "simulation"))]
    false
}

/// Reads a file from an offset on.
pub type FileReader = persist::disk::FileReader<ServerFile>;

#[cfg(feature = "simulation")]
mod simulated {
    //! A disk of a simulation: it takes virtual time, and can crash.

    use std::io;
    use std::path::Path;

    use persist::disk::crashing::{CrashingDisk, CrashingFile};
    use persist::disk::system::SystemDisk;
    use persist::disk::{Disk, DiskFile};
    use sync::simulation;

    use crate::faults;

    /// The longest operation, in virtual microseconds.
    const DELAY_US_MAX: u64 = 3000;

    /// The simulation's disk, or outside of one the process's.
    #[derive(Clone)]
    pub struct SimulatedDisk(Option<CrashingDisk>);

    /// An open file.
    pub enum SimulatedFile {
        /// Of the process's file system.
        System(<SystemDisk as Disk>::File),
        /// Of the simulation, and whether it is the base of an append-only file.
        Crashing(CrashingFile, bool),
    }

    impl SimulatedDisk {
        /// The disk of the caller's simulation.
        pub fn current() -> Self {
            Self(simulation::extension::<CrashingDisk>().map(|disk| (*disk).clone()))
        }
    }

    /// Other threads run while the disk works.
    fn delay() {
        let number = simulation::random_u64().unwrap_or(0);
        simulation::sleep_us(1 + number % DELAY_US_MAX);
    }

    impl Disk for SimulatedDisk {
        type File = SimulatedFile;

        fn open(&self, path: &Path) -> io::Result<SimulatedFile> {
            match &self.0 {
                None => SystemDisk.open(path).map(SimulatedFile::System),
                Some(disk) => disk.open(path).map(|file| SimulatedFile::Crashing(file, is_base(path))),
            }
        }

        fn create(&self, path: &Path) -> io::Result<SimulatedFile> {
            match &self.0 {
                None => SystemDisk.create(path).map(SimulatedFile::System),
                Some(disk) => disk.create(path).map(|file| SimulatedFile::Crashing(file, is_base(path))),
            }
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            match &self.0 {
                None => SystemDisk.rename(from, to),
                Some(disk) => disk.rename(from, to),
            }
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            match &self.0 {
                None => SystemDisk.remove(path),
                Some(disk) => disk.remove(path),
            }
        }

        fn create_directory(&self, path: &Path) -> io::Result<()> {
            match &self.0 {
                None => SystemDisk.create_directory(path),
                Some(disk) => disk.create_directory(path),
            }
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            match &self.0 {
                None => SystemDisk.sync_directory(path),
                Some(disk) => {
                    delay();
                    disk.sync_directory(path)
                }
            }
        }

        fn list(&self, path: &Path) -> io::Result<Vec<Vec<u8>>> {
            match &self.0 {
                None => SystemDisk.list(path),
                Some(disk) => disk.list(path),
            }
        }
    }

    fn is_base(path: &Path) -> bool {
        path.to_string_lossy().contains(".base")
    }

    impl DiskFile for SimulatedFile {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            match self {
                Self::System(file) => file.append(bytes),
                Self::Crashing(file, _) => {
                    delay();
                    file.append(bytes)
                }
            }
        }

        fn sync(&mut self) -> io::Result<()> {
            match self {
                Self::System(file) => file.sync(),
                Self::Crashing(_, true) if simulation::planted(faults::EARLY_MANIFEST) => Ok(()),
                Self::Crashing(file, _) => {
                    delay();
                    let result = file.sync();
                    // The data are on disk before the caller continues.
                    delay();
                    result
                }
            }
        }

        fn truncate(&mut self, size: u64) -> io::Result<()> {
            match self {
                Self::System(file) => file.truncate(size),
                Self::Crashing(file, _) => file.truncate(size),
            }
        }

        fn size(&self) -> io::Result<u64> {
            match self {
                Self::System(file) => file.size(),
                Self::Crashing(file, _) => file.size(),
            }
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            match self {
                Self::System(file) => file.read_at(offset, buffer),
                Self::Crashing(file, _) => file.read_at(offset, buffer),
            }
        }
    }
}
