//! Runs of plain requests: simple commands on keys, from a connection with nothing switched on, on a server that needs
//! no attention. The same steps as for every request (latch, run, let go, report), inlined, with what is the same for
//! all of them done once: one context, one look at the flags, one reading of the clock for each run of one command. A
//! latch is kept for the next request on the same slot, so that a hot key is not latched again and again.

use commands::command::Access;
use commands::context::Ctx;
use commands::error::CommandError;
use commands::host::Host;
use commands::reply::Reply;
use commands::table::CommandId;
use keyspace::{PRELOADED_KEY_COUNT_MAX, slot_of_hash};
use reactor::clock::Ticks;
use sync::Mode;
use wire::reply::ReplyBuffer;

use super::Executor;
use super::ahead::Ahead;
use super::latching::latch_keys;
use super::plan::Planned;
use super::serving::Serving;
use crate::command_log::Cost;
use crate::connection::Connection;
use crate::statistics::ThreadStatistics;

/// Consecutive executions of one command.
struct Run {
    id: CommandId,
    calls: u64,
}

impl Executor {
    /// Whether plain requests of this connection can be run as such now.
    #[inline]
    pub(super) fn is_plain(&self, connection: &Connection) -> bool {
        let session = &connection.session;
        session.authenticated
            && session.flags.is_empty()
            && session.multi.is_none()
            && self.has_room
            && self.shared.attention.load() == 0
            && !self.shared.hub.is_congested()
            && self.view.holds_nothing()
    }

    /// Runs the plain requests from `index` on. Returns the first that is not plain, or that has to wait for a latch.
    pub(super) fn run_plain(
        &mut self,
        connection: &mut Connection,
        planned: &Planned,
        bytes: &[u8],
        index: usize,
        started: &mut Ticks,
        host: &dyn Host,
    ) -> usize {
        let first = index;
        let mut index = index;
        let mut closer_look = None;
        let mut run = Run { id: CommandId(0), calls: 0 };
        let protocol = connection.session.protocol;
        self.view.touch = true;
        let (out, lent) = (&mut connection.out, &mut connection.lent);
        let Planned { batch, plans, .. } = planned;
        let Some(plan) = plans.get(index).filter(|plan| plan.is_plain) else { return index };
        let Some(found) = plan.found() else { return index };
        let mut ctx = Ctx {
            data: &mut self.view,
            session: &mut connection.session,
            config: &self.config,
            host,
            command: found.command,
            planned: &[],
            args: batch.args(index, bytes),
            effects: &mut self.effects,
            hasher: self.shared.keyspace.hasher(),
        };
        for plan in &plans[first..] {
            let Some(command) = plan.command.filter(|_| plan.is_plain) else { break };
            // Of several keys in two parts: all at once would be too much.
            let (first_key, half) = (planned.first_announced_of(plan), plan.key_count.div_ceil(2));
            self.approach.reach(&self.shared.keyspace, first_key, half);
            if (index - first).is_multiple_of(PRELOADED_KEY_COUNT_MAX) {
                ctx.data.release();
                let ahead = Ahead { planned, bytes, db: ctx.session.db };
                ahead.preload(&self.shared.keyspace, index);
            }
            let keys = planned.keys_of(plan);
            let mode = if command.access == Access::Read { Mode::Read } else { Mode::Write };
            let latched = if let [key] = keys {
                ctx.data.latch_next(slot_of_hash(key.hash), mode)
            } else {
                ctx.data.release();
                let latched = latch_keys(ctx.data, keys, mode, &mut self.slots);
                let rest = first_key + u64::from(half);
                self.approach.reach(&self.shared.keyspace, rest, plan.key_count - half);
                latched
            };
            if latched.is_err() {
                break;
            }
            let args = batch.args(index, bytes);
            let mark = out.len();
            ctx.command = command;
            ctx.planned = keys;
            ctx.args = args;
            ctx.effects.has_emptied = false;
            let result = (command.run)(&mut ctx, args, Reply::new(ReplyBuffer::new(out, protocol)));
            if ctx.data.has_ready() {
                let mut serving = Serving {
                    view: &mut *ctx.data,
                    effects: &mut *ctx.effects,
                    config: &self.config,
                    host,
                    shared: self.shared,
                    statistics: self.statistics,
                    stand_in: &mut self.stand_in,
                };
                serving.serve_ready();
            }
            if plan.id != run.id {
                run.end(self.statistics, started);
                run.id = plan.id;
                self.statistics.current_command.set(u64::from(plan.id.0) + 1);
            }
            run.calls += 1;
            index += 1;
            if let Err(error) = result {
                ctx.effects.lending.lent().forget_since(mark);
                out.truncate(mark);
                ReplyBuffer::new(out, protocol).error(error.text());
                self.statistics.command(plan.id).failed.add(1);
                self.statistics.errors.add(1);
                self.shared.errors.count(CommandError::code(&error));
            }
            let request = batch.request(index - 1);
            let (mut reply_size, request_size) = (out.len() - mark, request.end() - request.start());
            let newly_lent = ctx.effects.lending.lent();
            let has_lent = !newly_lent.is_empty();
            if has_lent {
                reply_size += newly_lent.size_since(mark);
                lent.append(newly_lent);
            }
            if reply_size > self.large_reply_size || request_size > self.large_request_size {
                closer_look = Some((reply_size, request_size));
                break;
            }
            // What a read found expired is deleted, and told of, before the next request.
            if out.len() > super::OUTPUT_YIELD_SIZE || has_lent || ctx.data.saw_expired.get() {
                break;
            }
        }
        ctx.data.release();
        let ns = run.end(self.statistics, started);
        ctx.session.last_command = Some(run.id);
        ctx.session.command_count += (index - first) as u64;
        self.statistics.commands_processed.add((index - first) as u64);
        if self.effects.dirty > 0 {
            self.view.counters.dirty.add(std::mem::take(&mut self.effects.dirty));
        }
        if !self.view.garbage.is_empty() {
            self.free_garbage();
        }
        if self.view.saw_expired.get() && index > first {
            let keys = planned.keys_of(&plans[index - 1]);
            self.delete_expired(connection, keys, batch.args(index - 1, bytes));
        }
        if index > first && (closer_look.is_some() || ns >= self.slow_ns) {
            let Some(found) = plans[index - 1].found() else { return index };
            let (reply_size, request_size) = closer_look.unwrap_or_default();
            let cost = Cost { ns, reply_size, request_size };
            self.log_command(connection, found, batch.args(index - 1, bytes), cost);
        }
        index
    }
}

impl Run {
    /// Counts the run, and begins a new one. Returns how long one of its executions took.
    #[inline]
    fn end(&mut self, statistics: &ThreadStatistics, started: &mut Ticks) -> u64 {
        if self.calls == 0 {
            return 0;
        }
        let now = Ticks::now();
        let ns = now.ns_since(*started);
        *started = now;
        statistics.ran(self.id, self.calls, ns);
        ns / std::mem::take(&mut self.calls)
    }
}
