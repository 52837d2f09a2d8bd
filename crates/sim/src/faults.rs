//! The fixed defects that crates declare in their `faults.rs` and that can be reintroduced, and the number of seeds within which each is found.

use sync::simulation::Fault;

use crate::plan::{Focus, Load, Race};
use crate::run::Scenario;

/// A fixed defect.
pub struct Known {
    /// The defect, declared by its crate: its name is that for `--fault`.
    pub fault: Fault,
    /// Substrings of the failure messages that show it; empty if they vary.
    pub signs: &'static [&'static str],
    /// The load or race that finds it. With it, fewer seeds are needed.
    pub focus: Focus,
    /// What the runs simulate.
    pub scenario: Scenario,
    /// Maximum number of seeds, from 0, until the defect is found; asserted by a test.
    pub seed_count_max: u64,
}

/// All known defects.
pub static ALL: &[Known] = &[
    Known {
        fault: server::faults::LOST_MAIL,
        signs: &["no reply arrived in time", "a reply is late"],
        focus: Focus::Race(Race::Threads),
        seed_count_max: 100,
        scenario: Scenario::Loads,
    },
    Known {
        fault: reactor::faults::EARLY_SETTLE,
        signs: &[],
        focus: Focus::Anything,
        seed_count_max: 100,
        scenario: Scenario::Loads,
    },
    Known {
        fault: collections::faults::EARLY_RETIRE,
        signs: &["freed memory is read"],
        focus: Focus::Anything,
        seed_count_max: 100,
        scenario: Scenario::Loads,
    },
    Known {
        fault: server::faults::EARLY_PAUSE,
        signs: &[],
        focus: Focus::Anything,
        seed_count_max: 100,
        scenario: Scenario::Loads,
    },
    Known {
        fault: server::faults::WALL_TIMERS,
        signs: &[],
        focus: Focus::Anything,
        seed_count_max: 100,
        scenario: Scenario::Loads,
    },
    Known {
        fault: server::faults::EARLY_REPLY,
        signs: &["crash"],
        focus: Focus::Anything,
        scenario: Scenario::Crashes,
        seed_count_max: 60,
    },
    Known {
        fault: server::faults::EARLY_MANIFEST,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Crashes,
        seed_count_max: 60,
    },
    Known {
        fault: keyspace::faults::LATE_EFFECTS,
        // In another order, a change may also meet a value of another type.
        signs: &["the replayed data differ", "the replay does not start"],
        focus: Focus::Replays,
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::EARLY_ACL,
        signs: &[],
        focus: Focus::Load(Load::Rights),
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::EARLY_BROADCAST,
        signs: &["is cached for"],
        focus: Focus::Race(Race::Broadcasts),
        scenario: Scenario::Loads,
        seed_count_max: 250,
    },
    Known {
        fault: server::faults::UNCHECKED_EXEC,
        signs: &[],
        focus: Focus::Load(Load::Rights),
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::UNCHECKED_WAITER,
        signs: &["without its right"],
        focus: Focus::Load(Load::Rights),
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::KEPT_SUBSCRIBER,
        signs: &["without the right to it"],
        focus: Focus::Load(Load::Rights),
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::UNCHECKED_SCRIPT,
        signs: &["without its right"],
        focus: Focus::Load(Load::Rights),
        scenario: Scenario::Loads,
        seed_count_max: 60,
    },
    Known {
        fault: server::faults::LOOSE_SCRIPT,
        signs: &[],
        focus: Focus::Load(Load::Scripts),
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::MISSED_UNPAUSE,
        signs: &["blocked without a pause"],
        focus: Focus::Race(Race::Moves),
        scenario: Scenario::Loads,
        seed_count_max: 100,
    },
    Known {
        fault: server::faults::EARLY_BUSY,
        signs: &["no script has run for long"],
        focus: Focus::Load(Load::Scripts),
        scenario: Scenario::Loads,
        seed_count_max: 60,
    },
    Known {
        fault: sync::faults::KEPT_CHARGE,
        signs: &["bytes of connections are charged"],
        focus: Focus::Load(Load::Limits),
        scenario: Scenario::Loads,
        seed_count_max: 60,
    },
    Known {
        fault: server::faults::OMITTED_WAKE,
        signs: &["a reply is late"],
        focus: Focus::Anything,
        scenario: Scenario::Loads,
        seed_count_max: 60,
    },
    Known {
        fault: replication::faults::LATE_RESUME,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Failovers,
        seed_count_max: 60,
    },
    Known {
        fault: replication::faults::STALE_CUT,
        signs: &[],
        focus: Focus::Race(Race::Cuts),
        scenario: Scenario::Failovers,
        seed_count_max: 150,
    },
    Known {
        fault: replication::faults::ENDLESS_HISTORY,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Failovers,
        seed_count_max: 60,
    },
    Known {
        fault: server::faults::EARLY_WAIT,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Failovers,
        seed_count_max: 60,
    },
    Known {
        fault: server::faults::LOST_SELECT,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Failovers,
        seed_count_max: 60,
    },
    Known {
        fault: server::faults::LATE_WRITES,
        signs: &[],
        focus: Focus::Race(Race::Roles),
        scenario: Scenario::Failovers,
        seed_count_max: 200,
    },
    Known {
        fault: server::faults::SENT_RANGE,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Failovers,
        seed_count_max: 60,
    },
    Known {
        fault: persist::faults::EARLY_MARK,
        signs: &[],
        focus: Focus::Anything,
        scenario: Scenario::Failovers,
        seed_count_max: 60,
    },
];

/// Returns the fault with this name.
#[must_use]
pub fn find(name: &str) -> Option<Fault> {
    ALL.iter().find(|known| known.fault.name == name).map(|known| known.fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_fault_is_known_once() {
        let declared = [
            sync::faults::ALL,
            collections::faults::ALL,
            keyspace::faults::ALL,
            persist::faults::ALL,
            reactor::faults::ALL,
            replication::faults::ALL,
            server::faults::ALL,
        ];
        let mut declared: Vec<&str> = declared.concat().iter().map(|fault| fault.name).collect();
        let mut known: Vec<&str> = ALL.iter().map(|known| known.fault.name).collect();
        declared.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, declared);
        known.dedup();
        assert_eq!(known.len(), declared.len());
    }
}
