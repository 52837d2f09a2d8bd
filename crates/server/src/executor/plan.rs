//! Planning: what is known of the requests of a batch before anything is latched, and the memory they will touch asked for.
//!
//! Touches no data: names, arity and keys only. The memory comes while other keys are planned, so a batch of few requests
//! would wait for it; that is why what arrived together is planned together, before the first of it is executed
//! ([`Executor::foresee`], then [`Executor::follow_foreseen`]).

use base::limits::BATCH_REQUEST_COUNT_MAX;
use collections::Trail;
use commands::command::{Command, find_keys};
use commands::context::PlannedKey;
use commands::index::{Found, Shape};
use commands::table::CommandId;
use wire::request::{Args, Batch, Limits, Parsed, Parser};

use super::Executor;
use crate::connection::Connection;

/// Keys of a batch that are prefetched: more would push each other out of the nearest caches.
const PREFETCHED_KEY_COUNT_MAX: usize = 512;

/// Buckets that are read to find an entry to prefetch: nearly all are in the first four of their path.
const TRAIL_LEN_MAX: usize = 4;

/// Keys up to which a request on several is brief enough to be timed together with others.
const PLAIN_KEY_COUNT_MAX: u32 = 64;

/// Longer input is enough for itself.
const FORESEEN_SIZE_MAX: usize = 4096;

/// A batch of requests and what is known of them.
#[derive(Default)]
pub struct Planned {
    pub(super) batch: Batch,
    /// One for each request.
    pub(super) plans: Vec<Plan>,
    keys: Vec<PlannedKey>,
    pub(super) parsed: Parsed,
    /// For what is left of the input, if it was planned ahead.
    pub(super) parser: Parser,
    /// What the input was held against.
    pub(super) limits: Limits,
}

impl Planned {
    /// The keys of a request.
    #[inline(always)]
    pub(super) fn keys_of(&self, plan: &Plan) -> &[PlannedKey] {
        &self.keys[plan.first_key as usize..][..plan.key_count as usize]
    }

    /// The first key of a request, if it has any.
    #[inline(always)]
    pub(super) fn first_key_of(&self, plan: &Plan) -> Option<PlannedKey> {
        self.keys.get(plan.first_key as usize).copied()
    }
}

/// What is known of a request before anything is latched.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) command: Option<&'static Command>,
    pub(super) id: CommandId,
    pub(super) shape: Shape,
    pub(super) refusal: Refusal,
    /// It touches keys, never takes long, and means nothing for the connection: see `plain.rs`.
    pub(super) is_plain: bool,
    first_key: u32,
    pub(super) key_count: u32,
}

impl Plan {
    /// The plan to run a command; its keys, if it has any, are pushed next.
    #[inline(always)]
    fn to_run(found: Found, first_key: usize) -> Self {
        Self {
            command: Some(found.command),
            id: found.id,
            shape: found.shape,
            refusal: Refusal::None,
            is_plain: false,
            first_key: first_key as u32,
            key_count: 0,
        }
    }

    /// The command, if there is such a one.
    #[inline(always)]
    pub(super) fn found(&self) -> Option<Found> {
        self.command.map(|command| Found { command, id: self.id, shape: self.shape })
    }
}

/// Why a request is refused whatever the state of its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    None,
    Unknown,
    UnknownSub,
    Arity,
    Keys,
}

impl Executor {
    /// Plans the requests at the front of `bytes`, and asks for the memory they will touch, in passes: first for the
    /// slots, then for the buckets, then for the entries of all.
    pub(super) fn plan(&mut self, parser: &mut Parser, bytes: &[u8], limits: Limits) -> Box<Planned> {
        let mut planned = self.spare_plans.pop().unwrap_or_default();
        self.plan_batch(&mut planned, parser, bytes, limits);
        if planned.keys.len() > 1 {
            let hashes = planned.keys.iter().take(PREFETCHED_KEY_COUNT_MAX).map(|key| key.hash);
            self.prefetch(hashes);
        }
        planned
    }

