//! Transactions that arrive as a whole: `MULTI`, plain requests and `EXEC` in one batch, from a
//! connection without special modes. They are run in place, with nothing queued. The steps (latch, check
//! the watched keys, run, release, report) and the replies are those of a transaction that arrives in parts.
//!
//! `WATCH` directly before such a transaction is part of it: all latches are taken before its first key is watched
//! and kept until `EXEC` has run, so no watched key can change in between, and no watch is recorded.
//!
//! Invariant: a transaction that can't be latched at once, or is not plain, is left untouched for the general path.

use base::Slot;
use commands::command::{Access, Flags};
use commands::context::PlannedKey;
use commands::host::Host;
use commands::run::RunFor;
use commands::session::SessionFlags;
use os::clock::Ticks;
use sync::Mode;
use wire::reply::ReplyBuffer;

use super::handler::{context, run_handler};
use super::latching::{latch_in_order, latch_keys};
use super::plan::{PLAIN_KEY_COUNT_MAX, Plan, PlanRefusal, Planned, RequestPlace};
use super::{CurrentRequest, Executor};
use crate::connection::client::Client;
use crate::monitoring::command_log::Cost;
use crate::shared::modes::GlobalFlags;

/// A transaction that is completely in a batch.
struct Whole {
    /// The index of the plan of `WATCH`, if there is one directly before `MULTI`.
    watch: Option<usize>,
    /// The index of the plan of `MULTI`.
    multi: usize,
    /// The index of the plan of `EXEC`; those of its requests are between it and that of `MULTI`.
    exec: usize,
    /// Number of requests in between.
    count: usize,
    /// The mode in which their keys are latched.
    mode: Mode,
}

