//! The memory of all interpreters together, which `lua-memory-limit` bounds.
//!
//! Each interpreter reports what it uses when a run begins, at each interrupt of it, and when it ends, and gets what the
//! others leave, or a little more than at the beginning of the run. Scripts that run at the same time may exceed the limit by what they allocate between two interrupts.

use sync::atomic::{AtomicU64, Ordering};

/// What an interpreter may always allocate, in bytes: else a paused script that fills the memory would end all others.
const ROOM_MIN: u64 = 1 << 20;

/// See the module documentation.
#[derive(Default)]
pub struct ScriptMemory {
    used: AtomicU64,
}

impl ScriptMemory {
    /// The memory of all interpreters, in bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// The share of one interpreter. It is given back when this is dropped.
pub struct MemoryShare {
    memory: &'static ScriptMemory,
    used: u64,
    /// What the interpreter may use in this run whatever the others do: set by its first report.
    least: Option<u64>,
}

impl MemoryShare {
    /// The share of an interpreter that has reported nothing.
    #[must_use]
    pub fn new(memory: &'static ScriptMemory) -> Self {
        Self { memory, used: 0, least: None }
    }

    /// Notes that a run begins.
    pub fn begin(&mut self) {
        self.least = None;
    }

    /// Reports what the interpreter uses. Returns how much it may use, if all may use `limit`.
    pub fn report(&mut self, used: u64, limit: u64) -> u64 {
        let change = used.wrapping_sub(self.used);
        let all = self.memory.used.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        self.used = used;
        let least = *self.least.get_or_insert(used.saturating_add(ROOM_MIN));
        limit.saturating_sub(all.saturating_sub(used)).max(least)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.used, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_may_use_what_the_others_leave() {
        const LIMIT: u64 = 100 << 20;
        let memory: &'static ScriptMemory = Box::leak(Box::default());
        let (mut one, mut other) = (MemoryShare::new(memory), MemoryShare::new(memory));
        assert_eq!(one.report(1 << 20, LIMIT), LIMIT);
        other.begin();
        assert_eq!(other.report(60 << 20, LIMIT), LIMIT - (1 << 20));
        one.begin();
        assert_eq!(one.report(2 << 20, LIMIT), LIMIT - (60 << 20));
        // Beyond the limit a small script can run.
        other.begin();
        assert_eq!(other.report(99 << 20, LIMIT), 100 << 20);
        one.begin();
        assert_eq!(one.report(2 << 20, LIMIT), 3 << 20);
        // What it may use does not grow with what it uses.
        assert_eq!(one.report(3 << 20, LIMIT), 3 << 20);
        assert_eq!(one.report(2 << 20, LIMIT), 3 << 20);
        drop(other);
        assert_eq!(memory.used(), 2 << 20);
        assert_eq!(one.report(1 << 20, LIMIT), LIMIT);
        drop(one);
        assert_eq!(memory.used(), 0);
    }
}
