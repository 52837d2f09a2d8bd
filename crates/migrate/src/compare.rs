//! Compares source and target: the numbers of keys of each database, with and without an expiry, and a sample of keys with
//! type, expiry and value.
//!
//! The source may change meanwhile. A difference counts only if, in each of several attempts, the source's value stays equal
//! over a time in which the target had all changes and yet another value.

mod reader;
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tool::interrupt;

use crate::compare::sample::Fingerprint;
use crate::error::MigrateError;
use crate::info::{KeyCounts, Keyspace};
use crate::progress::{Phase, Progress};
use crate::servers::{DatabaseKey, Link, Servers};

/// Readings of the numbers of keys before a difference counts.
const COUNT_ATTEMPTS: usize = 10;
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// Readings of a key that the source changes meanwhile.
const VALUE_ATTEMPTS: usize = 5;

const VALUE_INTERVAL: Duration = Duration::from_millis(20);

/// Keys that are read at a time.
const BATCH_LEN: usize = 200;

/// Difference of expiries, beside that of the clocks, that is not reported.
const EXPIRY_TOLERANCE_MS: i64 = 1_000;

/// Difference of the clocks above which keys would expire at the wrong time.
const CLOCK_TOLERANCE_MS: i64 = 60_000;

/// Differences that are listed.
const LISTED_MAX: usize = 10;

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What was compared, and each difference, as lines.
    pub lines: Vec<String>,
    /// The number of differences.
    pub difference_count: u64,
}

impl Comparison {
    /// Whether no difference was found.
    pub fn is_equal(&self) -> bool {
        self.difference_count == 0
    }

    /// Adds what the target has refused, as differences.
    pub fn add_refused(&mut self, link: &dyn Link) {
        for (count, text) in link.refused() {
            self.difference_count += count;
            self.lines.push(format!("  REFUSED {text}"));
        }
    }

    fn differs(&mut self, line: String) {
        self.difference_count += 1;
        if self.difference_count as usize <= LISTED_MAX {
            self.lines.push(format!("  DIFFERENT {line}"));
        }
    }
}

/// Compares both servers. About `sample` keys of the source are compared by value, and a quarter as many of the target.
pub fn run(
    servers: &mut Servers,
    link: &mut dyn Link,
    sample: u64,
    progress: &mut Progress,
) -> Result<Comparison, MigrateError> {
    let mut comparison = Comparison::default();
    counts(servers, link, &mut comparison)?;
    values(servers, link, sample, &mut comparison, progress)?;
    if comparison.difference_count as usize > LISTED_MAX {
        comparison.lines.push(format!("  and {} more", comparison.difference_count as usize - LISTED_MAX));
    }
    comparison.add_refused(link);
    Ok(comparison)
}

/// Compares the numbers of keys.
fn counts(
    servers: &mut Servers,
    link: &mut dyn Link,
    comparison: &mut Comparison,
) -> Result<(), MigrateError> {
    let (mut before, mut target) = (Keyspace::new(), Keyspace::new());
    let mut differing = Vec::new();
    for attempt in 0..COUNT_ATTEMPTS {
        if attempt > 0 {
            interrupt::sleep(COUNT_INTERVAL)?;
        }
        before = servers.source.keyspace()?;
        link.settle(servers)?;
        target = servers.target.keyspace()?;
        let after = servers.source.keyspace()?;
        differing = differing_databases(&before, &target, &after, link.skips_expired());
        if differing.is_empty() {
            break;
        }
    }
    let counts = |keyspace: &Keyspace, database: u32| keyspace.get(&database).copied().unwrap_or_default();
    for database in databases([&before, &target]) {
        let (source, target) = (counts(&before, database), counts(&target, database));
        if differing.contains(&database) {
            comparison.differs(format!(
                "db{database}: {} keys in the source ({} with an expiry), {} in the target ({} with an expiry)",
                source.keys, source.expires, target.keys, target.expires
            ));
            continue;
        }
        let (source, target) = (source.keys, target.keys);
        let remark = match (source == target, link.skips_expired()) {
            (true, _) => "",
            (false, true) => " (the source changes, or still counts expired keys)",
            (false, false) => " (the source changes meanwhile)",
        };
        comparison
            .lines
            .push(format!("  db{database}: {source} keys in the source, {target} in the target{remark}"));
    }
    if before.is_empty() && target.is_empty() {
        comparison.lines.push("  no keys in either server".to_owned());
    }
    Ok(())
}

fn databases<'a>(keyspaces: impl IntoIterator<Item = &'a Keyspace>) -> BTreeSet<u32> {
    keyspaces.into_iter().flat_map(|keyspace| keyspace.keys().copied()).collect()
}

