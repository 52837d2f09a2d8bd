//! Processor, memory and kernel of the machine, for the report.

use std::fs;

use serde::Serialize;

/// Processor, memory and kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpu_count: usize,
    /// Memory in bytes.
    pub memory_size: u64,
    /// Kernel release.
    pub kernel: String,
}

impl Machine {
    /// Describes this machine. Unavailable fields are empty.
    #[must_use]
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal");
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpu_count: std::thread::available_parallelism().map_or(0, usize::from),
            memory_size: memory_kib.trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}
