//! Planning: determines the facts of the requests of a batch before anything is latched, and prefetches their memory.
//!
//! Touches no data: names, arity and keys only. The memory arrives in the caches while other requests
//! are planned and run. A batch of few requests would wait for it; therefore input that arrived together
//! is planned ahead ([`Executor::plan_ahead`]).

use base::DbIndex;
use base::limits::BATCH_REQUEST_COUNT_MAX;
use commands::command::{Command, find_keys};
use commands::context::PlannedKey;
use commands::index::{Found, PlanKind};
use commands::table::CommandId;
use keyspace::{Hints, KeyHasher};
use wire::request::{Args, Batch, Parsed, Parser, RequestLimits, Series};

use super::Executor;
use crate::connection::Connection;

/// Requests with more keys are not brief enough to be timed together with others.
pub(super) const PLAIN_KEY_COUNT_MAX: u32 = 64;

/// Longer input is not planned ahead: it is long enough to overlap its own prefetches.
const FORESEEN_SIZE_MAX: usize = 16 << 10;

/// The capacity for arguments, keys and plans that is kept for later batches.
pub(super) const KEPT_COUNT_MAX: usize = 4096;

/// A batch of requests and their plans.
#[derive(Default)]
pub struct Planned {
    pub(super) batch: Batch,
    /// The plans of all requests, in order.
    pub(super) plans: Vec<Plan>,
    keys: Vec<PlannedKey>,
    /// The number of the first key in the prefetch pipeline.
    first_announced: u64,
    pub(super) parsed: Parsed,
    /// For the rest of the input, if it was planned ahead.
    pub(super) parser: Parser,
    /// The limits that the input was checked against.
    pub(super) limits: RequestLimits,
}

/// A request of a batch: the `nth` request of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) plan: usize,
    pub(super) nth: usize,
}

impl Planned {
    /// The arguments of a request.
    #[inline(always)]
    pub(super) fn args<'a>(&'a self, plan: &Plan, nth: usize, bytes: &'a [u8]) -> Args<'a> {
        self.batch.args(&plan.requests, nth, bytes)
    }

    /// The keys of a request.
    #[inline(always)]
    pub(super) fn keys_of(&self, plan: &Plan, nth: usize) -> &[PlannedKey] {
        &self.keys[plan.first_key(nth)..][..plan.key_count as usize]
    }

    /// Arguments and keys of the requests of a plan, from the `nth` on.
    #[inline(always)]
    pub(super) fn requests_from<'a>(
        &'a self,
        plan: &Plan,
        nth: usize,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (Args<'a>, &'a [PlannedKey])> {
        let key_count = plan.key_count as usize;
        let mut keys = &self.keys[plan.first_key(nth)..];
        self.batch.args_from(&plan.requests, nth, bytes).map(move |args| {
            let (own, behind) = keys.split_at(key_count);
            keys = behind;
            (args, own)
        })
    }

    /// The keys of all requests of the consecutive plans from `first` up to `end`.
    pub(super) fn keys_between(&self, first: usize, end: usize) -> &[PlannedKey] {
        let plans = &self.plans[first..end];
        let count = plans.iter().map(|plan| plan.key_count as usize * plan.requests.count()).sum();
        plans.first().map_or(&[], |plan| &self.keys[plan.first_key(0)..][..count])
    }

    /// The first key of a request, if it has any.
    pub(super) fn first_key_of(&self, plan: &Plan, nth: usize) -> Option<&PlannedKey> {
        self.keys.get(plan.first_key(nth))
    }

    /// The number of a request's first key in the prefetch pipeline.
    #[inline(always)]
    pub(super) fn first_announced_of(&self, plan: &Plan, nth: usize) -> u64 {
        self.first_announced + plan.first_key(nth) as u64
    }

    /// Drops the batch, and frees the memory that only a large one needs.
    pub(super) fn trim(&mut self) {
        self.batch.clear();
        self.batch.shrink(KEPT_COUNT_MAX);
        self.plans.clear();
        self.plans.shrink_to(KEPT_COUNT_MAX);
        self.keys.clear();
        self.keys.shrink_to(KEPT_COUNT_MAX);
    }

    /// The place `count` requests after `place`.
    pub(super) fn behind(&self, place: Place, count: usize) -> Place {
        let mut place = Place { nth: place.nth + count, ..place };
        while let Some(plan) = self.plans.get(place.plan)
            && let Some(nth) = place.nth.checked_sub(plan.requests.count())
        {
            place = Place { plan: place.plan + 1, nth };
        }
        place
    }
}

