//! Fixed defects that can be reintroduced, and the number of seeds within which each is found.

use sync::simulation::Fault;

use crate::plan::{Focus, Load, Race};

/// A fixed defect.
pub struct Known {
    /// Name for `--fault`.
    pub name: &'static str,
    /// Description of the defect.
    pub meaning: &'static str,
    /// Substrings of the failure messages that show it; empty if they vary.
    pub signs: &'static [&'static str],
    /// Switch that reintroduces the defect.
    pub fault: Fault,
    /// The load or race that finds it. With it, fewer seeds are needed.
    pub focus: Focus,
    /// Whether the runs have a disk that crashes.
    pub crashes: bool,
    /// Maximum number of seeds, from 0, until the defect is found; asserted by a test.
    pub seed_count_max: u64,
}

/// All known defects.
pub static ALL: &[Known] = &[
    Known {
        name: "lost-mail",
        meaning: "a message to a worker that has read its mailbox for the last time is lost",
        signs: &["no reply arrived in time", "a reply is late"],
        focus: Focus::Race(Race::Threads),
        fault: Fault::MailToClosedHandle,
        seed_count_max: 100,
        crashes: false,
    },
    Known {
        name: "early-settle",
        meaning: "a quiet send counts as complete while the kernel's overflow list holds completions",
        signs: &[],
        focus: Focus::Anything,
        fault: Fault::SendSettledEarly,
        seed_count_max: 100,
        crashes: false,
    },
    Known {
        name: "early-retire",
        meaning: "a segment is retired before the hint that points to it is unlinked",
        signs: &["freed memory is read"],
        focus: Focus::Anything,
        fault: Fault::RetireBeforeUnlink,
        seed_count_max: 100,
        crashes: false,
    },
    Known {
        name: "early-pause",
        meaning: "CLIENT PAUSE replies while running batches may still write",
        signs: &[],
        focus: Focus::Anything,
        fault: Fault::PauseBeforeBarrier,
        seed_count_max: 100,
        crashes: false,
    },
    Known {
        name: "wall-timers",
        meaning: "timers follow the wall clock",
        signs: &[],
        focus: Focus::Anything,
        fault: Fault::WallClockTimers,
        seed_count_max: 100,
        crashes: false,
    },
    Known {
        name: "early-reply",
        meaning: "replies leave before the changes that they show are synchronised",
        signs: &["crash"],
        focus: Focus::Anything,
        fault: Fault::ReplyBeforeSync,
        crashes: true,
        seed_count_max: 60,
    },
    Known {
        name: "early-manifest",
        meaning: "the manifest names a base that is not synchronised",
        signs: &[],
        focus: Focus::Anything,
        fault: Fault::BaseNotSynced,
        crashes: true,
        seed_count_max: 60,
    },
    Known {
        name: "late-effects",
        meaning: "the effects of a command are logged after its latches are released, with those of later commands",
        signs: &["the replayed data differ"],
        focus: Focus::Replays,
        fault: Fault::EffectsLate,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "early-acl",
        meaning: "ACL SETUSER and ACL DELUSER reply while workers may still use the old permissions",
        signs: &[],
        focus: Focus::Load(Load::Rights),
        fault: Fault::UsersBeforeBarrier,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "early-broadcast",
        meaning: "CLIENT TRACKING ON BCAST replies while workers may make changes that they do not broadcast",
        signs: &["is cached for"],
        focus: Focus::Race(Race::Broadcasts),
        fault: Fault::BroadcastBeforeBarrier,
        crashes: false,
        seed_count_max: 250,
    },
    Known {
        name: "unchecked-exec",
        meaning: "EXEC runs commands with the permissions with which they were queued",
        signs: &[],
        focus: Focus::Load(Load::Rights),
        fault: Fault::ExecUnchecked,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "unchecked-waiter",
        meaning: "a blocked request is served with the permissions with which it began to wait",
        signs: &["without its right"],
        focus: Focus::Load(Load::Rights),
        fault: Fault::WaiterUnchecked,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "kept-subscriber",
        meaning: "a subscriber stays when its user may no longer use the channel",
        signs: &["without the right to it"],
        focus: Focus::Load(Load::Rights),
        fault: Fault::SubscriberKept,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "unchecked-script",
        meaning: "a script that has paused continues with the permissions with which it began",
        signs: &["without its right"],
        focus: Focus::Load(Load::Rights),
        fault: Fault::ScriptUnchecked,
        crashes: false,
        seed_count_max: 60,
    },
    Known {
        name: "loose-script",
        meaning: "a script releases its latches while it is paused",
        signs: &[],
        focus: Focus::Load(Load::Scripts),
        fault: Fault::ScriptLetsGo,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "missed-unpause",
        meaning: "a connection that is moved while a pause ends waits on",
        signs: &["blocked without a pause"],
        focus: Focus::Race(Race::Moves),
        fault: Fault::PauseEndMissed,
        crashes: false,
        seed_count_max: 100,
    },
    Known {
        name: "early-busy",
        meaning: "a request is refused with BUSY though the script that holds its slot has just begun",
        signs: &["no script has run for long"],
        focus: Focus::Load(Load::Scripts),
        fault: Fault::BusyEarly,
        crashes: false,
        seed_count_max: 60,
    },
    Known {
        name: "kept-charge",
        meaning: "the memory of a connection that is closed stays charged",
        signs: &["bytes of connections are charged"],
        focus: Focus::Load(Load::Limits),
        fault: Fault::ChargeKept,
        crashes: false,
        seed_count_max: 60,
    },
    Known {
        name: "omitted-wake",
        meaning: "mail does not wake a worker that sleeps",
        signs: &["a reply is late"],
        focus: Focus::Anything,
        fault: Fault::WakeOmitted,
        crashes: false,
        seed_count_max: 60,
    },
];

/// Returns the fault with this name.
#[must_use]
pub fn find(name: &str) -> Option<Fault> {
    ALL.iter().find(|known| known.name == name).map(|known| known.fault)
}
