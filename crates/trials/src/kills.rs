//! Kills of a server under load, with failures of its disk and power cuts: all changes are there afterwards that its
//! `appendfsync` guarantees.
//!
//! A kill follows a random number of acknowledgements. While clients work, the file is rewritten now and then. With
//! failures, calls of the server fail for a while before the kill ([`disk`]). With power cuts, the server starts again with
//! the files as a crash of the machine may have left them ([`journal`]).
//!
//! One guarantee holds besides those of [`Guarantee`], unless calls fail: a change that was acknowledged [`LOSS_TIME_MAX`]
//! before the crash is there with `everysec`, and after a kill alone with `no`, too.
//!
//! Start reading at `Campaign::try_kill`.

pub mod disk;
pub mod journal;
mod load;

use std::fmt;
use std::io;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::durability::{Contents, Guarantee, check};
use crate::random::Random;
use crate::server::{Program, Server};
use disk::Disk;
use load::{Client, account_sum, call, contents};

/// Clients that change data.
const CLIENT_COUNT: usize = 6;
/// Acknowledgements before a kill, at most.
const ACKNOWLEDGED_MAX: usize = 400;
/// The age at which an acknowledged change must be on disk with `everysec`: a second, and two synchronisations.
const LOSS_TIME_MAX: Duration = Duration::from_secs(3);
/// The time of a round in which changes reach that age.
const LONG_ROUND_TIME: Duration = Duration::from_secs(4);
/// The time for which calls fail, at most.
const FAILING_TIME_MAX: Duration = Duration::from_millis(400);
/// The time that the server has for its next attempt after a failure: it tries each second.
const RECOVERY_TIME_MAX: Duration = Duration::from_millis(2500);

/// A policy of `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Synchronised before each reply.
    Always,
    /// Synchronised each second.
    Everysec,
    /// Never synchronised.
    No,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 3] = [Policy::Always, Policy::Everysec, Policy::No];

    /// Its word in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Policy::Always => "always",
            Policy::Everysec => "everysec",
            Policy::No => "no",
        }
    }

    fn guarantee(self) -> Guarantee {
        match self {
            Policy::Always => Guarantee::Shown,
            Policy::Everysec | Policy::No => Guarantee::Awaited,
        }
    }

    fn thread_count(self) -> &'static str {
        match self {
            Policy::Always => "2",
            Policy::Everysec => "3",
            Policy::No => "1",
        }
    }
}

/// What happens besides the kills.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hazards {
    /// Calls of the server fail in three rounds of four.
    pub failures: bool,
    /// The machine loses its power instead of the server its life.
    pub power_cuts: bool,
}

/// The figures of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Kills or power cuts.
    pub kill_count: usize,
    /// Changes that were acknowledged.
    pub acknowledged_count: usize,
    /// Changes that were refused because the disk failed.
    pub refused_count: usize,
    /// The largest number of acknowledged changes of all clients that one crash has lost, as the policy allows.
    pub lost_count_max: usize,
    /// Rewrites that were ordered.
    pub rewrite_count: usize,
    /// Rounds in which calls failed, by the word of the disk.
    pub failure_counts: [usize; disk::FAILURES.len()],
}

/// One server, killed and started again on its files.
pub struct Campaign {
    policy: Policy,
    hazards: Hazards,
    server: Server,
    /// Between the server and its files, if there are hazards.
    disk: Option<Disk>,
    random: Random,
    /// The figures so far.
    pub figures: Figures,
}