/// Returns the databases for which the number of keys in the target, or that of keys without an expiry, is not between the
/// source's numbers before and after.
fn differing_databases(
    before: &Keyspace,
    target: &Keyspace,
    after: &Keyspace,
    skips_expired: bool,
) -> Vec<u32> {
    let counts =
        |keyspace: &Keyspace, database| -> KeyCounts { keyspace.get(&database).copied().unwrap_or_default() };
    let differs = |&database: &u32| {
        let (before, after) = (counts(before, database), counts(after, database));
        let target = counts(target, database);
        let expired_max = if skips_expired { before.expires.max(after.expires) } else { 0 };
        let fewest = before.keys.min(after.keys).saturating_sub(expired_max);
        // Keys that have expired, but are still counted, do not change it.
        let lasting = |counts: KeyCounts| counts.keys.saturating_sub(counts.expires);
        let (lasting_before, lasting_after) = (lasting(before), lasting(after));
        !(fewest..=before.keys.max(after.keys)).contains(&target.keys)
            || !(lasting_before.min(lasting_after)..=lasting_before.max(lasting_after))
                .contains(&lasting(target))
    };
    databases([before, target, after]).into_iter().filter(differs).collect()
}

/// The result for one key.
enum Verdict {
    Equal,
    /// The source changes it too often.
    Changing,
    /// A type of a module, which has no commands that are known here.
    Unknown,
    Different(String),
}

fn values(
    servers: &mut Servers,
    link: &mut dyn Link,
    count: u64,
    comparison: &mut Comparison,
    progress: &mut Progress,
) -> Result<(), MigrateError> {
    let clocks_ms = clocks(servers.clock_difference_ms()?, comparison);
    let keyspace = servers.source.keyspace()?;
    let mut keys = sample::choose(&mut servers.source, &keyspace, count)?;
    let keyspace = servers.target.keyspace()?;
    keys.extend(sample::choose(&mut servers.target, &keyspace, count / 4)?);
    let reading = Reading {
        has_field_expiries: servers.source.has_command("hpexpiretime")?
            && servers.target.has_command("hpexpiretime")?,
        clocks_ms,
    };
    let keys: Vec<&DatabaseKey> = keys.iter().collect();
    let (mut types, mut equal, mut changing) = (BTreeMap::<String, u64>::new(), 0u64, 0u64);
    for (done, batch) in keys.chunks(BATCH_LEN).enumerate() {
        interrupt::check()?;
        progress.show(&Phase::Comparing { done: (done * BATCH_LEN) as u64, total: keys.len() as u64 });
        for ((database, key), (type_name, verdict)) in
            batch.iter().zip(reading.compare(servers, link, batch)?)
        {
            if let Some(type_name) = &type_name {
                *types.entry(type_name.clone()).or_default() += 1;
            }
            match verdict {
                Verdict::Equal => equal += 1,
                Verdict::Changing => changing += 1,
                Verdict::Unknown => {
                    let type_name = type_name.unwrap_or_default();
                    comparison.differs(format!(
                        "db{database} '{}': the type {type_name} can't be compared",
                        key.escape_ascii()
                    ));
                }
                Verdict::Different(reason) => {
                    comparison.differs(format!("db{database} '{}': {reason}", key.escape_ascii()));
                }
            }
        }
    }
    let types: Vec<String> = types.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let different = keys.len() as u64 - equal - changing;
    let mut line = format!("  sample of {} keys: {equal} equal, {different} different", keys.len());
    if changing > 0 {
        line.push_str(&format!(", {changing} that the source keeps changing"));
    }
    if !types.is_empty() {
        line.push_str(&format!(" (by type: {})", types.join(", ")));
    }
    comparison.lines.push(line);
    Ok(())
}

/// Compares the clocks, and returns by how much those of the target are ahead.
fn clocks(difference_ms: Option<i64>, comparison: &mut Comparison) -> i64 {
    let Some(difference_ms) = difference_ms else {
        let remark =
            "  a server refuses TIME: the clocks are not compared, and expiries as remaining times only";
        comparison.lines.push(remark.to_owned());
        return 0;
    };
    let text = format!("the clocks differ by {difference_ms} ms: keys expire earlier on one of the servers");
    match difference_ms.abs() {
        0..=EXPIRY_TOLERANCE_MS => {}
        ..=CLOCK_TOLERANCE_MS => comparison.lines.push(format!("  {text}")),
        _ => comparison.differs(format!("{text}; set the wrong clock first")),
    }
    difference_ms
}

