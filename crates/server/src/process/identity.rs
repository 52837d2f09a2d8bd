//! The identity of the process and of its build, and random seeds.

use os::{clock, process};

/// The identity of this process.
pub struct Identity {
    /// 40 hexadecimal digits, new at each start.
    pub run_id: String,
    /// Unix time of the start, in milliseconds.
    pub started_at: i64,
    /// The configuration file, absolute.
    pub config_file: Option<std::path::PathBuf>,
    /// The executable.
    pub executable: String,
    /// The pid file, absolute, if one was written.
    pub pid_file: Option<std::path::PathBuf>,
    /// The operating system, with its version.
    pub system: String,
    /// Bytes of memory of the machine.
    pub system_memory: u64,
    /// Memory that the server may use, in bytes: its container may have less than the machine.
    pub available_memory: u64,
}

impl Identity {
    /// Returns the identity of a process that starts now.
    #[must_use]
    pub fn new(
        config_file: Option<std::path::PathBuf>,
        executable: String,
        pid_file: Option<std::path::PathBuf>,
    ) -> Self {
        Self {
            run_id: random_id(),
            started_at: clock::unix_millis(),
            config_file,
            executable,
            pid_file,
            system: process::system_name(),
            system_memory: process::system_memory(),
            available_memory: os::memory_limit::available_memory(),
        }
    }
}

/// 40 random hexadecimal digits.
pub fn random_id() -> String {
    let words = seed();
    let text: String = words.iter().map(|word| format!("{word:016x}")).collect();
    text[..40].to_owned()
}

/// Returns the seed for a text: equal texts yield equal seeds.
pub fn seed_of(text: &str) -> [u64; 4] {
    let fold = |salt: u64| {
        let step =
            |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, step)
    };
    [1, 2, 3, 4].map(|salt: u64| fold(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Returns a random seed, as good as the standard library's.
pub fn seed() -> [u64; 4] {
    use std::hash::BuildHasher;
    [(); 4].map(|()| sync::RandomState::new().hash_one(clock::unix_micros()))
}

/// A number that distinguishes builds.
pub fn build_number() -> u64 {
    let text = concat!(env!("CARGO_PKG_VERSION"), env!("BROADLOOM_COMMIT"), env!("BROADLOOM_PROFILE"));
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