/// The facts known of requests of one form before anything is latched.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// The requests that it is for.
    pub(super) requests: Series,
    pub(super) command: Option<&'static Command>,
    pub(super) id: CommandId,
    pub(super) shape: PlanKind,
    pub(super) refusal: Refusal,
    /// The requests only touch keys, never take long, and do not change the connection: see `plain.rs`.
    pub(super) is_plain: bool,
    /// The index of the first key of the first request; the keys of the others follow.
    first_key: u32,
    /// The number of keys of each request.
    pub(super) key_count: u32,
}

impl Plan {
    /// Returns the plan to run a command; the keys of the requests, if they have any, are pushed next.
    #[inline(always)]
    fn to_run(found: Found, requests: Series, first_key: usize) -> Self {
        Self {
            requests,
            command: Some(found.command),
            id: found.id,
            shape: found.shape,
            refusal: Refusal::None,
            is_plain: false,
            first_key: first_key as u32,
            key_count: 0,
        }
    }

    /// The command, if it exists.
    #[inline(always)]
    pub(super) fn found(&self) -> Option<Found> {
        self.command.map(|command| Found { command, id: self.id, shape: self.shape })
    }

    /// The index of the first key of a request among the batch's keys.
    #[inline(always)]
    fn first_key(&self, nth: usize) -> usize {
        self.first_key as usize + nth * self.key_count as usize
    }
}

/// Why a request is refused, whatever the state of its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    None,
    Unknown,
    UnknownSub,
    Arity,
    Keys,
}

impl Executor {
    /// Plans the requests at the start of `bytes`: parses the input, looks up each request's command and
    /// keys, and announces their memory to the prefetch pipeline.
    pub(super) fn plan(
        &mut self,
        parser: &mut Parser,
        bytes: &[u8],
        limits: RequestLimits,
        db: DbIndex,
    ) -> Box<Planned> {
        let mut planned = self.spare_plans.pop().unwrap_or_default();
        self.plan_batch(&mut planned, parser, bytes, limits, db);
        planned
    }

    /// The common part of [`Self::plan`] and [`Self::plan_ahead`]. A `SELECT` among the requests only
    /// costs those after it their prefetches.
    fn plan_batch(
        &mut self,
        planned: &mut Planned,
        parser: &mut Parser,
        bytes: &[u8],
        limits: RequestLimits,
        db: DbIndex,
    ) {
        let Planned { batch, plans, keys, .. } = planned;
        batch.clear();
        planned.parsed = parser.parse(bytes, &limits, batch, BATCH_REQUEST_COUNT_MAX);
        planned.limits = limits;
        planned.first_announced = self.prefetch_pipeline.announced_count();
        plans.clear();
        keys.clear();
        keys.reserve(batch.len());
        let shared = self.shared;
        let places = (shared.keyspace.hasher(), shared.keyspace.hints(db));
        for series in batch.series() {
            let args = batch.args(series, 0, bytes);
            let found = self.shared.commands.find(args.name());
            match found {
                Some(found) if found.shape == PlanKind::OneKey && found.command.accepts(args.len()) => {
                    let plan = Plan::to_run(found, *series, keys.len());
                    plans.push(Plan { key_count: 1, is_plain: true, ..plan });
                    let requests = batch.args_from(series, 0, bytes);
                    keys.extend(requests.map(|args| planned_key(places, args, 1)));
                }
                Some(Found { shape: PlanKind::Keys, .. }) => {
                    plans.push(self.plan_series(found, *series, batch, bytes, keys, places));
                }
                // One plan for each: their keys may depend on the contents of the arguments.
                found => plans.extend(
                    (0..series.count())
                        .map(|nth| self.plan_series(found, series.only(nth), batch, bytes, keys, places)),
                ),
            }
        }
        self.prefetch_pipeline.announce(keys, db);
    }

