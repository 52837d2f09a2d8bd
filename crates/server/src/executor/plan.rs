//! The plan of a batch: the facts of its requests that are determined before anything is latched.

use commands::command::Command;
use commands::context::PlannedKey;
use commands::index::{PlanKind, ResolvedCommand};
use commands::table::CommandId;
use wire::request::{Args, Batch, Parsed, Parser, RequestLimits, Series};

/// Requests with more keys are not brief enough to be timed together with others.
pub(super) const PLAIN_KEY_COUNT_MAX: u32 = 64;

/// The capacity for arguments, keys and plans that is kept for later batches.
pub(super) const KEPT_COUNT_MAX: usize = 4096;

/// A batch of requests and their plans.
#[derive(Default)]
pub struct Planned {
    pub(super) batch: Batch,
    /// The plans of all requests, in order.
    pub(super) plans: Vec<Plan>,
    pub(super) keys: Vec<PlannedKey>,
    /// The number of the first key in the prefetch pipeline.
    pub(super) first_announced: u64,
    pub(super) parsed: Parsed,
    /// For the rest of the input, if it was planned ahead.
    pub(super) parser: Parser,
    /// The limits that the input was checked against.
    pub(super) limits: RequestLimits,
}

/// A request of a batch: the `nth` request of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestPlace {
    pub(super) plan: usize,
    pub(super) nth: usize,
}

impl Planned {
    /// Whether it has all requests of this input, which ends with one.
    #[must_use]
    pub fn covers(&self, input: &[u8]) -> bool {
        self.parsed.consumed == input.len()
    }

    /// The arguments of a request.
    #[inline(always)]
    pub(super) fn args<'a>(&'a self, plan: &Plan, nth: usize, bytes: &'a [u8]) -> Args<'a> {
        self.batch.args(&plan.requests, nth, bytes)
    }

    /// The size of each request of a plan on the wire, in bytes.
    pub(super) fn request_size(&self, plan: &Plan) -> usize {
        let is_first = plan.requests.range_of(0).start == 0;
        plan.requests.size() + if is_first { self.batch.detached_size() } else { 0 }
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
    pub(super) fn behind(&self, place: RequestPlace, count: usize) -> RequestPlace {
        let mut place = RequestPlace { nth: place.nth + count, ..place };
        while let Some(plan) = self.plans.get(place.plan)
            && let Some(nth) = place.nth.checked_sub(plan.requests.count())
        {
            place = RequestPlace { plan: place.plan + 1, nth };
        }
        place
    }
}

/// The facts known of requests of one form before anything is latched.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// The requests that it covers.
    pub(super) requests: Series,
    pub(super) command: Option<&'static Command>,
    pub(super) id: CommandId,
    pub(super) plan_kind: PlanKind,
    pub(super) refusal: PlanRefusal,
    /// The requests only touch keys, never take long, and do not change the connection: see `plain.rs`.
    pub(super) is_plain: bool,
    /// The index of the first key of the first request; the keys of the others follow.
    pub(super) first_key: u32,
    /// The number of keys of each request.
    pub(super) key_count: u32,
}

impl Plan {
    /// Returns the plan to run a command; the keys of the requests, if they have any, are pushed next.
    #[inline(always)]
    pub(super) fn to_run(found: ResolvedCommand, requests: Series, first_key: usize) -> Self {
        Self {
            requests,
            command: Some(found.command),
            id: found.id,
            plan_kind: found.plan_kind,
            refusal: PlanRefusal::None,
            is_plain: false,
            first_key: first_key as u32,
            key_count: 0,
        }
    }

    /// The command, if it exists.
    #[inline(always)]
    pub(super) fn found(&self) -> Option<ResolvedCommand> {
        self.command.map(|command| ResolvedCommand { command, id: self.id, plan_kind: self.plan_kind })
    }

    /// The index of the first key of a request among the batch's keys.
    #[inline(always)]
    fn first_key(&self, nth: usize) -> usize {
        self.first_key as usize + nth * self.key_count as usize
    }
}

/// The reason why a request is refused in any state of its client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanRefusal {
    None,
    Unknown,
    UnknownSub,
    Arity,
    Keys,
}

#[cfg(test)]
mod tests {
    use base::limits::BATCH_REQUEST_COUNT_MAX;

    use super::*;

    /// Returns a plan for each series of the input, for any command.
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
    fn each_request_has_its_planned_position() {
        let mut bytes = Vec::new();
        let requests = ["GET a", "GET b", "GET c", "SET a b", "PING", "PING", "SET c d", "SET e f", "GET g"];
        for request in requests {
            wire::request::ArgsBuf::from_iter(request.split(' ').map(str::as_bytes))
                .args()
                .write_multibulk(&mut bytes);
        }
        let planned = planned(&bytes);
        assert_eq!(planned.plans.len(), 6);
        let (mut place, mut ends_at) = (RequestPlace::default(), 0);
        for (number, request) in requests.iter().enumerate() {
            assert_eq!(planned.behind(RequestPlace::default(), number), place);
            let plan = &planned.plans[place.plan];
            let words: Vec<_> = planned.args(plan, place.nth, &bytes).iter().collect();
            assert_eq!(words.join(&b' '), request.as_bytes());
            let range = plan.requests.range_of(place.nth);
            assert_eq!(range.start, ends_at);
            (place, ends_at) = (planned.behind(place, 1), range.end);
        }
        assert_eq!((place, ends_at), (RequestPlace { plan: 6, nth: 0 }, bytes.len()));
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
