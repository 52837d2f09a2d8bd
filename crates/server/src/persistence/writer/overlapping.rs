//! Overlapping syncs with `always`: while one sync is in progress, later changes are written and a second sync begins.
//!
//! Without overlap, a request that arrives during a sync waits for the rest of that sync and for the whole next one. Disks
//! complete two concurrent syncs in little more time than one.
//!
//! Invariants:
//! 1. Outside of [`Writer::write_overlapping`] no other thread uses the file. So rewrites, recoveries and changes of the
//!    configuration never meet a sync in progress.
//! 2. Syncs count in the order in which they began. So the durable LSN never passes bytes that a failed sync has lost.
//! 3. While syncs are in progress, a second reader stays at the durable LSN: the log keeps all bytes that are not durable.
//!    After a failure they are read again from there.

use std::collections::VecDeque;
use std::io;

use config::Appendfsync;
use os::clock::{Ticks, Uptime};
use persist::disk::{Disk, DiskFile};
use sync::atomic::Ordering;
use sync::mpsc::{Receiver, Sender, channel};
use sync::thread::JoinHandle;
use sync::write_log::LogReader;

use super::grouping::SYNC_NS_MIN;
use super::{Failed, SLEEP_MAX, Writer};
use crate::shared::persistence::{AppendOnly, sync_event};

/// The most syncs in progress.
const SYNC_COUNT_MAX: usize = 2;

/// How long new syncs may begin before the thread looks at its other tasks, in nanoseconds.
const OVERLAP_NS_MAX: u64 = 100_000_000;

/// The state of one call of [`Writer::write_overlapping`].
struct Overlap {
    /// At the durable LSN: invariant 3.
    durable: LogReader,
    /// In the order in which they began.
    syncs: VecDeque<PendingSync>,
    began: Ticks,
    /// The beginning of the wait for the next group, and its size at the last look.
    gathering: Option<(Ticks, u64)>,
    /// The bytes that became durable.
    size: usize,
    /// Whether a sync could not begin on another thread.
    is_refused: bool,
    failed: Option<Failed>,
}

/// A sync in progress, or one that has ended before an earlier one.
struct PendingSync {
    thread: usize,
    began: Ticks,
    /// The bytes of the log that were written for it.
    size: usize,
    /// The size of the file when it began.
    file_size: u64,
    /// `None`: it is in progress.
    result: Option<io::Result<()>>,
}

/// How to continue.
enum Next {
    Sync,
    /// Wait for the end of a sync or an order; `true`: or for changes.
    Wait(std::time::Duration, bool),
    End,
}

