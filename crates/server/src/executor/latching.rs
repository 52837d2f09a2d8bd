//! The latches that a request needs: those of its keys, all, or the union for the commands of a transaction.
//!
//! Never waits: a latch that is taken is returned, for the caller to park.

use base::Slot;
use base::limits::SLOT_COUNT;
use commands::command::{Access, Flags};
use commands::context::PlannedKey;
use commands::session::Queued;
use keyspace::{Busy, Latched, Latches, SCRIPT_TOKEN};
use sync::Mode;

use super::{CurrentRequest, Executor};
use crate::connection::client::Client;
use crate::script_runs::{ScriptPlan, WorkerScripts};
use crate::scripts::ScriptLatches;

impl Executor {
    /// Releases the latches of a request that has run, unless it keeps them while it waits.
    #[inline(always)]
    pub(super) fn release_or_keep(&mut self, client: &mut Client) {
        if client.keeps_latches() {
            self.latching.log_effects();
            client.wait.begin().held_latches = Some(self.latching.keep());
        }
        self.latching.release();
    }

    /// Latches the command's slots in ascending order, beginning after those it already holds.
    pub(super) fn latch(
        &mut self,
        (access, current): (Access, CurrentRequest<'_>),
        client: &Client,
    ) -> Result<(), (Busy, Mode)> {
        let keys = current.keys;
        let (access, is_extended) = match access {
            Access::Script { .. } => self.access_of_script(current, client),
            Access::Libraries => (Access::Write, true),
            access => (access, false),
        };
        let mode = match access {
            Access::None | Access::Connections | Access::KeyCount | Access::RandomKeys => return Ok(()),
            Access::Read if client.attempt.for_writing => Mode::Write,
            // The readers of a key are recorded in its slot.
            Access::Read if client.session.tracks_reads() => Mode::Write,
            Access::ReadAll if client.session.tracks_reads() && !keys.is_empty() => Mode::Write,
            Access::Read | Access::ReadAll => Mode::Read,
            Access::Write | Access::WriteAll => Mode::Write,
            Access::Queued => return self.latch_queued(client),
            Access::ReadAllIf(_) | Access::WriteAllIf(_) | Access::Script { .. } | Access::Libraries => {
                unreachable!("settled for the request")
            }
        };
        let failed = |busy| (busy, mode);
        if matches!(access, Access::ReadAll | Access::WriteAll) {
            return self.latching.latch_all(mode).map_err(failed);
        }
        if is_extended || (client.attempt.tries.keeps_latches() && keys.len() > 1) {
            self.slots.clear();
            match &client.attempt.script_latches {
                // A script that may write needs the token, whatever its connection's last one was run again with.
                ScriptLatches::Further(slots) if is_extended && matches!(access, Access::Read) => {
                    self.slots.extend(slots.iter().copied());
                }
                _ => self.slots.push(SCRIPT_TOKEN),
            }
            if client.attempt.tries.keeps_latches() {
                self.slots.push(SCRIPT_TOKEN);
            }
            self.slots.extend(keys.iter().map(|key| key.slot()));
            let (latches, data) = self.latching.split();
            return latch_in_order(latches, data, &mut self.slots, mode).map_err(failed);
        }
        match keys {
            [] => Ok(()),
            [key] if self.latching.holds_nothing() => self.latching.latch(key.slot(), mode).map_err(failed),
            [_] => Ok(()),
            keys => {
                let (latches, data) = self.latching.split();
                latch_keys(latches, data, keys, mode, &mut self.slots).map_err(failed)
            }
        }
    }

    /// The access of a request that runs a script, and whether it needs the token or further slots.
    fn access_of_script(&mut self, current: CurrentRequest<'_>, client: &Client) -> (Access, bool) {
        let CurrentRequest { found, args, .. } = current;
        match self.scripts.plan(found, args, &client.session, &client.attempt.script_latches) {
            ScriptPlan::Nothing => (Access::None, false),
            ScriptPlan::Declared(Mode::Read) => (Access::Read, false),
            ScriptPlan::Declared(Mode::Write) => (Access::Write, false),
            ScriptPlan::WithToken => (Access::Write, true),
            ScriptPlan::Further => (Access::Read, true),
            ScriptPlan::Everything(Mode::Read) => (Access::ReadAll, false),
            ScriptPlan::Everything(Mode::Write) => (Access::WriteAll, false),
        }
    }

    /// Latches the union of the slots of the queued commands and the watched keys of a transaction, all
    /// in the strongest mode.
    fn latch_queued(&mut self, client: &Client) -> Result<(), (Busy, Mode)> {
        let session = &client.session;
        let Some(queue) = session.multi.as_ref().filter(|_| !session.is_doomed()) else { return Ok(()) };
        let mut mode = Mode::Read;
        let mut everything = false;
        self.slots.clear();
        let mut changes_libraries = false;
        // The database of the commands that observe the whole keyspace, but need no latch.
        let (mut counts_keys, mut samples_keys, mut selects) = (false, false, false);
        if queue.iter().any(|queued| WorkerScripts::is_function(queued.found)) {
            changes_libraries = queue.iter().any(|queued| queued.found.command.access == Access::Libraries);
            // First, as what is known of functions stays true as long as it is held.
            self.slots.push(SCRIPT_TOKEN);
            let (latches, data) = self.latching.split();
            latch_in_order(latches, data, &mut self.slots, Mode::Write)
                .map_err(|busy| (busy, Mode::Write))?;
        }
        for queued in queue.iter() {
            let command = queued.found.command;
            match command.access.of_request(queued.args) {
                // SCAN and the like: a transaction sees one instant even there.
                Access::None => everything |= command.flags.contains(Flags::READONLY),
                Access::Queued | Access::Read | Access::Connections => {}
                Access::KeyCount => counts_keys = true,
                Access::RandomKeys => samples_keys = true,
                Access::Write => mode = Mode::Write,
                Access::ReadAll => everything = true,
                Access::WriteAll => (everything, mode) = (true, Mode::Write),
                Access::Libraries => {
                    mode = Mode::Write;
                    self.slots.push(SCRIPT_TOKEN);
                }
                Access::ReadAllIf(_) | Access::WriteAllIf(_) => unreachable!("settled for the request"),
                Access::Script { .. } => {
                    mode = Mode::Write;
                    // It can't be run again with other latches there. What the transaction loads is not known yet.
                    let is_loaded_here = changes_libraries && WorkerScripts::is_function(queued.found);
                    everything |= is_loaded_here || !self.scripts.keeps_to_keys(queued.found, queued.args);
                }
            }
            selects |= command.flags.contains(Flags::SELECTS_DB);
            self.slots.extend(queued.keys.iter().map(|key| key.slot()));
        }
        // Both together would show two instants, and a script may pause, so that other commands run meanwhile.
        everything |= counts_keys && samples_keys;
        if counts_keys || samples_keys {
            everything |= selects || queue.runs_scripts() || client.attempt.tries.keeps_latches();
        }
        let begins_tracking =
            |queued: Queued<'_>| queued.found.command.flags.contains(Flags::BEGINS_TRACKING);
        if session.tracking.is_some() || queue.iter().any(begins_tracking) {
            mode = Mode::Write;
        }
        // A read deletes an expired key before the keys are counted.
        if (everything || counts_keys) && self.latching.population(session.db).volatile > 0 {
            mode = Mode::Write;
        }
        if let Some(watching) = &session.watching {
            // The watches are removed from the slots' lists, too.
            mode = Mode::Write;
            self.slots.extend(watching.slots());
        }
        if client.attempt.tries.keeps_latches() {
            self.slots.push(SCRIPT_TOKEN);
        }
        if everything {
            return self.latching.latch_all(mode).map_err(|busy| (busy, mode));
        }
        let (latches, data) = self.latching.split();
        latch_in_order(latches, data, &mut self.slots, mode).map_err(|busy| (busy, mode))?;
        let is_of_one_instant = (!counts_keys || data.fix_key_count(session.db, mode == Mode::Write))
            && (!samples_keys || data.keep_sampled_slots(session.db));
        if !is_of_one_instant {
            latches.release(data);
            return self.latching.latch_all(mode).map_err(|busy| (busy, mode));
        }
        Ok(())
    }
}

/// Latches the slots of several keys: all at once if they are free, otherwise in ascending order, each once.
pub(super) fn latch_keys<'k>(
    latches: &mut Latches<'k>,
    data: &mut Latched<'k>,
    keys: &[PlannedKey],
    mode: Mode,
    slots: &mut Vec<Slot>,
) -> Result<(), Busy> {
    let wanted = keys.iter().map(|key| key.slot());
    if data.holds_nothing() && latches.latch_at_once(data, wanted.clone(), mode) {
        return Ok(());
    }
    slots.clear();
    slots.extend(wanted);
    latch_in_order(latches, data, slots, mode)
}

