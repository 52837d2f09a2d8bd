//! Lookahead in a run of plain requests: preloads the collections that the next requests use.

use base::DbIndex;
use commands::command::Categories;
use keyspace::{Keyspace, PRELOADED_KEY_COUNT_MAX, Preloaded};

use super::plan::{Plan, Planned, RequestPlace};

/// Commands that work on collections.
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
    /// Preloads the collections of the next requests, from `place` on, if there are several.
    #[inline(always)]
    pub(super) fn preload(&self, keyspace: &Keyspace, place: RequestPlace) {
        // One plan may cover many requests: for most runs this test is the whole cost.
        if self.next_plans(place).any(is_on_collection) {
            self.preload_some(keyspace, place);
        }
    }

    /// The plans of the next requests.
    #[inline(always)]
    fn next_plans(&self, place: RequestPlace) -> impl Iterator<Item = &Plan> {
        let mut left = place.nth + PRELOADED_KEY_COUNT_MAX;
        let plans = self.planned.plans[place.plan..].iter();
        plans.take_while(move |plan| {
            let is_wanted = left > 0;
            left = left.saturating_sub(plan.requests.count());
            is_wanted
        })
    }

    /// The next requests, as many as are preloaded together.
    fn next(&self, place: RequestPlace) -> impl Iterator<Item = (&Plan, usize)> {
        let places = std::iter::successors(Some(place), |place| Some(self.planned.behind(*place, 1)));
        let requests = places.map_while(|place| Some((self.planned.plans.get(place.plan)?, place.nth)));
        requests.take(PRELOADED_KEY_COUNT_MAX)
    }

    /// Whether all requests are for one key, which is then in the caches. Not for the members of a set or
    /// the fields of a hash: these are preloaded.
    fn is_one_hot_key(&self, place: RequestPlace) -> bool {
        let hash = |(plan, nth)| self.planned.first_key_of(plan, nth).map(|key| key.hash);
        let has_leaves = |plan: &Plan| {
            let categories = Categories::SET.union(Categories::HASH);
            plan.command.is_some_and(|command| command.categories.intersects(categories))
        };
        let first = self.next(place).next().and_then(hash);
        self.next(place).all(|(plan, nth)| hash((plan, nth)) == first && !has_leaves(plan))
    }

    #[inline(never)]
    fn preload_some(&self, keyspace: &Keyspace, place: RequestPlace) {
        if self.next(place).nth(1).is_none() || self.is_one_hot_key(place) {
            return;
        }
        let mut wanted = [None; PRELOADED_KEY_COUNT_MAX];
        for (wanted, (plan, nth)) in wanted.iter_mut().zip(self.next(place)) {
            if is_on_collection(plan)
                && let Some(planned) = self.planned.first_key_of(plan, nth)
            {
                let args = self.planned.args(plan, nth, self.bytes);
                let member = args.get(planned.arg as usize + 1);
                *wanted = Some(Preloaded { key: planned.key(args, self.db), member });
            }
        }
        keyspace.preload(&wanted);
    }
}

#[inline(always)]
fn is_on_collection(plan: &Plan) -> bool {
    plan.is_plain && plan.command.is_some_and(|command| command.categories.intersects(ON_COLLECTIONS))
}
