//! Planning: what is known of the requests of a batch before anything is latched, and the memory they will touch asked for.
//!
//! Touches no data: names, arity and keys only. Where a batch is a single short request, planning it comes too late to
//! prefetch anything; so input that arrived together with other input is looked through beforehand ([`Executor::foresee`]).

use collections::Trail;
use commands::command::{Command, find_keys};
use commands::context::PlannedKey;
use commands::index::{Found, Shape};
use commands::table::CommandId;
use wire::request::{Args, Batch, Limits, Parser};

use super::Executor;

/// Keys of a batch that are prefetched: more would push each other out of the nearest caches.
const PREFETCHED_KEY_COUNT_MAX: usize = 512;

/// Buckets that are read to find an entry to prefetch: nearly all are in the first four of their path.
const TRAIL_LEN_MAX: usize = 4;

/// Keys up to which a request on several is brief enough to be timed together with others.
const PLAIN_KEY_COUNT_MAX: u32 = 64;

/// Longer input is a batch of its own, whose requests are prefetched together.
const FORESEEN_SIZE_MAX: usize = 256;

/// What is known of a request before anything is latched.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) command: Option<&'static Command>,
    pub(super) id: CommandId,
    pub(super) shape: Shape,
    pub(super) refusal: Refusal,
    /// It touches keys, never takes long, and means nothing for the connection: see `plain.rs`.
    pub(super) is_plain: bool,
    pub(super) first_key: u32,
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
    /// Looks up each request's command and keys, and asks for the memory they will touch, in passes: first for the slots,
    /// then for the buckets, then for the entries of all.
    pub(super) fn plan(&mut self, batch: &Batch, bytes: &[u8]) {
        self.plans.clear();
        self.keys.clear();
        self.plans.reserve(batch.len());
        self.keys.reserve(batch.len());
        for args in batch.args_from(0, bytes) {
            match self.shared.commands.find(args.name()) {
                Some(found) if found.shape == Shape::OneKey && found.command.accepts(args.len()) => {
                    let plan = Plan::to_run(found, self.keys.len());
                    self.plans.push(Plan { key_count: 1, is_plain: true, ..plan });
                    self.push_key(args, 1);
                }
                found => {
                    let plan = self.plan_request(found, args);
                    self.plans.push(plan);
                }
            }
        }
        if self.keys.len() > 1 {
            let keyspace = &self.shared.keyspace;
            self.trails.clear();
            let keys = self.keys.iter().take(PREFETCHED_KEY_COUNT_MAX);
            self.trails.extend(keys.map(|key| keyspace.trail(key.hash)));
            self.follow_trails();
        }
    }

    /// The plan of a request that is not just of one key.
    #[inline(never)]
    fn plan_request(&mut self, found: Option<Found>, args: Args<'_>) -> Plan {
        let first_key = self.keys.len();
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
            for index in &indexes {
                self.push_key(args, *index);
            }
            self.found = indexes;
        }
        plan.key_count = (self.keys.len() - first_key) as u32;
        plan.is_plain = found.shape != Shape::Other
            && plan.refusal == Refusal::None
            && (1..=PLAIN_KEY_COUNT_MAX).contains(&plan.key_count);
        plan
    }

    #[inline(always)]
    fn push_key(&mut self, args: Args<'_>, arg: u32) {
        let keyspace = &self.shared.keyspace;
        let hash = keyspace.hasher().hash(args.at(arg as usize));
        keyspace.prefetch_slot(hash);
        self.keys.push(PlannedKey { hash, arg });
    }

    /// Asks for the slots of the keys of short input that is to be executed soon; [`Self::follow_foreseen`] goes on from
    /// there. What is wrong about it shows when it is executed.
    pub fn foresee(&mut self, bytes: &[u8]) {
        if bytes.len() > FORESEEN_SIZE_MAX {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        let _ = Parser::new().parse(bytes, &Limits::default(), &mut batch, FORESEEN_SIZE_MAX);
        for args in batch.args_from(0, bytes) {
            let found = self.shared.commands.find(args.name());
            if found.is_some_and(|found| found.shape == Shape::OneKey) && args.len() > 1 {
                let hash = self.shared.keyspace.hasher().hash(args.at(1));
                self.shared.keyspace.prefetch_slot(hash);
                self.foreseen.push(hash);
            }
        }
        self.batch = batch;
    }

    /// Asks for the entries of what was foreseen.
    pub fn follow_foreseen(&mut self) {
        if self.foreseen.len() > 1 {
            let keyspace = &self.shared.keyspace;
            self.trails.clear();
            self.trails.extend(self.foreseen.iter().map(|hash| keyspace.trail(*hash)));
            self.follow_trails();
        }
        self.foreseen.clear();
    }

    #[inline(always)]
    fn follow_trails(&mut self) {
        for _ in 0..TRAIL_LEN_MAX {
            self.trails.retain_mut(Trail::follow);
        }
    }
}