/// Latches these slots in ascending order, each once.
pub(super) fn latch_in_order<'k>(
    latches: &mut Latches<'k>,
    data: &mut Latched<'k>,
    slots: &mut Vec<Slot>,
    mode: Mode,
) -> Result<(), Busy> {
    put_in_order(slots);
    latches.latch_several(data, slots.iter().copied(), mode)
}

/// The number of slots from which on a bitmap of all slots is cheaper than sorting.
const MANY: usize = 512;

/// Sorts the slots and removes duplicates.
pub(super) fn put_in_order(slots: &mut Vec<Slot>) {
    if slots.len() < MANY {
        slots.sort_unstable();
        slots.dedup();
        return;
    }
    let mut wanted = [0_u64; SLOT_COUNT / 64];
    for slot in slots.drain(..) {
        wanted[slot.index() / 64] |= 1 << (slot.index() % 64);
    }
    for (place, word) in wanted.into_iter().enumerate() {
        let mut left = word;
        while left != 0 {
            slots.push(Slot::new((64 * place) as u16 + left.trailing_zeros() as u16));
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_many_slots_agrees_with_sorting_few() {
        for len in [0, 1, 2, MANY - 1, MANY, 4 * MANY, 3 * SLOT_COUNT] {
            let slot = |number: usize| Slot::new((number * 7_919 % 9_973) as u16);
            let mut slots: Vec<Slot> = (0..len).map(slot).collect();
            let mut expected = slots.clone();
            expected.sort_unstable();
            expected.dedup();
            put_in_order(&mut slots);
            assert_eq!(slots, expected);
        }
    }
}
