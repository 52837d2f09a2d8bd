//! Makes the plans of batches: parses the input, looks up commands, hashes keys, and announces the keys to the
//! prefetch pipeline.
//!
//! Owns the memory that is reused from batch to batch. Touches no data: names, arity and keys only. The memory
//! arrives in the caches while other requests are planned and run. A batch of few requests would wait for it;
//! therefore input that arrived together is planned ahead ([`Planner::plan_ahead`]).

use base::DbIndex;
use base::limits::BATCH_REQUEST_COUNT_MAX;
use commands::command::find_keys;
use commands::context::PlannedKey;
use commands::index::{Index, PlanKind, ResolvedCommand};
use commands::table::{CommandId, NUMBERED};
use keyspace::{Hints, KeyHasher};
use wire::request::{Args, Batch, Parser, RequestLimits, Series};

use super::plan::{PLAIN_KEY_COUNT_MAX, Plan, PlanRefusal, Planned};
use super::prefetch::PrefetchPipeline;
use crate::shared::Shared;

/// Plans of batches that are kept for reuse: more than can be made ahead of a turn.
const SPARE_PLAN_COUNT_MAX: usize = 32;

/// Plans the batches of a worker's connections.
pub(super) struct Planner {
    shared: &'static Shared,
    /// Finds commands by name.
    commands: &'static Index,
    /// The prefetch pipeline of the batch that runs.
    pub(super) pipeline: Box<PrefetchPipeline>,
    /// The second pipeline: of requests that were planned ahead, while the current batch was not. Boxed, as they are
    /// swapped.
    other_pipeline: Box<PrefetchPipeline>,
    /// Memory for later batches.
    #[expect(clippy::vec_box, reason = "large plans are moved between owners")]
    spare_plans: Vec<Box<Planned>>,
    found: Vec<u32>,
    /// The number of `MULTI`.
    pub(super) multi_id: CommandId,
    /// The number of `WATCH`.
    pub(super) watch_id: CommandId,
}

impl Planner {
    pub(super) fn new(shared: &'static Shared) -> Self {
        Self {
            shared,
            commands: &shared.commands,
            pipeline: Box::default(),
            other_pipeline: Box::default(),
            spare_plans: Vec::new(),
            found: Vec::new(),
            multi_id: id_of("multi"),
            watch_id: id_of("watch"),
        }
    }

    /// Plans requests of a log, or of clients from now on: other servers do not know the names of renamed commands.
    pub(super) fn expect_requests(&mut self, of_log: bool) {
        self.commands = if of_log { &self.shared.logged_commands } else { &self.shared.commands };
    }

    /// Swaps the pipeline of the current batch with that of the requests planned ahead.
    pub(super) fn swap_pipelines(&mut self) {
        std::mem::swap(&mut self.pipeline, &mut self.other_pipeline);
    }

    /// Keeps the memory of a batch for reuse, unless it is unusually large or enough are kept.
    pub(super) fn recycle(&mut self, mut planned: Box<Planned>) {
        if self.spare_plans.len() < SPARE_PLAN_COUNT_MAX {
            planned.trim();
            self.spare_plans.push(planned);
        }
    }

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
        if planned.batch.detached_size() > 0
            && let Some(first) = planned.plans.first_mut()
        {
            // The size of its request is not that of its input.
            first.is_plain = false;
        }
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
        planned.first_announced = self.pipeline.announced_count();
        plans.clear();
        keys.clear();
        keys.reserve(batch.len());
        let shared = self.shared;
        let places = (shared.keyspace.hasher(), shared.keyspace.hints(db));
        for series in batch.series() {
            let args = batch.args(series, 0, bytes);
            let found = self.commands.find(args.name());
            match found {
                Some(found) if found.plan_kind == PlanKind::OneKey && found.command.accepts(args.len()) => {
                    let plan = Plan::to_run(found, *series, keys.len());
                    plans.push(Plan { key_count: 1, is_plain: true, ..plan });
                    let requests = batch.args_from(series, 0, bytes);
                    keys.extend(requests.map(|args| planned_key(places, args, 1)));
                }
                Some(ResolvedCommand { plan_kind: PlanKind::Keys, .. }) => {
                    plans.push(self.plan_series(found, *series, batch, bytes, keys, places));
                }
                // One plan for each: their keys may depend on the contents of the arguments.
                found => {
                    if found.is_some_and(|found| found.id == self.multi_id)
                        && let Some(before) = plans.last_mut().filter(|before| before.id == self.watch_id)
                    {
                        // It is run together with the transaction that it precedes.
                        before.is_plain = false;
                    }
                    plans
                        .extend((0..series.count()).map(|nth| {
                            self.plan_series(found, series.only(nth), batch, bytes, keys, places)
                        }));
                }
            }
        }
        self.pipeline.announce(keys, db);
    }

    /// Returns the plan of requests with any number of keys but one, which all have their keys in the same places.
    #[inline(never)]
    fn plan_series(
        &mut self,
        found: Option<ResolvedCommand>,
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
            let (plan_kind, refusal, is_plain) = (PlanKind::Other, PlanRefusal::Unknown, false);
            return Plan { requests, command, id, plan_kind, refusal, is_plain, first_key, key_count };
        };
        let mut refusal = PlanRefusal::None;
        if !found.command.subcommands.is_empty() && first.len() > 1 {
            match self.commands.find_sub(found, first.at(1)) {
                Some(sub) => found = sub,
                None => refusal = PlanRefusal::UnknownSub,
            }
        }
        let mut plan = Plan { refusal, ..Plan::to_run(found, requests, first_key) };
        if plan.refusal != PlanRefusal::None {
            return plan;
        }
        let command = found.command;
        if !command.accepts(first.len()) {
            plan.refusal = PlanRefusal::Arity;
            return plan;
        }
        if !command.keys.is_empty() {
            let mut indexes = std::mem::take(&mut self.found);
            indexes.clear();
            if !find_keys(command, first, &mut indexes) {
                plan.refusal = PlanRefusal::Keys;
            }
            plan.key_count = indexes.len() as u32;
            for args in batch.args_from(&requests, 0, bytes) {
                keys.extend(indexes.iter().map(|index| planned_key(places, args, *index)));
            }
            self.found = indexes;
        }
        plan.is_plain = found.plan_kind != PlanKind::Other
            && plan.refusal == PlanRefusal::None
            && (1..=PLAIN_KEY_COUNT_MAX).contains(&plan.key_count);
        plan
    }

    /// Plans input that is to be executed later. Other input may be executed first.
    pub(super) fn plan_ahead(&mut self, bytes: &[u8], limits: RequestLimits, db: DbIndex) -> Box<Planned> {
        let mut planned = self.spare_plans.pop().unwrap_or_default();
        let mut parser = std::mem::take(&mut planned.parser);
        parser.reset();
        self.plan_batch(&mut planned, &mut parser, bytes, limits, db);
        planned.parser = parser;
        planned
    }
}

/// The number of a command that the table has.
fn id_of(name: &str) -> CommandId {
    let place = NUMBERED.iter().position(|(other, _)| other == name);
    CommandId(place.expect("the table has it") as u16)
}

/// Returns a planned key, and prefetches its slot.
#[inline(always)]
fn planned_key((hasher, hints): (&KeyHasher, Hints<'_>), args: Args<'_>, arg: u32) -> PlannedKey {
    let hash = hasher.hash(args.at(arg as usize));
    hints.prefetch_slot(hash);
    PlannedKey::new(hash, arg)
}
