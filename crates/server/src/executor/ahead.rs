//! Looking ahead in a run of plain requests: the memory of the collections that the next of them work on is asked for.

use base::DbIndex;
use commands::command::Categories;
use commands::context::PlannedKey;
use keyspace::{Key, Keyspace, PRELOADED_KEY_COUNT_MAX, Preloaded, slot_of_hash};

use super::plan::{Plan, Planned};

/// Commands on what is behind an entry.
const ON_COLLECTIONS: Categories = Categories::SET
    .union(Categories::SORTEDSET)
    .union(Categories::LIST)
    .union(Categories::HASH)
    .union(Categories::GEO)
    .union(Categories::STREAM);

/// A batch whose requests are about to run.
pub(super) struct Ahead<'a> {
    pub(super) planned: &'a Planned,
    pub(super) bytes: &'a [u8],
    pub(super) db: DbIndex,
}

impl Ahead<'_> {
    /// Asks for the collections of the next requests, those from `index` on, if there are several.
    #[inline(always)]
    pub(super) fn preload(&self, keyspace: &Keyspace, index: usize) {
        let plans = &self.planned.plans[index..];
        let plans = &plans[..plans.len().min(PRELOADED_KEY_COUNT_MAX)];
        if plans.len() > 1 && plans.iter().any(is_on_collection) && !self.is_one_hot_key(plans) {
            self.preload_some(keyspace, plans, index);
        }
    }

    /// Whether all requests are for one key, which is in the caches then. Not so the members of a set or the fields of a
    /// hash: those are asked for.
    #[inline(always)]
    fn is_one_hot_key(&self, plans: &[Plan]) -> bool {
        let hash = |plan: &Plan| self.planned.first_key_of(plan).map(|key| key.hash);
        let has_leaves = |plan: &Plan| {
            let categories = Categories::SET.union(Categories::HASH);
            plan.command.is_some_and(|command| command.categories.intersects(categories))
        };
        plans.iter().all(|plan| hash(plan) == hash(&plans[0]) && !has_leaves(plan))
    }

    #[inline(never)]
    fn preload_some(&self, keyspace: &Keyspace, plans: &[Plan], index: usize) {
        let mut wanted = [None; PRELOADED_KEY_COUNT_MAX];
        for ((wanted, plan), index) in wanted.iter_mut().zip(plans).zip(index..) {
            if is_on_collection(plan)
                && let Some(PlannedKey { hash, arg }) = self.planned.first_key_of(plan)
            {
                let args = self.planned.batch.args(index, self.bytes);
                let bytes = args.at(arg as usize);
                let key = Key { bytes, hash, slot: slot_of_hash(hash), db: self.db };
                *wanted = Some(Preloaded { key, member: args.get(arg as usize + 1) });
            }
        }
        keyspace.preload(&wanted);
    }
}

#[inline(always)]
fn is_on_collection(plan: &Plan) -> bool {
    plan.is_plain && plan.command.is_some_and(|command| command.categories.intersects(ON_COLLECTIONS))
}
