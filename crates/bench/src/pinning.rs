//! Lists of CPUs, and binding threads to them.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::BenchError;

/// CPU numbers; an empty list means any CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Whether the list is empty, so that any CPU is allowed.
    #[must_use]
    pub fn is_anywhere(&self) -> bool {
        self.0.is_empty()
    }

    fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        set
    }
}

impl FromStr for CpuList {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
                (Ok(first), Ok(last)) if first <= last && last < CpuSet::MAX_CPU => cpus.extend(first..=last),
                _ => {
                    return Err(BenchError::usage(format!(
                        "not a list of CPUs: '{text}'; examples: 0, 2-5, 0,4; the largest number is {}",
                        CpuSet::MAX_CPU - 1
                    )));
                }
            }
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&cpus.join(","))
    }
}

/// Binds the calling thread, and the threads and processes that it starts later.
pub fn pin_this_thread(cpus: &CpuList) -> io::Result<()> {
    if cpus.is_anywhere() { Ok(()) } else { Ok(sched_setaffinity(None, &cpus.to_set())?) }
}

/// Runs `act` bound to `cpus`, for example to start a process, then restores the previous binding.
pub fn while_pinned<T>(cpus: &CpuList, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    pin_this_thread(cpus)?;
    let result = act();
    sched_setaffinity(None, &before)?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse() {
        assert_eq!("0,2-4".parse::<CpuList>().unwrap(), CpuList(vec![0, 2, 3, 4]));
        assert_eq!("0,2-4".parse::<CpuList>().unwrap().to_string(), "0,2,3,4");
        for wrong in ["", "x", "3-1", "99999"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn pinning_is_undone() {
        let before = sched_getaffinity(None).unwrap();
        let inside = while_pinned(&"0".parse().unwrap(), || Ok(sched_getaffinity(None)?)).unwrap();
        assert_eq!(inside.count(), 1);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
