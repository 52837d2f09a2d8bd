//! The defects that can be put back, and within how many seeds each is found.

use sync::simulation::Fault;

/// A defect that was mended.
pub struct Known {
    /// Its name for `--fault`.
    pub name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// What the failure says; empty: it differs.
    pub sign: &'static str,
    /// Its switch.
    pub fault: Fault,
    /// It is found within so many seeds from 0 on, which a test asserts.
    pub seed_count_max: u64,
}

/// All of them.
pub static ALL: &[Known] = &[
    Known {
        name: "lost-mail",
        meaning: "mail to a thread that has looked at its mailbox for the last time is never read",
        sign: "waits in vain for a reply",
        fault: Fault::MailToClosedSeat,
        seed_count_max: 150,
    },
    Known {
        name: "early-settle",
        meaning: "a quiet send counts as complete while completions wait in the kernel's overflow list",
        sign: "",
        fault: Fault::SendSettledEarly,
        seed_count_max: 100,
    },
    Known {
        name: "early-retire",
        meaning: "a segment is retired before the hint that leads to it is unlinked",
        sign: "freed memory is read",
        fault: Fault::RetireBeforeUnlink,
        seed_count_max: 100,
    },
    Known {
        name: "early-pause",
        meaning: "CLIENT PAUSE answers while batches that run may still write",
        sign: "something was written during a pause",
        fault: Fault::PauseBeforeBarrier,
        seed_count_max: 100,
    },
    Known {
        name: "wall-timers",
        meaning: "timers follow the wall clock",
        sign: "",
        fault: Fault::WallClockTimers,
        seed_count_max: 100,
    },
];

/// The fault of a name.
#[must_use]
pub fn find(name: &str) -> Option<Fault> {
    ALL.iter().find(|known| known.name == name).map(|known| known.fault)
}
