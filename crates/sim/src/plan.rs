//! The simulation plan of a seed: threads, clients, their loads, and the disturbances.

use reactor::simulated::Settings;
use sync::simulation::{Gap, GapStalls, Schedule};
use trials::random::Random;

/// A kind of load, with its own check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Commands on strings, whose replies must be linearisable.
    Strings,
    /// Commands on several strings at once.
    ManyStrings,
    /// Commands on lists, hashes, sets and sorted sets.
    Collections,
    /// Pushes and blocking pops: every element is returned exactly once.
    Queues,
    /// Messages to channels: every subscriber receives each message, in order.
    Messages,
    /// `WATCH`, `MULTI`, `EXEC`: the sum of the balances is constant.
    Transfers,
    /// Client-side caches: no stale value once an invalidation is due.
    Caches,
    /// Keys with a time to live, and blocking commands with a timeout.
    Times,
    /// `CLIENT PAUSE` is a barrier.
    Pauses,
    /// A full cache: memory stays at its limit.
    Eviction,
    /// Many keys in one slot, whose table grows and shrinks.
    Growth,
    /// A small table that replaces its memory, and many threads that prefetch from it; only in plans of
    /// [`Race::Tables`].
    LookAhead,
    /// Iterations while elements are added and removed: elements that stay are returned.
    Scans,
    /// Scripts that transfer amounts beside transactions: the sum of the balances is constant.
    Scripts,
    /// Rights of a user are taken and given while its connections work.
    Rights,
    /// Connections at their limits: output that is not read, blocked requests with large arguments, nested replies.
    Limits,
}

/// Loads to draw from.
pub const LOADS: &[Load] = &[
    Load::Strings,
    Load::ManyStrings,
    Load::Collections,
    Load::Queues,
    Load::Messages,
    Load::Transfers,
    Load::Caches,
    Load::Times,
    Load::Pauses,
    Load::Eviction,
    Load::Growth,
    Load::Scans,
];

/// Loads that are added to others in a union: all but those that need a server of their own.
const UNITED: &[Load] = &[
    Load::Strings,
    Load::ManyStrings,
    Load::Collections,
    Load::Queues,
    Load::Messages,
    Load::Transfers,
    Load::Caches,
    Load::Times,
    Load::Pauses,
    Load::Growth,
    Load::Scans,
    Load::Scripts,
    Load::Rights,
    Load::Limits,
];

/// Races to draw from; repetition sets the weight.
const RACES: &[Race] = &[Race::Threads, Race::Threads, Race::Tables, Race::Pauses, Race::Moves];
/// Loads that depend on messages between threads.
const THREAD_LOADS: &[Load] =
    &[Load::Queues, Load::Queues, Load::Queues, Load::Messages, Load::Caches, Load::Pauses];

/// The time without stalls within which a reply arrives, in microseconds: less than a tick, in which every worker wakes up.
const REPLY_US_MAX: u64 = 95_000;

/// The time of a request on all slots, or a search for victims in all of them when few keys are left, in microseconds. Each slot
/// costs some scheduling points, and each of these a microsecond or more: a visit of all takes 40 ms, and hardly 0.4 ms outside
/// of the simulation.
pub const ALL_SLOTS_US_MAX: u64 = 150_000;

/// Object of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// All keys, spread over many slots.
    Keys,
    /// All keys, many of them in one slot.
    KeysOfSlot,
    /// The members of a set.
    Set,
    /// The fields of a hash.
    Hash,
    /// The members of a sorted set.
    SortedSet,
}

const SCANNED: &[Scanned] =
    &[Scanned::Keys, Scanned::KeysOfSlot, Scanned::Set, Scanned::Hash, Scanned::SortedSet];

/// A race condition of few steps, exercised by a whole plan: the race is repeated, with stalls where they
/// matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Race {
    /// Threads end while messages are sent to them.
    Threads,
    /// Tables replace their memory while other threads prefetch from them.
    Tables,
    /// Pauses begin while admitted requests have not run.
    Pauses,
    /// Pauses end while connections that wait for that move between threads.
    Moves,
    /// Clients begin to be told of all changes while admitted requests have not run. Only by [`Focus`].
    Broadcasts,
    /// A server loses its role while admitted requests have not run. Only by [`Focus`], in runs with failovers.
    Roles,
    /// Snapshots for replicas are cut while changes are in the log and not yet in the stream. Only by [`Focus`], in runs with
    /// failovers.
    Cuts,
}