impl Campaign {
    /// Starts a server.
    ///
    /// # Errors
    /// It does not start, or the library between it and the disk can't be built.
    pub fn start(program: &Program, policy: Policy, hazards: Hazards, seed: u64) -> io::Result<Self> {
        let disk = (hazards.failures || hazards.power_cuts).then(Disk::build).transpose()?;
        let program =
            program.clone().with_arguments(&["--appendonly", "yes", "--appendfsync", policy.word()]);
        let program = program.with_threads(policy.thread_count());
        // Bytes of zeros may be before surviving ones; then what follows is cut off when the file is loaded.
        let program = match hazards.power_cuts {
            true => program.with_arguments(&["--aof-load-corrupt-tail-max-size", "1073741824"]),
            false => program,
        };
        let program = match &disk {
            Some(disk) => program.with_environment(disk.environment(hazards.power_cuts)),
            None => program,
        };
        let server = Server::start(&program)?;
        Ok(Self { policy, hazards, server, disk, random: Random::new(seed), figures: Figures::default() })
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Lets fsync succeed without effect from now on, as a planted fault.
    ///
    /// # Errors
    /// Of the file system.
    ///
    /// # Panics
    /// There are no hazards.
    pub fn plant_lost_syncs(&mut self) -> io::Result<()> {
        self.disk.as_mut().expect("the campaign has hazards").lose_syncs()
    }

    /// Lets clients work, kills the server and starts it again after `damage`. Compares the data with the replies.
    ///
    /// # Errors
    /// A loss, the end of the server, or a failure of the machine.
    pub fn kill_once(&mut self, damage: impl FnOnce(&Server) -> io::Result<()>) -> io::Result<()> {
        let result = self.try_kill(damage);
        match (&result, self.server.ended()?) {
            (Err(error), Some(ended)) => Err(io::Error::other(format!("{error}; the server ended: {ended}"))),
            _ => result,
        }
    }

    fn try_kill(&mut self, damage: impl FnOnce(&Server) -> io::Result<()>) -> io::Result<()> {
        let mut admin = self.server.connect()?;
        let clients: Vec<Client> = (0..CLIENT_COUNT)
            .map(|number| Ok(Client::new(number, contents(&mut admin, number)?)))
            .collect::<io::Result<_>>()?;
        let fails = self.hazards.failures && self.random.chance(75);
        let killed_at = self.load_and_kill(&clients, &mut admin, fails)?;
        self.server.kill()?;
        self.restart(damage)?;
        let mut admin = self.server.connect()?;
        let found: Vec<Contents> =
            (0..CLIENT_COUNT).map(|number| contents(&mut admin, number)).collect::<io::Result<_>>()?;
        let guarantees_time = !fails
            && match self.policy {
                Policy::Always => false,
                Policy::Everysec => true,
                Policy::No => !self.hazards.power_cuts,
            };
        let settled_before = guarantees_time.then(|| killed_at.checked_sub(LOSS_TIME_MAX)).flatten();
        let mut lost_count = 0;
        let mut histories = Vec::new();
        for (client, found) in clients.into_iter().zip(&found) {
            let (history, refused_count) = client.into_history(settled_before);
            self.figures.acknowledged_count += history.acknowledged();
            self.figures.refused_count += refused_count;
            let found_count = history.found_count(found).unwrap_or_default() as usize;
            lost_count += history.acknowledged().saturating_sub(found_count);
            histories.push(history);
        }
        self.figures.kill_count += 1;
        self.figures.lost_count_max = self.figures.lost_count_max.max(lost_count);
        check(&histories, &found, self.policy.guarantee()).map_err(io::Error::other)?;
        match account_sum(&mut admin)? {
            0 => Ok(()),
            sum => Err(io::Error::other(format!("a transfer is half there: the sum is {sum}"))),
        }
    }

    /// Runs the clients and kills the process. Returns when.
    fn load_and_kill(
        &mut self,
        clients: &[Client],
        admin: &mut Connection,
        fails: bool,
    ) -> io::Result<Instant> {
        let seeds: Vec<Random> = clients.iter().map(|_| self.random.fork()).collect();
        let plan = Round::draw(&mut self.random, self.policy, fails);
        self.figures.rewrite_count += usize::from(plan.rewrites);
        if let Some(failure) = plan.failure {
            self.figures.failure_counts[failure] += 1;
        }
        let (sender, receiver) = channel();
        let process = self.server.process_id();
        let killed_at = std::thread::scope(|scope| {
            let workers: Vec<_> = clients
                .iter()
                .zip(seeds)
                .map(|(client, mut random)| {
                    let (server, sender) = (&self.server, sender.clone());
                    scope.spawn(move || client.work(server, fails, &mut random, &sender))
                })
                .collect();
            drop(sender);
            let ran = plan.run(&receiver, admin, self.disk.as_ref());
            let killed_at = Instant::now();
            let killed = kill(process);
            let worked: io::Result<()> =
                workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"));
            ran.and(killed).and(worked).map(|()| killed_at)
        });
        if let Some(disk) = &self.disk {
            disk.rest()?;
        }
        killed_at
    }

    /// Starts the killed server again, after a power cut if there are some, and after `damage`.
    fn restart(&mut self, damage: impl FnOnce(&Server) -> io::Result<()>) -> io::Result<()> {
        if let Some(disk) = self.disk.as_mut().filter(|_| self.hazards.power_cuts) {
            disk.cut_power(self.server.data_dir(), &mut self.random)?;
        }
        damage(&self.server)?;
        self.server.start_again()
    }
}

impl fmt::Display for Campaign {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = &self.figures;
        write!(
            formatter,
            "appendfsync {}: {} {}, {} changes acknowledged, {} refused, {} rewrites, at most {} acknowledged changes lost at once",
            self.policy.word(),
            figures.kill_count,
            if self.hazards.power_cuts { "power cuts" } else { "kills" },
            figures.acknowledged_count,
            figures.refused_count,
            figures.rewrite_count,
            figures.lost_count_max,
        )?;
        for (word, count) in disk::FAILURES.iter().zip(figures.failure_counts) {
            if count > 0 {
                write!(formatter, ", {count} with failing {word}")?;
            }
        }
        Ok(())
    }
}

