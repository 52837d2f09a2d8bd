//! A server is killed at random moments under load, hundreds of times, and started again on its files: all
//! changes are there that its `appendfsync` policy guarantees.
//!
//! A few rounds have a disk that fails, and power cuts instead of kills; `trials kills` runs more of all. The seed is printed;
//! `KILLING_SEED` repeats it, as far as the timing of processes does.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trials::kills::{Campaign, Hazards, Policy};
use trials::server::{Program, Server, programs_or_skip};

/// Kills with one policy, and the time after which there are no more.
const KILL_COUNT: usize = 120;
const TIME_MAX: Duration = Duration::from_secs(28);
/// The same with hazards.
const HAZARD_COUNT: usize = 10;

fn seed() -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("KILLING_SEED").map_or_else(|_| fresh(), |text| text.parse().unwrap());
    eprintln!("KILLING_SEED={seed}");
    seed
}

fn campaign(policy: Policy, hazards: Hazards) -> Option<Campaign> {
    let [program] = programs_or_skip([("broadloom", Program::broadloom())])?;
    Some(Campaign::start(&program, policy, hazards, seed()).unwrap())
}

fn run(policy: Policy, hazards: Hazards, count: usize) {
    let Some(mut campaign) = campaign(policy, hazards) else { return };
    let began = Instant::now();
    while campaign.figures.kill_count < count && began.elapsed() < TIME_MAX {
        let kept = campaign.kill_once(|_| Ok(()));
        assert!(kept.is_ok(), "after kill {}: {}", campaign.figures.kill_count, kept.unwrap_err());
    }
    assert!(campaign.figures.acknowledged_count > 0, "no change was acknowledged");
    eprintln!("{campaign}");
}

/// The last increment of the append-only file.
fn last_increment(server: &Server) -> PathBuf {
    let directory = server.data_dir().join("appendonlydir");
    let manifest = std::fs::read_to_string(directory.join("appendonly.aof.manifest")).unwrap();
    let last = manifest.lines().rfind(|line| line.ends_with("type i")).unwrap();
    directory.join(last.split(' ').nth(1).unwrap())
}

fn assert_finds_loss(mut campaign: Campaign, damage: impl Fn(&Server) -> io::Result<()>) {
    let found = (0..20).find_map(|_| campaign.kill_once(&damage).err()).unwrap().to_string();
    assert!(found.contains("guaranteed") || found.contains("before the start"), "{found}");
}

#[test]
fn always_loses_nothing_that_was_shown() {
    run(Policy::Always, Hazards::default(), KILL_COUNT);
}

#[test]
fn everysec_loses_nothing_that_was_awaited() {
    run(Policy::Everysec, Hazards::default(), KILL_COUNT);
}

#[test]
fn no_loses_only_the_newest_changes() {
    run(Policy::No, Hazards::default(), KILL_COUNT);
}

#[test]
fn a_failing_disk_breaks_no_guarantee() {
    for policy in Policy::ALL {
        run(policy, Hazards { failures: true, power_cuts: false }, HAZARD_COUNT);
    }
}

#[test]
fn power_cuts_break_no_guarantee() {
    for policy in Policy::ALL {
        run(policy, Hazards { failures: false, power_cuts: true }, HAZARD_COUNT);
    }
}

/// A server that acknowledges before it writes leaves such files.
#[test]
fn a_loss_is_found() {
    let Some(campaign) = campaign(Policy::Always, Hazards::default()) else { return };
    assert_finds_loss(campaign, |server| {
        let file = std::fs::OpenOptions::new().write(true).open(last_increment(server))?;
        file.set_len(file.metadata()?.len() * 3 / 4)
    });
}

/// A server that acknowledges before it synchronises loses changes by a power cut.
#[test]
fn a_synchronisation_without_effect_is_found() {
    let hazards = Hazards { failures: false, power_cuts: true };
    let Some(mut campaign) = campaign(Policy::Always, hazards) else { return };
    campaign.plant_lost_syncs().unwrap();
    assert_finds_loss(campaign, |_| Ok(()));
}