    /// Returns the plan of requests with any number of keys but one, which all have their keys in the same places.
    #[inline(never)]
    fn plan_series(
        &mut self,
        found: Option<Found>,
        requests: Series,
        batch: &Batch,
        bytes: &[u8],
        keys: &mut Vec<PlannedKey>,
        places: (&KeyHasher, Hints<'_>),
    ) -> Plan {
        let first_key = keys.len();
        let first = batch.args(&requests, 0, bytes);
        let Some(mut found) = found else {
            let (command, id) = (None, CommandId(0));
            let (first_key, key_count) = (first_key as u32, 0);
            let (shape, refusal, is_plain) = (PlanKind::Other, Refusal::Unknown, false);
            return Plan { requests, command, id, shape, refusal, is_plain, first_key, key_count };
        };
        let mut refusal = Refusal::None;
        if !found.command.subcommands.is_empty() && first.len() > 1 {
            match self.shared.commands.find_sub(found, first.at(1)) {
                Some(sub) => found = sub,
                None => refusal = Refusal::UnknownSub,
            }
        }
        let mut plan = Plan { refusal, ..Plan::to_run(found, requests, first_key) };
        if plan.refusal != Refusal::None {
            return plan;
        }
        let command = found.command;
        if !command.accepts(first.len()) {
            plan.refusal = Refusal::Arity;
            return plan;
        }
        if !command.keys.is_empty() {
            let mut indexes = std::mem::take(&mut self.found);
            indexes.clear();
            if !find_keys(command, first, &mut indexes) {
                plan.refusal = Refusal::Keys;
            }
            plan.key_count = indexes.len() as u32;
            for args in batch.args_from(&requests, 0, bytes) {
                keys.extend(indexes.iter().map(|index| planned_key(places, args, *index)));
            }
            self.found = indexes;
        }
        plan.is_plain = found.shape != PlanKind::Other
            && plan.refusal == Refusal::None
            && (1..=PLAIN_KEY_COUNT_MAX).contains(&plan.key_count);
        plan
    }

    /// Plans input that is to be executed in this turn, if it is short; [`Self::follow_foreseen`]
    /// continues from there. Other input may be executed first.
    #[must_use]
    pub fn plan_ahead(&mut self, connection: &Connection, bytes: &[u8]) -> Option<Box<Planned>> {
        if bytes.len() > FORESEEN_SIZE_MAX || !connection.query.is_empty() || connection.is_waiting() {
            return None;
        }
        let mut planned = self.spare_plans.pop().unwrap_or_default();
        let mut parser = std::mem::take(&mut planned.parser);
        parser.reset();
        self.plan_batch(&mut planned, &mut parser, bytes, self.limits_of(connection), connection.session.db);
        planned.parser = parser;
        Some(planned)
    }

    /// To be called when all input planned in this turn is executed.
    pub fn end_foresight(&mut self) {
        self.prefetch_pipeline.clear();
    }
}

/// Returns a planned key, and prefetches its slot.
#[inline(always)]
fn planned_key((hasher, hints): (&KeyHasher, Hints<'_>), args: Args<'_>, arg: u32) -> PlannedKey {
    let hash = hasher.hash(args.at(arg as usize));
    hints.prefetch_slot(hash);
    PlannedKey::new(hash, arg)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a plan for each series of the input, whatever its command.
    fn planned(bytes: &[u8]) -> Planned {
        let mut planned = Planned::default();
        let Planned { batch, plans, .. } = &mut planned;
        let parsed = Parser::new().parse(bytes, &RequestLimits::default(), batch, BATCH_REQUEST_COUNT_MAX);
        assert_eq!(parsed.consumed, bytes.len());
        let index = commands::index::Index::new();
        plans.extend(batch.series().iter().map(|series| {
            let name = batch.args(series, 0, bytes).name();
            Plan::to_run(index.find(name).expect("all of them are commands"), *series, 0)
        }));
        planned
    }

    #[test]
    fn each_request_has_its_place() {
        let mut bytes = Vec::new();
        let requests = ["GET a", "GET b", "GET c", "SET a b", "PING", "PING", "SET c d", "SET e f", "GET g"];
        for request in requests {
            wire::request::ArgsBuf::from_iter(request.split(' ').map(str::as_bytes))
                .args()
                .write_multibulk(&mut bytes);
        }
        let planned = planned(&bytes);
        assert_eq!(planned.plans.len(), 6);
        let (mut place, mut ends_at) = (Place::default(), 0);
        for (number, request) in requests.iter().enumerate() {
            assert_eq!(planned.behind(Place::default(), number), place);
            let plan = &planned.plans[place.plan];
            let words: Vec<_> = planned.args(plan, place.nth, &bytes).iter().collect();
            assert_eq!(words.join(&b' '), request.as_bytes());
            let range = plan.requests.range_of(place.nth);
            assert_eq!(range.start, ends_at);
            (place, ends_at) = (planned.behind(place, 1), range.end);
        }
        assert_eq!((place, ends_at), (Place { plan: 6, nth: 0 }, bytes.len()));
    }

    #[test]
    fn the_memory_of_a_large_batch_is_not_kept() {
        let mut bytes = Vec::new();
        let words = std::iter::once(&b"DEL"[..]).chain(std::iter::repeat_n(&b"key"[..], 3 * KEPT_COUNT_MAX));
        wire::request::ArgsBuf::from_iter(words).args().write_multibulk(&mut bytes);
        let mut planned = planned(&bytes);
        planned.keys.reserve(3 * KEPT_COUNT_MAX);
        planned.trim();
        assert!(planned.keys.capacity() <= KEPT_COUNT_MAX && planned.batch.is_empty());
    }
}