/// How keys are read and compared.
struct Reading {
    has_field_expiries: bool,
    /// By how much the target's clock is ahead.
    clocks_ms: i64,
}

/// What is known of a key.
struct Known {
    source: Option<Fingerprint>,
    verdict: Option<Verdict>,
    /// The attempts in which the source's value stayed the same and the target had another one.
    difference_count: usize,
}

impl Reading {
    /// Compares keys, and returns for each the type in the source, if it exists, and the result.
    fn compare(
        &self,
        servers: &mut Servers,
        link: &mut dyn Link,
        keys: &[&DatabaseKey],
    ) -> Result<Vec<(Option<String>, Verdict)>, MigrateError> {
        let mut begin = Instant::now();
        let first = sample::read(&mut servers.source, keys, self.has_field_expiries)?;
        let mut known: Vec<Known> =
            first.into_iter().map(|source| Known { source, verdict: None, difference_count: 0 }).collect();
        for attempt in 0..VALUE_ATTEMPTS {
            let open: Vec<usize> = (0..keys.len()).filter(|&at| known[at].verdict.is_none()).collect();
            if open.is_empty() {
                break;
            }
            let open_keys: Vec<&DatabaseKey> = open.iter().map(|&at| keys[at]).collect();
            if attempt > 0 {
                interrupt::sleep(VALUE_INTERVAL)?;
            }
            link.settle(servers)?;
            link.refresh(servers, &open_keys)?;
            let target = sample::read(&mut servers.target, &open_keys, self.has_field_expiries)?;
            let passed_ms = begin.elapsed().as_millis() as i64;
            let unequal = |&(at, target): &(usize, &Option<Fingerprint>)| {
                self.difference(known[at].source.as_ref(), target.as_ref(), passed_ms).is_some()
            };
            let unequal: Vec<(usize, &Option<Fingerprint>)> =
                open.iter().copied().zip(&target).filter(unequal).collect();
            let unequal_keys: Vec<&DatabaseKey> = unequal.iter().map(|&(at, _)| keys[at]).collect();
            begin = Instant::now();
            let again = sample::read(&mut servers.source, &unequal_keys, self.has_field_expiries)?;
            for &at in &open {
                let has_digest = known[at].source.as_ref().is_none_or(|source| source.digest.is_some());
                known[at].verdict = Some(if has_digest { Verdict::Equal } else { Verdict::Unknown });
            }
            for ((at, target), again) in unequal.into_iter().zip(again) {
                let Known { source, verdict, difference_count } = &mut known[at];
                let passed_ms = passed_ms + begin.elapsed().as_millis() as i64;
                let difference = self.difference(again.as_ref(), target.as_ref(), passed_ms);
                let is_unchanged = self.difference(source.as_ref(), again.as_ref(), passed_ms).is_none();
                *difference_count += usize::from(is_unchanged);
                *verdict = match difference {
                    None => Some(Verdict::Equal),
                    // A key that is deleted and written again with the same value looks unchanged, but not each time.
                    Some(reason) if *difference_count == VALUE_ATTEMPTS => Some(Verdict::Different(reason)),
                    Some(_) => None,
                };
                *source = again;
            }
        }
        let result = |known: Known| {
            (known.source.map(|source| source.type_name), known.verdict.unwrap_or(Verdict::Changing))
        };
        Ok(known.into_iter().map(result).collect())
    }

