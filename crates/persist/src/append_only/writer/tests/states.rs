//! Failures in every state: each policy, changed to each other one while bytes are unsynchronised, with and without a save
//! that suspends synchronisation, and each kind of failure.

use super::*;

const POLICIES: [Appendfsync; 3] = [Appendfsync::Always, Appendfsync::Everysec, Appendfsync::No];

/// The size of a log that keeps few unsynchronised bytes, and records that are more than that.
const SMALL_LOG_SIZE: u64 = 4096;
const SMALL_LOG_RECORD_COUNT: u64 = 200;

/// What fails from the operation of a number on.
type Kind = fn(u64) -> Failing;

#[derive(Clone, Copy, Debug)]
struct State {
    policy: Appendfsync,
    later: Appendfsync,
    /// Whether a save suspends synchronisation until the policy has changed.
    is_suspended: bool,
    /// What fails, from the operation of this number on.
    failing: Kind,
    /// Whether the directory is not synchronised at first.
    is_unsettled: bool,
}

fn config(state: &State, appendfsync: Appendfsync) -> Config {
    Config {
        appendonly: true,
        appendfsync,
        no_appendfsync_on_rewrite: state.is_suspended,
        write_log_size: 1 << 20,
        ..Config::default()
    }
}

fn is_written(host: &TestHost, end: Lsn) -> bool {
    host.append_only.figures.written.load(Ordering::Relaxed) == end.0
}

/// Files in effect after a rewrite whose manifest was renamed, and whose directory could not be synchronised after that.
fn unsettled_files(disk: &CrashingDisk) -> AppendOnlyFiles<CrashingDisk> {
    let mut files = new_files(disk);
    let mut rewrite = |is_counted: bool| {
        files.begin_rewrite().unwrap();
        let base = files.create_base().unwrap();
        let before = disk.operation_count();
        if !is_counted {
            // The last operation of the step.
            disk.set_failing(Failing::Only(before + FINISH_OPERATION_COUNT - 1));
        }
        files.finish_rewrite(base, BaseFormat::Rdb).unwrap();
        assert_eq!(disk.operation_count() - before, FINISH_OPERATION_COUNT);
    };
    rewrite(true);
    rewrite(false);
    disk.set_failing(Failing::Nothing);
    files
}

/// The operations of [`AppendOnlyFiles::finish_rewrite`], the last of which synchronises the directory.
const FINISH_OPERATION_COUNT: u64 = 8;

fn check(state: State, seed: u64) {
    let disk = CrashingDisk::new(seed, Failing::Nothing);
    let host = TestHost::leak(config(&state, state.policy));
    let files = if state.is_unsettled { unsettled_files(&disk) } else { new_files(&disk) };
    host.set_busy(state.is_suspended);
    if state.is_unsettled {
        disk.set_failing((state.failing)(disk.operation_count()));
    }
    let mut rig = Rig::start(host, files);
    let mut last = Lsn(0);
    for number in 0..4 {
        last = rig.append(number);
    }
    if !state.is_unsettled {
        await_that(|| is_written(host, last));
        disk.set_failing((state.failing)(disk.operation_count()));
    }
    host.publish(config(&state, state.later));
    host.set_busy(false);
    host.append_only.wake();
    last = rig.append(4);
    // A policy that does not synchronise may notice nothing.
    if state.later != Appendfsync::No {
        await_that(|| host.is_refused() || host.append_only.is_durable(last));
        let fails = state.is_unsettled || !matches!((state.failing)(0), Failing::Directories(_));
        assert_eq!(host.is_refused(), fails, "{state:?}");
    }
    disk.set_failing(Failing::Nothing);
    await_that(|| !host.is_refused());
    last = rig.append(5);
    let expected: Vec<u8> = (0..6).flat_map(record).collect();
    if state.later != Appendfsync::No {
        await_that(|| host.append_only.is_durable(last));
        let found = recovered(&disk);
        assert!(found == expected, "after a crash: {state:?}: {}", found.escape_ascii());
    }
    assert!(rig.stop(), "{state:?}");
    let found = recovered(&disk);
    assert!(found == expected, "{state:?}: {}", found.escape_ascii());
}

