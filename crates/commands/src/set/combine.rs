//! Shared by intersections, unions and differences: finding the sets, and storing a result.

use collections::{AllocContext, Collection, DecimalBuffer, Item, Set, SoughtMember};
use keyspace::Key;

use crate::context::{Ctx, EventClass};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// Returns the sets of the request's keys from the `first`-th on, in order; a missing key is `None`.
pub(super) fn find_sets<'c>(ctx: &'c Ctx<'_>, first: usize) -> Result<Vec<Option<&'c Set>>, CommandError> {
    ctx.keys_for_reading(first).map(|key| ctx.find::<Set>(key)).collect()
}

/// Visits the members common to all sets, until `visit` returns false. Iterates over the smallest set and
/// looks the members up in the others.
pub(super) fn intersect<'s>(
    alloc: AllocContext<'_>,
    sets: Vec<Option<&'s Set>>,
    mut visit: impl FnMut(Item<'s>) -> bool,
) {
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<&Set>>>() else { return };
    sets.sort_by_key(|set| set.len());
    // Integers are looked up as such unless a set needs their text.
    let only_ints = sets.iter().all(|set| set.is_intset());
    let Some((smallest, others)) = sets.split_first() else { return };
    let smallest = *smallest;
    let others = others.iter().filter(|set| !std::ptr::eq(**set, smallest));
    smallest.walk(|item| {
        let is_in_all = match item {
            Item::Int(value) if only_ints => others.clone().all(|set| set.has_int(value)),
            item => {
                let mut buffer = DecimalBuffer::new();
                let mut wanted = SoughtMember::new(item, &mut buffer);
                others.clone().all(|set| set.has(alloc, &mut wanted))
            }
        };
        !is_in_all || visit(item)
    });
}

/// Stores a result in the destination, replaces any value, and replies with its size.
pub(super) fn store(
    ctx: &mut Ctx<'_>,
    destination: Key<'_>,
    result: Set,
    event: &'static str,
    reply: Reply<'_>,
) -> Replied {
    let len = result.len();
    if len > 0 {
        ctx.put_object(destination, result.into_object());
        ctx.changed(EventClass::Set, event, destination);
    } else if ctx.remove(destination) {
        ctx.changed(EventClass::Generic, "del", destination);
    }
    reply.integer(len as i64)
}