    /// Returns the difference of two readings, the second of which was made `passed_ms` after the first, or before it.
    fn difference(
        &self,
        source: Option<&Fingerprint>,
        target: Option<&Fingerprint>,
        passed_ms: i64,
    ) -> Option<String> {
        let tolerance_ms = EXPIRY_TOLERANCE_MS + passed_ms;
        let expires_now =
            |one: &Fingerprint| (0..=tolerance_ms + self.clocks_ms.abs()).contains(&one.pttl_ms);
        let (source, target) = match (source, target) {
            (None, None) => return None,
            (Some(one), None) | (None, Some(one)) if expires_now(one) => return None,
            (Some(one), None) => return Some(format!("missing in the target ({})", one.type_name)),
            (None, Some(one)) => {
                return Some(format!("not in the source, but in the target ({})", one.type_name));
            }
            (Some(source), Some(target)) => (source, target),
        };
        let expiry = |pttl_ms: i64| if pttl_ms < 0 { "none".to_owned() } else { format!("in {pttl_ms} ms") };
        if source.type_name != target.type_name {
            return Some(format!("{} in the source, {} in the target", source.type_name, target.type_name));
        }
        if source.digest != target.digest {
            return Some(format!("the values differ ({})", source.type_name));
        }
        let is_one_sided = (source.pttl_ms < 0) != (target.pttl_ms < 0);
        // Either both expire at one instant, or the remaining times are equal: Redis before 7 sends some of them.
        let difference_ms = source.pttl_ms - target.pttl_ms;
        let difference_ms = difference_ms.abs().min((difference_ms - self.clocks_ms).abs());
        if is_one_sided || difference_ms > tolerance_ms {
            let (source, target) = (expiry(source.pttl_ms), expiry(target.pttl_ms));
            return Some(format!("expiry {source} in the source, {target} in the target"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_keys_may_be_between_two_readings() {
        let keyspace = |counts: &[(u32, u64, u64)]| -> Keyspace {
            counts.iter().map(|&(database, keys, expires)| (database, KeyCounts { keys, expires })).collect()
        };
        let (before, after) = (keyspace(&[(0, 10, 4), (1, 5, 0)]), keyspace(&[(0, 12, 4), (1, 5, 0)]));
        let differing = |target: &[(u32, u64, u64)], skips_expired| {
            differing_databases(&before, &keyspace(target), &after, skips_expired)
        };
        assert_eq!(differing(&[(0, 11, 4), (1, 5, 0)], false), [0; 0]);
        assert_eq!(differing(&[(0, 9, 4), (1, 4, 0)], false), [0, 1]);
        assert_eq!(differing(&[(0, 6, 0), (1, 5, 0)], true), [0; 0]);
        // As many keys, but without their expiries.
        assert_eq!(differing(&[(0, 11, 0), (1, 5, 0)], true), [0]);
        assert_eq!(differing(&[(0, 5, 0), (2, 1, 0)], true), [0, 1, 2]);
    }

    #[test]
    fn differences_are_named() {
        let reading = Reading { has_field_expiries: false, clocks_ms: 0 };
        let one = |pttl_ms: i64, digest: u64| Fingerprint {
            type_name: "list".into(),
            pttl_ms,
            digest: Some(digest),
        };
        let difference = |source: Option<Fingerprint>, target: Option<Fingerprint>| {
            reading.difference(source.as_ref(), target.as_ref(), 10).unwrap_or_default()
        };
        assert_eq!(difference(Some(one(-1, 1)), Some(one(-1, 1))), "");
        assert_eq!(difference(Some(one(5_000, 1)), Some(one(4_000, 1))), "");
        assert_eq!(difference(Some(one(900, 1)), None), "");
        assert_eq!(difference(Some(one(-1, 1)), None), "missing in the target (list)");
        assert_eq!(difference(None, Some(one(-1, 1))), "not in the source, but in the target (list)");
        assert_eq!(difference(Some(one(-1, 1)), Some(one(-1, 2))), "the values differ (list)");
        assert_eq!(
            difference(Some(one(-1, 1)), Some(one(9_000, 1))),
            "expiry none in the source, in 9000 ms in the target"
        );
        assert_eq!(
            difference(Some(one(9_000, 1)), Some(one(19_000, 1))),
            "expiry in 9000 ms in the source, in 19000 ms in the target"
        );
        let set = Fingerprint { type_name: "set".into(), ..one(-1, 1) };
        assert_eq!(difference(Some(one(-1, 1)), Some(set)), "list in the source, set in the target");
    }

    #[test]
    fn different_clocks_do_not_hide_other_differences() {
        // The target's clock is half a minute ahead.
        let reading = Reading { has_field_expiries: false, clocks_ms: 30_000 };
        let differs = |source_ms: i64, target_ms: Option<i64>| {
            let one = |pttl_ms: i64| Fingerprint { type_name: "list".into(), pttl_ms, digest: Some(1) };
            reading.difference(Some(&one(source_ms)), target_ms.map(one).as_ref(), 10).is_some()
        };
        assert!(!differs(50_000, Some(20_000)), "at one instant");
        assert!(!differs(50_000, Some(50_000)), "after one time");
        assert!(differs(50_000, Some(80_000)) && differs(50_000, Some(35_000)));
        assert!(!differs(20_000, None) && differs(40_000, None));
    }

    #[test]
    fn clocks_may_differ_by_a_minute() {
        let compare = |difference_ms: Option<i64>| {
            let mut comparison = Comparison::default();
            let clocks_ms = clocks(difference_ms, &mut comparison);
            (clocks_ms, comparison.is_equal(), comparison.lines.len())
        };
        assert_eq!(compare(Some(-500)), (-500, true, 0));
        assert_eq!(compare(Some(-50_000)), (-50_000, true, 1));
        assert_eq!(compare(Some(90_000)), (90_000, false, 1));
        assert_eq!(compare(None), (0, true, 1));
    }
}