/// What the plans of all seeds have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// Nothing.
    #[default]
    Anything,
    /// This load only.
    Load(Load),
    /// This race.
    Race(Race),
    /// An append-only file that is replayed.
    Replays,
}

/// Disturbances of the server besides its load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disturbances {
    /// `CONFIG SET io-threads`, repeatedly.
    pub changes_threads: bool,
    /// Clients that are killed, reset their connections or send half a request.
    pub victim_count: usize,
    /// Steps of the wall clock.
    pub steps_clock: bool,
    /// Threads that are not scheduled for a long time.
    pub stalls: bool,
    /// Descriptor limits that are reached.
    pub limits_descriptors: bool,
    /// `SCAN`, `FLUSHDB`, `INFO`, `CLIENT LIST` and similar commands.
    pub inspects: bool,
}

/// The lines of the configuration about active workers: in one of four seeds their number grows and shrinks at random, in the
/// others connections are always on all workers, where more of their steps meet.
#[must_use]
pub fn active_workers(seed: u64) -> &'static str {
    if seed % 4 == 3 { "" } else { "io-threads-always-active yes\n" }
}

/// The plan of a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Source of all randomness.
    pub seed: u64,
    /// Threads at the start.
    pub thread_count: u32,
    /// The network.
    pub network: Settings,
    /// Loads; each has a few clients.
    pub loads: Vec<Load>,
    /// The race that the plan exercises, if any.
    pub race: Option<Race>,
    /// Object of iterations.
    pub scanned: Scanned,
    /// Clients of each kind.
    pub client_count: usize,
    /// Clients that push to waiting clients.
    pub producer_count: usize,
    /// Requests of each client.
    pub request_count: usize,
    /// Disturbances.
    pub disturbances: Disturbances,
    /// Whether the server has an append-only file, which is replayed at the end.
    pub replays: bool,
    /// Thread scheduling; `None`: the seed chooses.
    pub schedule: Option<Schedule>,
    /// Gaps at which threads are stalled.
    pub gap_stalls: GapStalls,
}

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn draw(seed: u64, focus: Focus) -> Self {
        let mut random = Random::new(seed ^ 0x51D0_FA11);
        let mut loads = LOADS.to_vec();
        random.shuffle(&mut loads);
        loads.truncate(1 + random.below(3));
        // An evicting server evicts the keys of every load, so no other load can run.
        if loads.contains(&Load::Eviction) {
            loads = vec![Load::Eviction];
        }
        // Bugs that need two stalls at once are rare, so one plan in four exercises only a race.
        let race = random.chance(25).then(|| *random.pick(RACES));
        let race = match focus {
            Focus::Anything => race,
            Focus::Load(_) | Focus::Replays => None,
            Focus::Race(race) => Some(race),
        };
        match race {
            Some(Race::Threads) => loads = vec![*random.pick(THREAD_LOADS)],
            Some(Race::Tables) => loads = vec![Load::LookAhead],
            Some(Race::Pauses | Race::Moves) => loads = vec![Load::Pauses],
            Some(Race::Broadcasts) => loads = vec![Load::Caches],
            Some(Race::Roles | Race::Cuts) | None => {}
        }
        // Drawn apart, so that the other loads of a seed stay as they are.
        let mut apart = Random::new(seed ^ 0x5C21_9700);
        if race.is_none() && !loads.contains(&Load::Eviction) && apart.chance(40) {
            loads.truncate(apart.below(2));
            loads.push(*apart.pick(&[Load::Scripts, Load::Rights, Load::Rights]));
        }
        let is_union = race.is_none()
            && !matches!(focus, Focus::Load(_))
            && !loads.contains(&Load::Eviction)
            && apart.chance(30);
        if is_union {
            loads.extend((0..1 + apart.below(4)).map(|_| *apart.pick(UNITED)));
            let mut seen = Vec::new();
            loads.retain(|load| {
                !seen.contains(load) && {
                    seen.push(*load);
                    true
                }
            });
        }
        if let Focus::Load(load) = focus {
            loads = vec![load];
        }
        let limits_memory = loads.contains(&Load::Eviction);
        let runs_scripts = loads.iter().any(|load| matches!(load, Load::Scripts | Load::Rights));
        let client_count = 2 + random.below(3);
        let mut plan = Self {
            seed,
            thread_count: if race.is_some() { 4 } else { 1 + random.below(4) as u32 },
            network: Settings::draw(random.next_u64()),
            loads,
            race,
            scanned: SCANNED[seed as usize % SCANNED.len()],
            client_count,
            producer_count: if race.is_some() { 1 } else { client_count },
            request_count: match race {
                Some(_) => 100,
                None if is_union => 6 + random.below(10),
                None => 10 + random.below(20),
            },
            disturbances: race.map(Race::disturbances).unwrap_or(Disturbances {
                changes_threads: random.chance(60),
                victim_count: if random.chance(50) { 1 + random.below(3) } else { 0 },
                steps_clock: random.chance(25),
                stalls: random.chance(30),
                limits_descriptors: random.chance(20),
                inspects: random.chance(30),
            }),
            // Memory at its limit is checked to a few bytes, without those of the file.
            replays: race.is_none() && !limits_memory && (focus == Focus::Replays || apart.chance(40)),
            schedule: race.map(|_| Schedule::RandomWalk { points_mean: *random.pick(&[4, 20, 60]) }),
            gap_stalls: GapStalls {
                percents: race.map_or_else(|| stalls_anywhere(&mut random), Race::gaps),
                stall_us_max: *random.pick(&[1_000, 5_000, 20_000]),
            },
        };
        if runs_scripts {
            // Longer than a script runs before it pauses.
            plan.gap_stalls.percents.push((Gap::ScriptHook, 80));
            plan.gap_stalls.stall_us_max = 5_000;
        }
        plan
    }
}

