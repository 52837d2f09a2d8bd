//! Looking ahead in a run of plain requests: the memory of the collections that the next of them work on is asked for.

use base::DbIndex;
use commands::command::Categories;
use commands::context::PlannedKey;
use keyspace::{Key, Keyspace, PRELOADED_KEY_COUNT_MAX, slot_of_hash};
use wire::request::Batch;

use super::plan::Plan;

/// Commands on what is behind an entry.
const ON_COLLECTIONS: Categories = Categories::SET
    .union(Categories::SORTEDSET)
    .union(Categories::LIST)
    .union(Categories::HASH)
    .union(Categories::GEO)
    .union(Categories::STREAM);

/// A batch whose requests are about to run.
pub(super) struct Ahead<'a> {
    pub(super) batch: &'a Batch,
    pub(super) bytes: &'a [u8],
    pub(super) keys: &'a [PlannedKey],
    pub(super) db: DbIndex,
}

impl Ahead<'_> {
    /// Asks for the collections of the next requests, `plans` from `index` on, if there are several.
    #[inline(always)]
    pub(super) fn preload(&self, keyspace: &Keyspace, plans: &[Plan], index: usize) {
        let plans = &plans[..plans.len().min(PRELOADED_KEY_COUNT_MAX)];
        if plans.len() > 1 && plans.iter().any(is_on_collection) {
            self.preload_some(keyspace, plans, index);
        }
    }

    #[inline(never)]
    fn preload_some(&self, keyspace: &Keyspace, plans: &[Plan], index: usize) {
        let nobody = Key { bytes: &[], hash: 0, slot: slot_of_hash(0), db: self.db };
        let mut keys = [nobody; PRELOADED_KEY_COUNT_MAX];
        let mut count = 0;
        for (plan, index) in plans.iter().zip(index..) {
            if is_on_collection(plan)
                && let Some(key) = self.keys.get(plan.first_key as usize)
            {
                let bytes = self.batch.args(index, self.bytes).at(key.arg as usize);
                keys[count] = Key { bytes, hash: key.hash, slot: slot_of_hash(key.hash), db: self.db };
                count += 1;
            }
        }
        keyspace.preload(&keys[..count]);
    }
}

#[inline(always)]
fn is_on_collection(plan: &Plan) -> bool {
    plan.is_plain && plan.command.is_some_and(|command| command.categories.intersects(ON_COLLECTIONS))
}
