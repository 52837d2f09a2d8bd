//! Balancing: connections move from busy workers to less busy ones, by the time that their requests take.
//!
//! Ten times a second each worker publishes the share of its time in which it had work. One that had clearly more than the
//! least busy active one moves one connection to it, by the time that the connections' requests have taken recently. Workers
//! that all work all the time have equal loads, whatever they have: then nothing moves.
//!
//! Invariants, by which no connection moves back and forth under a constant load:
//! 1. A connection moves only if its share of the time is smaller than the difference of both workers, by
//!    [`MARGIN_PERMILLE`].
//! 2. After a move, the worker moves none until both have published loads that include it.

use os::clock::Ticks;

use super::Worker;
use crate::connection::token::Token;

/// The minimum difference of load at which a worker moves connections to another, in thousandths of its time.
const UNEVEN_PERMILLE: u64 = 200;

/// By how much a connection's share must be smaller than the difference of load, in thousandths of the time.
const MARGIN_PERMILLE: u64 = 50;

/// The smallest share of a connection that is worth a move, in thousandths of the time.
const SHARE_PERMILLE_MIN: u64 = 2;

/// Periods after a move in which a worker moves no other connection: loads are published after a period, and not by all
/// workers at one time.
const REST_COUNT: u32 = 2;

/// The progress of a worker in balancing.
#[derive(Default)]
pub(super) struct Balancing {
    /// Periods left in which it moves no connection.
    rest_count: u32,
    /// Whether the load was uneven in the period before.
    was_uneven: bool,
}

/// A connection, and its share of the worker's time in thousandths.
type Share = (Token, u64);

impl Worker {
    /// Balances the load, after this worker has published its own.
    pub(super) fn balance_load(&mut self) {
        let was_uneven = std::mem::take(&mut self.cron.balancing.was_uneven);
        if self.index >= self.shared.pool.active() || self.connections.len() < 2 {
            return;
        }
        if self.cron.balancing.rest_count > 0 {
            self.cron.balancing.rest_count -= 1;
            return;
        }
        // A worker in a long turn publishes nothing meanwhile, and what moved to it would stand still.
        let Some((least, load)) = self.least_busy_other() else { return };
        let own = self.own_handle().busy_permille();
        let gap = own.saturating_sub(load);
        if gap <= UNEVEN_PERMILLE {
            return;
        }
        self.cron.balancing.was_uneven = true;
        if was_uneven && let Some(token) = choose(gap, &self.shares(own)) {
            self.start_moving(token, least);
            self.cron.balancing.rest_count = REST_COUNT;
        }
    }

    /// The connections that can be moved, with their shares of this worker's time, of which it has worked so many
    /// thousandths.
    fn shares(&self, busy_permille: u64) -> Vec<Share> {
        let now = Ticks::now();
        let all: u64 = self.connections.iter().map(|connection| connection.client.recent_time.at(now)).sum();
        let share =
            |ticks: u64| (u128::from(ticks) * u128::from(busy_permille) / u128::from(all.max(1))) as u64;
        self.connections
            .iter()
            .filter(|connection| self.can_move(connection))
            .map(|connection| (connection.client.token, share(connection.client.recent_time.at(now))))
            .collect()
    }
}

/// Chooses the connection that moves to a worker whose load is smaller by `gap` thousandths: the one that has about half of
/// them.
fn choose(gap: u64, shares: &[Share]) -> Option<Token> {
    shares
        .iter()
        .filter(|(_, share)| *share >= SHARE_PERMILLE_MIN && share + MARGIN_PERMILLE <= gap)
        .min_by_key(|(_, share)| (2 * share).abs_diff(gap))
        .map(|(token, _)| *token)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers with the demands of their connections, in thousandths of a worker's time; [`FLOOD`]: as much as there is.
    type Model = Vec<Vec<u64>>;

    const FLOOD: u64 = u64::MAX;

    /// The shares that connections get on one worker: each the same, those that demand less excepted.
    fn served(demands: &[u64]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..demands.len()).collect();
        order.sort_by_key(|index| demands[*index]);
        let (mut shares, mut left) = (vec![0; demands.len()], 1000);
        for (nth, index) in order.iter().enumerate() {
            shares[*index] = demands[*index].min(left / (demands.len() - nth) as u64);
            left -= shares[*index];
        }
        shares
    }

    /// Moves connections until none moves any more. Returns the number of moves.
    fn balance(model: &mut Model) -> usize {
        for move_count in 0..100 {
            let shares: Vec<Vec<Share>> =
                model.iter().map(|demands| (0..).map(Token).zip(served(demands)).collect()).collect();
            let loads: Vec<u64> =
                shares.iter().map(|shares| shares.iter().map(|(_, share)| share).sum()).collect();
            let pairs = (0..model.len()).flat_map(|from| (0..model.len()).map(move |to| (from, to)));
            let mut moves = pairs.filter_map(|(from, to)| {
                let gap = loads[from].saturating_sub(loads[to]);
                let token = choose(gap, &shares[from]).filter(|_| gap > UNEVEN_PERMILLE)?;
                Some((from, to, token.0 as usize))
            });
            let Some((from, to, index)) = moves.next() else { return move_count };
            drop(moves);
            let demand = model[from].remove(index);
            model[to].push(demand);
        }
        panic!("connections move back and forth: {model:?}");
    }

    fn check(mut model: Model, expected: &[&[u64]]) {
        balance(&mut model);
        model.iter_mut().for_each(|demands| demands.sort_unstable());
        model.sort();
        assert_eq!(model, expected);
    }

    #[test]
    fn busy_connections_are_separated() {
        check(vec![vec![FLOOD, FLOOD], vec![0]], &[&[0, FLOOD], &[FLOOD]]);
        check(vec![vec![400, 400], vec![0, 0, 0, 0]], &[&[0, 0, 0, 0, 400], &[400]]);
        check(vec![vec![FLOOD, FLOOD, FLOOD], vec![], vec![]], &[&[FLOOD], &[FLOOD], &[FLOOD]]);
        // The others do not wait for one that takes all the time.
        check(vec![vec![FLOOD, 100, 100], vec![]], &[&[100, 100], &[FLOOD]]);
    }

    #[test]
    fn what_is_even_stays() {
        for model in [
            vec![vec![FLOOD], vec![FLOOD, FLOOD]],
            vec![vec![FLOOD, 0, 0, 0], vec![]],
            vec![vec![300, 300], vec![500]],
            vec![vec![FLOOD, 1, 1, 1], vec![FLOOD]],
            vec![vec![0; 100], vec![]],
        ] {
            let mut after = model.clone();
            assert_eq!(balance(&mut after), 0, "{model:?} became {after:?}");
        }
    }

    /// From any state, the moves end.
    #[test]
    fn nothing_moves_back_and_forth() {
        let mut state = 1_u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..2000 {
            let worker_count = 2 + random(3);
            let mut model: Model = (0..worker_count)
                .map(|_| {
                    (0..random(7))
                        .map(|_| match random(4) {
                            0 => FLOOD,
                            1 => 0,
                            _ => random(600),
                        })
                        .collect()
                })
                .collect();
            balance(&mut model);
        }
    }
}