    /// Cuts the input into requests, and looks up each one's command and keys.
    fn plan_batch(&mut self, planned: &mut Planned, parser: &mut Parser, bytes: &[u8], limits: Limits) {
        let Planned { batch, plans, keys, .. } = planned;
        batch.clear();
        planned.parsed = parser.parse(bytes, &limits, batch, BATCH_REQUEST_COUNT_MAX);
        planned.limits = limits;
        plans.clear();
        keys.clear();
        plans.reserve(batch.len());
        keys.reserve(batch.len());
        for args in batch.args_from(0, bytes) {
            match self.shared.commands.find(args.name()) {
                Some(found) if found.shape == Shape::OneKey && found.command.accepts(args.len()) => {
                    let plan = Plan::to_run(found, keys.len());
                    plans.push(Plan { key_count: 1, is_plain: true, ..plan });
                    keys.push(self.planned_key(args, 1));
                }
                found => plans.push(self.plan_request(found, args, keys)),
            }
        }
    }

    /// The plan of a request that is not just of one key.
    #[inline(never)]
    fn plan_request(&mut self, found: Option<Found>, args: Args<'_>, keys: &mut Vec<PlannedKey>) -> Plan {
        let first_key = keys.len();
        let Some(mut found) = found else {
            let (command, id) = (None, CommandId(0));
            let (first_key, key_count) = (first_key as u32, 0);
            let (shape, refusal, is_plain) = (Shape::Other, Refusal::Unknown, false);
            return Plan { command, id, shape, refusal, is_plain, first_key, key_count };
        };
        let mut refusal = Refusal::None;
        if !found.command.subcommands.is_empty() && args.len() > 1 {
            match self.shared.commands.find_sub(found, args.at(1)) {
                Some(sub) => found = sub,
                None => refusal = Refusal::UnknownSub,
            }
        }
        let mut plan = Plan { refusal, ..Plan::to_run(found, first_key) };
        if plan.refusal != Refusal::None {
            return plan;
        }
        let command = found.command;
        if !command.accepts(args.len()) {
            plan.refusal = Refusal::Arity;
            return plan;
        }
        if !command.keys.is_empty() {
            let mut indexes = std::mem::take(&mut self.found);
            indexes.clear();
            if !find_keys(command, args, &mut indexes) {
                plan.refusal = Refusal::Keys;
            }
            keys.extend(indexes.iter().map(|index| self.planned_key(args, *index)));
            self.found = indexes;
        }
        plan.key_count = (keys.len() - first_key) as u32;
        plan.is_plain = found.shape != Shape::Other
            && plan.refusal == Refusal::None
            && (1..=PLAIN_KEY_COUNT_MAX).contains(&plan.key_count);
        plan
    }

    /// A key, whose slot is asked for.
    #[inline(always)]
    fn planned_key(&self, args: Args<'_>, arg: u32) -> PlannedKey {
        let keyspace = &self.shared.keyspace;
        let hash = keyspace.hasher().hash(args.at(arg as usize));
        keyspace.prefetch_slot(hash);
        PlannedKey { hash, arg }
    }

    /// Plans input that is to be executed in this turn, if it is not long; [`Self::follow_foreseen`] goes on from there. It
    /// need not be what is executed: something may come in between.
    #[must_use]
    pub fn foresee(&mut self, connection: &Connection, bytes: &[u8]) -> Option<Box<Planned>> {
        if bytes.len() > FORESEEN_SIZE_MAX || !connection.query.is_empty() || connection.is_waiting() {
            return None;
        }
        let mut planned = self.spare_plans.pop().unwrap_or_default();
        let mut parser = std::mem::take(&mut planned.parser);
        parser.reset();
        self.plan_batch(&mut planned, &mut parser, bytes, self.limits_of(connection));
        planned.parser = parser;
        self.foreseen.extend(planned.keys.iter().map(|key| key.hash));
        Some(planned)
    }

    /// Asks for the entries of what was foreseen.
    pub fn follow_foreseen(&mut self) {
        if self.foreseen.len() > 1 {
            let foreseen = std::mem::take(&mut self.foreseen);
            self.prefetch(foreseen.iter().copied());
            self.foreseen = foreseen;
        }
        self.foreseen.clear();
    }

    /// Asks for the buckets of these keys, then for their entries; once for a key that comes again and again.
    #[inline(always)]
    fn prefetch(&mut self, hashes: impl Iterator<Item = u64>) {
        let keyspace = &self.shared.keyspace;
        let mut before = None;
        let others = hashes.filter(|hash| before.replace(*hash) != Some(*hash));
        self.trails.clear();
        self.trails.extend(others.map(|hash| keyspace.trail(hash)));
        for _ in 0..TRAIL_LEN_MAX {
            self.trails.retain_mut(Trail::follow);
        }
    }
}