impl<D: Disk + Send + 'static> Writer<D>
where
    D::File: Send,
{
    /// Whether syncs should overlap. Passing short ones to another thread costs more than it gains; tests have only such.
    /// The changes before a cut are written without overlap, because the reader never waits for those after it.
    pub(super) fn overlaps(&self) -> bool {
        let is_worthwhile = cfg!(test) || self.grouping.sync_ns() >= SYNC_NS_MIN;
        is_worthwhile && !self.is_stopping && self.shared.persistence.append_only.cut().is_none()
    }

    /// Writes and synchronises changes until there are none or another task is due. Then no sync is in progress. Returns
    /// the number of bytes that became durable; `None` if syncs can't overlap now.
    pub(super) fn write_overlapping(&mut self) -> Result<Option<usize>, Failed> {
        let Some(lsn) = self.reader.as_ref().map(LogReader::lsn) else { return Ok(Some(0)) };
        let Some(durable) = self.shared.keyspace.log.attach_at(lsn, 0) else { return Ok(None) };
        let mut overlap = Overlap {
            durable,
            syncs: VecDeque::new(),
            began: Ticks::now(),
            gathering: None,
            size: 0,
            is_refused: false,
            failed: None,
        };
        loop {
            self.collect_syncs(&mut overlap);
            match self.next_step(&mut overlap) {
                Next::Sync => match self.begin_sync(&mut overlap) {
                    Ok(has_begun) => overlap.is_refused = !has_begun,
                    Err(failed) => overlap.failed = Some(failed),
                },
                Next::Wait(timeout, ends_with_changes) => {
                    let reader = self.reader.as_mut().filter(|_| ends_with_changes);
                    self.shared.persistence.append_only.wait(reader, timeout);
                }
                Next::End => break,
            }
        }
        if let Some(failed) = overlap.failed {
            self.reader = Some(overlap.durable);
            return Err(failed);
        }
        Ok(Some(overlap.size).filter(|size| *size > 0 || !overlap.is_refused))
    }

    fn next_step(&mut self, overlap: &mut Overlap) -> Next {
        let may_begin = overlap.failed.is_none()
            && !overlap.is_refused
            && self.overlaps()
            && !self.shared.persistence.append_only.has_orders()
            && self.shared.config.generation() == self.generation
            && self.policy() == Appendfsync::Always
            && Ticks::now().ns_since(overlap.began) < OVERLAP_NS_MAX;
        let has_capacity = overlap.syncs.len() < SYNC_COUNT_MAX;
        let reader = self.reader.as_mut().expect("it has one as long as syncs overlap");
        let size = if may_begin { reader.complete_end().0 - reader.lsn().0 } else { 0 };
        if size == 0 || !has_capacity {
            return match overlap.syncs.is_empty() {
                true => Next::End,
                false => Next::Wait(SLEEP_MAX, may_begin && has_capacity),
            };
        }
        let (gathering_began, size_before) = overlap.gathering.unwrap_or((Ticks::now(), 0));
        match self.grouping.quiet(size, Ticks::now().ns_since(gathering_began)) {
            Some(quiet) if size != size_before => {
                overlap.gathering = Some((gathering_began, size));
                Next::Wait(quiet, false)
            }
            _ => Next::Sync,
        }
    }

    /// Writes the changes and begins their sync. Returns false if no other thread can synchronise the file now.
    fn begin_sync(&mut self, overlap: &mut Overlap) -> Result<bool, Failed> {
        overlap.gathering = None;
        let Some(file) = self.files.open_for_sync() else { return Ok(false) };
        let Ok(thread) = self.sync_threads.reserve(&self.shared.persistence.append_only) else {
            return Ok(false);
        };
        let size = self.append_changes(usize::MAX)?;
        if size == 0 {
            return Ok(true);
        }
        if let Some(reader) = &mut self.reader {
            reader.advance(size);
        }
        let (file_size, _) = self.files.current_size();
        let began = Ticks::now();
        if overlap.syncs.is_empty() {
            self.figures().syncing.begin(began.uptime());
        }
        self.sync_threads.begin(thread, file);
        overlap.syncs.push_back(PendingSync { thread, began, size, file_size, result: None });
        Ok(true)
    }

    /// Counts the syncs that have ended, in their order.
    fn collect_syncs(&mut self, overlap: &mut Overlap) {
        while let Some((thread, result)) = self.sync_threads.take_ended() {
            let mut of_thread = overlap.syncs.iter_mut().filter(|sync| sync.thread == thread);
            of_thread.find(|sync| sync.result.is_none()).expect("it is pending").result = Some(result);
        }
        while let Some(sync) = overlap.syncs.pop_front_if(|sync| sync.result.is_some()) {
            let watch = &self.figures().syncing;
            if let Some(delay_ms) = watch.end(Uptime::now()) {
                self.shared.report_delayed_sync(delay_ms);
            }
            if let Some(next) = overlap.syncs.front() {
                watch.begin(next.began.uptime());
            }
            if matches!(overlap.failed, Some(Failed::Sync(_))) {
                continue;
            }
            let result = sync.result.expect("checked above");
            if let Err(error) = self.files.note_sync(sync.file_size, result) {
                // It also outweighs a failed write: the file must be cut at its durable size.
                overlap.failed = Some(Failed::Sync(error));
                continue;
            }
            self.note_latency(sync.began, sync_event(Appendfsync::Always));
            self.grouping.note(sync.size as u64, Ticks::now().ns_since(sync.began));
            overlap.durable.complete_end();
            overlap.durable.advance(sync.size);
            self.shared.advance_durable(overlap.durable.lsn());
            overlap.size += sync.size;
            self.figures().size.fetch_add(sync.size as u64, Ordering::Relaxed);
        }
    }
}

/// The threads that synchronise the file. Each is started when it is first needed, and ends when this is dropped.
pub(super) struct SyncThreads<F> {
    threads: Vec<SyncThread<F>>,
    ended: (Sender<Ended>, Receiver<Ended>),
}

/// The number of the thread whose sync has ended, and the result.
type Ended = (usize, io::Result<()>);

struct SyncThread<F> {
    is_busy: bool,
    files: Option<Sender<F>>,
    thread: Option<JoinHandle<()>>,
}

impl<F: DiskFile + Send + 'static> SyncThreads<F> {
    pub(super) fn new() -> Self {
        Self { threads: Vec::new(), ended: channel() }
    }

    /// Returns the number of a thread that is free. The end of its sync ends a wait of the thread that writes the file.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    fn reserve(&mut self, append_only: &'static AppendOnly) -> io::Result<usize> {
        match self.threads.iter().position(|thread| !thread.is_busy) {
            Some(number) => Ok(number),
            None => self.start_thread(append_only),
        }
    }

    /// Begins to synchronise a file on a thread that is free.
    fn begin(&mut self, number: usize, file: F) {
        let thread = &mut self.threads[number];
        thread.is_busy = true;
        let files = thread.files.as_ref().expect("open until the thread is joined");
        files.send(file).unwrap_or_else(|_| unreachable!("the thread ends after its sender"));
    }

    fn start_thread(&mut self, append_only: &'static AppendOnly) -> io::Result<usize> {
        let number = self.threads.len();
        let (files, received) = channel::<F>();
        let ended = self.ended.0.clone();
        let thread = sync::thread::Builder::new().name("append-only-sync".to_owned()).spawn(move || {
            while let Ok(mut file) = received.recv() {
                let result = file.sync();
                drop(file);
                if ended.send((number, result)).is_err() {
                    break;
                }
                append_only.wake();
            }
        })?;
        self.threads.push(SyncThread { is_busy: false, files: Some(files), thread: Some(thread) });
        Ok(number)
    }

    fn take_ended(&mut self) -> Option<Ended> {
        let ended = self.ended.1.try_recv().ok()?;
        self.threads[ended.0].is_busy = false;
        Some(ended)
    }
}

impl<F> Drop for SyncThreads<F> {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.files = None;
            if let Some(thread) = thread.thread.take() {
                // A panic of the thread has ended the process.
                let _ = thread.join();
            }
        }
    }
}