/// All bytes behind the synchronised size are in the log: no failure loses any or writes any twice, whatever the policy was
/// and is.
#[test]
fn no_failure_loses_what_the_log_still_has() {
    let kinds: [(Kind, bool); 5] = [
        (Failing::From, false),
        (Failing::Appends, false),
        (Failing::Syncs, false),
        (Failing::Directories, false),
        (Failing::Directories, true),
    ];
    for policy in POLICIES {
        for later in POLICIES {
            for is_suspended in [false, true] {
                for (seed, (failing, is_unsettled)) in kinds.into_iter().enumerate() {
                    check(State { policy, later, is_suspended, failing, is_unsettled }, seed as u64);
                }
            }
        }
    }
}

/// More was written than the log keeps, under a policy without synchronisation, before one that synchronises came into
/// force: the loss is found by position, and nothing counts as durable or is accepted before a new base is complete.
#[test]
fn a_loss_is_found_by_position_whatever_the_policy() {
    for (is_suspended, policy) in [(true, Appendfsync::Always), (false, Appendfsync::No)] {
        for later in [Appendfsync::Always, Appendfsync::Everysec] {
            let disk = CrashingDisk::new(8, Failing::Nothing);
            let base = Config { appendonly: true, write_log_size: SMALL_LOG_SIZE, ..Config::default() };
            let first =
                Config { appendfsync: policy, no_appendfsync_on_rewrite: is_suspended, ..base.clone() };
            let host = TestHost::leak(first);
            host.set_busy(is_suspended);
            let files = new_files(&disk);
            let mut rig = Rig::start(host, files);
            let mut last = Lsn(0);
            for number in 0..SMALL_LOG_RECORD_COUNT {
                last = rig.append(number);
                await_that(|| is_written(host, last));
            }
            let (durable, released) = (&host.append_only.durable, &host.append_only.released);
            assert!(durable.end() < last, "nothing was synchronised");
            assert!(!is_suspended || released.end() == last, "replies do not wait meanwhile");
            disk.set_failing(Failing::Only(disk.operation_count()));
            host.publish(Config { appendfsync: later, ..base });
            host.set_busy(false);
            host.append_only.wake();
            let figures = &host.append_only.figures;
            await_that(|| figures.is_beginning.load(Ordering::Relaxed) && host.is_refused());
            // The rewrite begins, and fails here, because the rig has no directory for its base.
            await_that(|| figures.rewrite_failures.load(Ordering::Relaxed) > 1);
            assert!(host.is_refused() && !host.append_only.is_durable(Lsn(0)));
            assert!(!rig.stop(), "the file lacks changes");
        }
    }
}

/// The files of a new history can't be created for a while: the thread stays, and tries again.
#[test]
fn a_beginning_that_fails_is_tried_again() {
    let disk = CrashingDisk::new(9, Failing::Nothing);
    let host = TestHost::leak(Config { appendonly: true, ..Config::default() });
    disk.create_directory(&layout().parent).unwrap();
    let mut files = AppendOnlyFiles::open(disk.clone(), layout()).unwrap();
    files.start().unwrap();
    disk.set_failing(Failing::From(0));
    Writer::start_with_snapshot(host, files, Purpose::SwitchOn).unwrap();
    let figures = &host.append_only.figures;
    // Each attempt at a base fails, because the rig has no directory for it, and then the files begin anew.
    await_that(|| host.is_refused());
    disk.set_failing(Failing::Nothing);
    let failures = figures.rewrite_failures.load(Ordering::Relaxed);
    await_that(|| !host.is_refused() && figures.rewrite_failures.load(Ordering::Relaxed) > failures + 1);
    assert!(host.end(), "nothing that was promised is missing");
}