impl Executor {
    /// If the request at `place` begins a transaction that is complete in the batch and can be run now,
    /// runs it and returns the place after it.
    #[inline(never)]
    pub(super) fn run_transaction(
        &mut self,
        client: &mut Client,
        planned: &Planned,
        bytes: &[u8],
        place: RequestPlace,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> Option<RequestPlace> {
        if client.session.login.user.is_restricted() {
            return None;
        }
        let whole = self.whole_transaction(planned, place)?;
        if whole.watch.is_some() && client.session.watching.is_some() {
            return None;
        }
        if whole.mode == Mode::Write && self.modes_of(client) & GlobalFlags::READ_ONLY != 0 {
            return None;
        }
        self.follow_promotion();
        let first_at = whole.watch.unwrap_or(whole.multi + 1);
        let (first, exec) = (&planned.plans[first_at], &planned.plans[whole.exec]);
        let size = exec.requests.range_of(0).end - first.requests.range_of(0).start;
        if !self.eviction().has_room_for(size) {
            return None;
        }
        let keys = planned.keys_between(first_at, whole.exec);
        let first_key = planned.first_announced_of(first, 0);
        self.planner.pipeline.advance(&self.latching, first_key, keys.len() as u32);
        self.planner.pipeline.apply_hints(keys, first_key);
        if !self.latch_transaction(client, keys, whole.mode) {
            self.latching.release();
            return None;
        }
        let protocol = client.session.protocol;
        if let Some(watch) = whole.watch {
            self.report_watch(client, planned, bytes, watch, started);
        }
        let mark = client.replies.bytes.len();
        let mut out = ReplyBuffer::new(&mut client.replies.bytes, protocol);
        out.simple("OK");
        (0..whole.count).for_each(|_| out.simple("QUEUED"));
        let exec_mark = client.replies.bytes.len();
        let began = Ticks::now();
        self.statistics.ran(self.planner.multi_id, 1, began.ns_since(*started));
        self.statistics.current.command.set(u64::from(exec.id.0) + 1);
        *started = began;
        self.latching.mode.touch = true;
        let watching = client.session.watching.take();
        let has_changed = watching.as_ref().is_some_and(|watching| self.latching.has_changed(watching));
        if let Some(watching) = watching {
            self.latching.unwatch(*watching);
        }
        if has_changed {
            ReplyBuffer::new(&mut client.replies.bytes, protocol).null_array();
        } else {
            ReplyBuffer::new(&mut client.replies.bytes, protocol).array(whole.count);
            client.session.flags.insert(SessionFlags::IN_EXEC);
            self.latching.effects.begin_transaction();
            for at in whole.multi + 1..whole.exec {
                self.run_part(client, planned, bytes, at, started, host);
            }
            self.latching.effects.end_transaction();
            client.session.flags.remove(SessionFlags::IN_EXEC);
        }
        if self.latching.has_ready() {
            self.serve_ready(host);
        }
        self.latching.release();
        client.replies.parts.append(self.effects.shared_replies.parts());
        client.session.ran.last = Some(exec.id);
        client.session.ran.count += 2;
        let ns = started.ns_since(began);
        self.refresh_time(*started);
        self.statistics.ran(exec.id, 1, ns);
        self.follow_release(client);
        let args = planned.args(exec, 0, bytes);
        let reply_size = client.replies.bytes.len() - exec_mark + client.replies.parts.size_since(mark);
        let cost = Cost { ns, reply_size, request_size: exec.requests.size() };
        self.log_if_notable(client, exec.found()?, args, cost);
        Some(planned.behind(RequestPlace { plan: whole.exec, nth: 0 }, 1))
    }

    /// Latches the keys of a transaction and those watched before it, if all latches are free now.
    fn latch_transaction(&mut self, client: &Client, keys: &[PlannedKey], mode: Mode) -> bool {
        let Some(watching) = &client.session.watching else {
            return match keys {
                [key] => self.latching.latch(key.slot(), mode).is_ok(),
                keys => {
                    let (latches, data) = self.latching.split();
                    latch_keys(latches, data, keys, mode, &mut self.slots).is_ok()
                }
            };
        };
        self.slots.clear();
        self.slots.extend(keys.iter().map(|key| key.slot()));
        self.slots.extend(watching.slots());
        let slots: &mut Vec<Slot> = &mut self.slots;
        // The watches are removed from the slots' lists, too.
        let (latches, data) = self.latching.split();
        latches.latch_at_once(data, slots.iter().copied(), Mode::Write)
            || latch_in_order(latches, data, slots, Mode::Write).is_ok()
    }

    /// Answers and counts the `WATCH` requests of a plan. Their keys are latched until `EXEC` has run.
    fn report_watch(
        &mut self,
        client: &mut Client,
        planned: &Planned,
        bytes: &[u8],
        at: usize,
        started: &mut Ticks,
    ) {
        let plan = &planned.plans[at];
        let Some(found) = plan.found() else { return };
        let count = plan.requests.count();
        let mark = client.replies.bytes.len();
        let mut out = ReplyBuffer::new(&mut client.replies.bytes, client.session.protocol);
        (0..count).for_each(|_| out.simple("OK"));
        let reply_size = (client.replies.bytes.len() - mark) / count;
        let now = Ticks::now();
        let ns = now.ns_since(*started) / count as u64;
        *started = now;
        self.statistics.ran(plan.id, count as u64, ns * count as u64);
        client.session.ran.count += count as u64;
        let cost = Cost { ns, reply_size, request_size: plan.requests.size() };
        self.log_if_notable(client, found, planned.args(plan, 0, bytes), cost);
    }

    /// Runs the requests of one plan as parts of a transaction.
    #[inline(always)]
    fn run_part(
        &mut self,
        client: &mut Client,
        planned: &Planned,
        bytes: &[u8],
        at: usize,
        started: &mut Ticks,
        host: &dyn Host,
    ) {
        let plan = &planned.plans[at];
        let Some(found) = plan.found() else { return };
        let (protocol, size) = (client.session.protocol, plan.requests.size());
        let mut largest = (0, 0);
        for (nth, (args, keys)) in planned.requests_from(plan, 0, bytes).enumerate() {
            let mark = client.replies.bytes.len();
            let current = CurrentRequest { found, args, keys, size, raw: &[] };
            let (data, session) = ((&mut *self.latching, &mut self.effects), &mut client.session);
            let mut ctx = context(data, session, &self.settings.config, host, self.shared, current);
            let out = (&mut client.replies.bytes, protocol);
            run_handler(&mut ctx, out, RunFor::Part, self.shared, self.statistics);
            let reply_size =
                client.replies.bytes.len() - mark + self.effects.shared_replies.parts().size_since(mark);
            largest = largest.max((reply_size, nth));
        }
        let count = plan.requests.count() as u64;
        let now = Ticks::now();
        let ns = now.ns_since(*started) / count;
        *started = now;
        self.statistics.ran(plan.id, count, ns * count);
        let (reply_size, nth) = largest;
        let cost = Cost { ns, reply_size, request_size: size };
        self.log_if_notable(client, found, planned.args(plan, nth, bytes), cost);
    }

    /// Returns the transaction that `MULTI`, or `WATCH` directly before it, begins at this place, if it is complete
    /// and plain.
    fn whole_transaction(&self, planned: &Planned, place: RequestPlace) -> Option<Whole> {
        let is_watch =
            |plan: &Plan| plan.id == self.planner.watch_id && plan.key_count <= PLAIN_KEY_COUNT_MAX;
        let watch = is_watch(&planned.plans[place.plan]).then_some(place.plan);
        let multi = place.plan + usize::from(watch.is_some());
        let plan = planned.plans.get(multi)?;
        if place.nth > 0 || plan.id != self.planner.multi_id || plan.refusal != PlanRefusal::None {
            return None;
        }
        let (mut count, mut mode) = (0, Mode::Read);
        for (at, plan) in planned.plans.iter().enumerate().skip(multi + 1) {
            let command = plan.command.filter(|_| plan.refusal == PlanRefusal::None)?;
            if command.access == Access::Queued {
                return (count > 0).then_some(Whole { watch, multi, exec: at, count, mode });
            }
            if !plan.is_plain || command.flags.intersects(Flags::NO_MULTI | Flags::NO_QUEUE) {
                return None;
            }
            if command.access == Access::Write {
                mode = Mode::Write;
            }
            count += plan.requests.count();
        }
        None
    }
}