impl Plan {
    /// `busy-reply-threshold` in milliseconds. A script may be paused with all writes, for longer than usual.
    #[must_use]
    pub fn busy_ms(&self) -> u64 {
        if self.loads.contains(&Load::Pauses) { 100_000 } else { 5_000 }
    }

    /// The time without stalls within which a reply must arrive, in microseconds, unless its request blocks; `None`: there is
    /// no such time. Pauses hold requests back, and connections wait while no descriptors are left.
    #[must_use]
    pub fn reply_us_max(&self) -> Option<u64> {
        let is_unlimited = self.loads.contains(&Load::Pauses) || self.disturbances.limits_descriptors;
        let searches_victims = self.loads.contains(&Load::Eviction);
        let us_max = REPLY_US_MAX + if searches_victims { ALL_SLOTS_US_MAX } else { 0 };
        (!is_unlimited).then_some(us_max)
    }

    /// Returns the number of keys of one slot that the loads need. Each costs 16,384 hashes to find.
    #[must_use]
    pub fn slot_mate_count(&self) -> usize {
        let counts = self.loads.iter().map(|load| match load {
            Load::Scans if self.scanned == Scanned::KeysOfSlot => 200,
            Load::Growth => 100,
            Load::LookAhead => 40,
            _ => 0,
        });
        counts.max().unwrap_or(0)
    }
}

/// Returns a few stalls at all gaps, in one plan of three.
fn stalls_anywhere(random: &mut Random) -> Vec<(Gap, u64)> {
    const GAPS: &[Gap] = &[
        Gap::Admitted,
        Gap::ReceiverChosen,
        Gap::LastCheck,
        Gap::MemoryReplaced,
        Gap::MemoryFound,
        Gap::LatchRefused,
        Gap::LatchReleased,
        Gap::ChangesAppended,
    ];
    if random.chance(33) { GAPS.iter().map(|gap| (*gap, 1)).collect() } else { Vec::new() }
}

impl Race {
    /// Returns the disturbances beside the race: none that would occupy the threads.
    fn disturbances(self) -> Disturbances {
        Disturbances { changes_threads: self.shrinks(), ..Disturbances::default() }
    }

    /// Whether the number of threads is decreased and increased in turn, in time with the load.
    #[must_use]
    pub fn shrinks(self) -> bool {
        matches!(self, Self::Threads | Self::Moves)
    }

    /// Returns the gaps at which threads are stalled, with the percentage of passes that stall.
    fn gaps(self) -> Vec<(Gap, u64)> {
        match self {
            Self::Threads => vec![(Gap::ReceiverChosen, 40), (Gap::LastCheck, 5)],
            Self::Tables => vec![(Gap::MemoryReplaced, 50), (Gap::MemoryFound, 15)],
            Self::Pauses | Self::Broadcasts => vec![(Gap::Admitted, 20)],
            Self::Roles => vec![(Gap::Admitted, 40)],
            Self::Moves => vec![(Gap::ReceiverChosen, 30)],
            Self::Cuts => vec![(Gap::ChangesAppended, 40)],
        }
    }
}
