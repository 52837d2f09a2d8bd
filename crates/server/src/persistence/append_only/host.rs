//! The server as the thread sees it that writes the append-only file.

use std::path::PathBuf;
use std::sync::Arc;

use base::Lsn;
use config::Config;
use os::clock;
use persist::append_only::AppendOnly;
use persist::snapshots::{Busy, FileOutput, Recipient, Request, SaveError, SnapshotId, SnapshotPurpose};
use persist::stream::StreamOffset;
use persist::writer::{BaseRequest, WriterHost};
use rdb::Limits;
use sync::write_log::WriteLog;

use super::super::saving;
use super::working_directory;
use crate::disk;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

impl WriterHost for Shared {
    fn log(&self) -> &Arc<WriteLog> {
        &self.keyspace.log
    }

    fn append_only(&self) -> &AppendOnly {
        &self.persistence.append_only
    }

    fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    fn config_generation(&self) -> u64 {
        self.config.generation()
    }

    fn working_directory(&self) -> PathBuf {
        working_directory()
    }

    fn value_limits(&self) -> Limits {
        commands::value_limits(&Config::default())
    }

    fn refuse_writes(&self, are_refused: bool) {
        self.modes.flags.set(GlobalFlags::APPEND_FAILED, are_refused);
        if are_refused {
            self.keyspace.log.wake_writers();
        }
    }

    fn note_latency(&self, event: &'static str, ms: u64) {
        let threshold = self.config.load().latency_monitor_threshold;
        if threshold > 0 && ms >= threshold {
            self.monitoring.latency.add(event, (clock::unix_millis() / 1000) as u32, ms);
        }
    }

    fn stream_offset(&self, lsn: Lsn) -> Option<StreamOffset> {
        let (id, offset) = self.replication.feed.position_of(lsn)?;
        Some(StreamOffset { id: *id.as_bytes().first_chunk()?, offset })
    }

    fn is_loading(&self) -> bool {
        self.modes.flags.is_set(GlobalFlags::LOADING)
    }

    fn has_snapshot(&self) -> bool {
        self.snapshots.is_busy()
    }

    fn begin_base(&'static self, request: BaseRequest) -> Result<SnapshotId, Busy> {
        let BaseRequest { path, at_cut, done } = request;
        let syncs_early = self.config.load().aof_rewrite_incremental_fsync;
        let output = Box::new(FileOutput::new(disk::current(), path, None, syncs_early));
        let done = Box::new(move |result: Result<_, _>| {
            done(result.map(|_| ()).map_err(|error: SaveError| error.to_string()))
        });
        self.snapshots.begin(Request {
            purpose: SnapshotPurpose::Base,
            recipients: vec![Recipient { output, done }],
            settings: saving::base_settings(self),
            at_cut: Box::new(|| {
                if self.is_loading() {
                    // The load has begun in the meantime: these are a part of the data.
                    self.snapshots.cancel();
                }
                at_cut();
                self.stream_properties()
            }),
        })
    }

    fn cancel_base(&self, id: SnapshotId) {
        self.snapshots.cancel_only(id);
    }
}