/// The random choices of one round.
struct Round {
    /// Acknowledgements before the kill, or before calls fail.
    acknowledged_count: usize,
    /// Whether the round takes [`LONG_ROUND_TIME`] instead.
    is_long: bool,
    rewrites: bool,
    /// Index of the failing calls in [`disk::FAILURES`].
    failure: Option<usize>,
    /// How long they fail.
    failing_time: Duration,
    /// Acknowledgements after they have failed, before the kill.
    recovered_count: Option<usize>,
}

impl Round {
    fn draw(random: &mut Random, policy: Policy, fails: bool) -> Self {
        Self {
            acknowledged_count: random.below(ACKNOWLEDGED_MAX),
            is_long: policy != Policy::Always && !fails && random.chance(2),
            rewrites: random.chance(if fails { 50 } else { 20 }),
            failure: fails.then(|| random.below(disk::FAILURES.len())),
            failing_time: FAILING_TIME_MAX.mul_f64(random.below(1000) as f64 / 1000.0),
            recovered_count: random.chance(50).then(|| 1 + random.below(ACKNOWLEDGED_MAX)),
        }
    }

    /// Waits for acknowledgements, and lets calls fail.
    fn run(
        &self,
        acknowledged: &Receiver<usize>,
        admin: &mut Connection,
        disk: Option<&Disk>,
    ) -> io::Result<()> {
        if self.is_long {
            await_count(acknowledged, usize::MAX, LONG_ROUND_TIME);
        } else {
            await_count(acknowledged, self.acknowledged_count, Duration::MAX);
        }
        if let Some((disk, failure)) = disk.zip(self.failure) {
            disk.set(disk::FAILURES[failure])?;
        }
        if self.rewrites {
            // An error if the disk fails.
            call(admin, "BGREWRITEAOF")?;
        }
        if let Some(disk) = disk.filter(|_| self.failure.is_some()) {
            await_count(acknowledged, usize::MAX, self.failing_time);
            if let Some(count) = self.recovered_count {
                disk.rest()?;
                await_count(acknowledged, count, RECOVERY_TIME_MAX);
            }
        }
        Ok(())
    }
}

/// Waits for so many acknowledgements, for so long at most.
fn await_count(acknowledged: &Receiver<usize>, wanted: usize, time_max: Duration) {
    let began = Instant::now();
    let mut count = 0;
    while count < wanted {
        let left = time_max.saturating_sub(began.elapsed());
        match acknowledged.recv_timeout(left) {
            Ok(more) => count += more,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn kill(process: u32) -> io::Result<()> {
    let status = Command::new("kill").args(["-KILL", &process.to_string()]).status()?;
    status.success().then_some(()).ok_or_else(|| io::Error::other("the server has ended before its kill"))
}
