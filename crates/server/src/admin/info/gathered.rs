//! What figures are read from: the state of the server, and what several figures of one report share, gathered once,
//! by the first that needs it. No worker stops for it.

use std::cell::OnceCell;
use std::sync::Arc;

use arc_swap::Guard;
use config::Config;
use keyspace::{AllCounters, Sizes};
use os::clock::{self, Uptime};
use os::process::{self, Usage, UsageOf};
use persist::snapshots::SaveFigures;
use replication::feed::FeedFigures;
use sync::ThreadCounter;
use sync::atomic::Ordering;
use tls::{CertificateSummary, Context};

use crate::admin::memory::{Gaps, MemoryUse};
use crate::connection::replica::Replica;
use crate::monitoring::metrics::Rates;
use crate::monitoring::statistics::WorkerStatistics;
use crate::persistence::append_only;
use crate::shared::Shared;
use crate::shared::loading::Progress;
use crate::shared::modes::GlobalFlags;
use crate::shared::role::{ReplicaFigures, TransferFigures};

/// Lives as long as one report.
pub struct Gathered<'a> {
    pub shared: &'a Shared,
    pub config: Guard<Arc<Config>>,
    /// Unix time in microseconds.
    pub now_us: i64,
    /// Whether data are being loaded.
    pub is_loading: bool,
    /// Whether they are loaded beside those that requests use.
    pub loads_beside: bool,
    /// Bytes of the report itself, which do not count as used memory.
    report_size: usize,
    memory: OnceCell<(MemoryUse, Gaps)>,
    scripts: OnceCell<Scripts>,
    pause: OnceCell<Pause>,
    rewriting: OnceCell<Rewriting>,
    loading: OnceCell<Progress>,
    saves: OnceCell<SaveFigures>,
    rates: OnceCell<Rates>,
    /// Of the process and of its children.
    usage: OnceCell<[Usage; 2]>,
    tls: OnceCell<Option<Arc<Context>>>,
    errors: OnceCell<Vec<(String, u64)>>,
    /// By database.
    sizes: OnceCell<Vec<Sizes>>,
    listeners: OnceCell<Vec<String>>,
    replica: OnceCell<Option<ReplicaFigures>>,
    replicas: OnceCell<Vec<Arc<Replica>>>,
    feed: OnceCell<FeedFigures>,
}

/// Scripts and functions. Both run in the same interpreters: to functions belongs what loading them took.
pub struct Scripts {
    /// The memory of the interpreters, in bytes.
    pub interpreters: u64,
    /// What loading functions took of it.
    pub of_functions: u64,
    pub script_count: usize,
    pub script_size: u64,
    pub function_count: usize,
    pub library_count: usize,
    /// The bytes of the text of all libraries.
    pub library_size: u64,
}

/// `CLIENT PAUSE`.
pub struct Pause {
    /// Why requests wait, in the words of `INFO`.
    pub reason: &'static str,
    /// The requests that wait, in the words of `INFO`.
    pub actions: &'static str,
    /// The milliseconds to its end; 0: there is none.
    pub left_ms: i64,
}

/// A rewrite of the append-only file.
pub struct Rewriting {
    /// Whether it runs, or begins soon.
    pub is_going_on: bool,
    /// Whether it begins once a snapshot has ended.
    pub is_scheduled: bool,
    /// The seconds since it began; -1: none runs.
    pub seconds: i64,
}

impl<'a> Gathered<'a> {
    /// Gathers for a report of which `report_size` bytes are allocated.
    pub fn new(shared: &'a Shared, report_size: usize) -> Self {
        Self {
            shared,
            config: shared.config.load(),
            now_us: clock::unix_micros(),
            is_loading: shared.modes.is_loading(),
            loads_beside: shared.modes.flags.is_set(GlobalFlags::ASYNC_LOADING),
            report_size,
            memory: OnceCell::new(),
            replicas: OnceCell::new(),
            feed: OnceCell::new(),
            scripts: OnceCell::new(),
            pause: OnceCell::new(),
            rewriting: OnceCell::new(),
            loading: OnceCell::new(),
            saves: OnceCell::new(),
            rates: OnceCell::new(),
            usage: OnceCell::new(),
            tls: OnceCell::new(),
            errors: OnceCell::new(),
            sizes: OnceCell::new(),
            listeners: OnceCell::new(),
            replica: OnceCell::new(),
        }
    }

    /// The sum of a counter over all workers.
    pub fn sum(&self, of: impl Fn(&WorkerStatistics) -> &ThreadCounter) -> u64 {
        self.shared.monitoring.statistics.sum(of)
    }

    /// The counters of the keyspace.
    pub fn counters(&self) -> &'a AllCounters {
        &self.shared.keyspace.counters
    }

    /// The use of memory.
    pub fn memory(&self) -> &MemoryUse {
        &self.memory_and_gaps().0
    }

    /// The parts of resident memory that is not used.
    pub fn gaps(&self) -> &Gaps {
        &self.memory_and_gaps().1
    }

    fn memory_and_gaps(&self) -> &(MemoryUse, Gaps) {
        self.memory.get_or_init(|| {
            let memory = self.shared.memory_use(self.report_size);
            let gaps = memory.gaps();
            (memory, gaps)
        })
    }

    /// Scripts and functions.
    pub fn scripts(&self) -> &Scripts {
        self.scripts.get_or_init(|| {
            let scripts = &self.shared.scripts;
            let interpreters = scripts.memory.used();
            let (script_count, script_size) = scripts.cache.count_and_size();
            let libraries = scripts.libraries.all();
            Scripts {
                interpreters,
                of_functions: scripts.function_memory.used().min(interpreters),
                script_count,
                script_size,
                function_count: libraries.functions.size(),
                library_count: libraries.libraries.size(),
                library_size: libraries.libraries.values().map(|library| library.code.len() as u64).sum(),
            }
        })
    }

    /// `CLIENT PAUSE`
    pub fn pause(&self) -> &Pause {
        self.pause.get_or_init(|| {
            let now = Uptime::now();
            let Some((reason, writes_only, until)) = self.shared.modes.pause.shown(now) else {
                return Pause { reason: "none", actions: "none", left_ms: 0 };
            };
            let actions = if writes_only { "write" } else { "all" };
            Pause { reason: reason.word(), actions, left_ms: until.ms_since(now) }
        })
    }

    /// The rewrite of the append-only file.
    pub fn rewriting(&self) -> &Rewriting {
        self.rewriting.get_or_init(|| {
            let aof = &self.shared.persistence.append_only.figures;
            let (is_scheduled, is_going_on) = append_only::rewrite_state(self.shared);
            let runs = aof.is_rewriting.load(Ordering::Relaxed);
            let began = aof.rewrite_began.load(Ordering::Relaxed);
            Rewriting {
                is_going_on,
                is_scheduled,
                seconds: if runs { clock::unix_millis() / 1000 - began } else { -1 },
            }
        })
    }

    /// The progress of the load.
    pub fn loading(&self) -> &Progress {
        self.loading.get_or_init(|| self.shared.loading.progress(clock::unix_millis() / 1000))
    }

    /// The dumps.
    pub fn saves(&self) -> &SaveFigures {
        self.saves.get_or_init(|| self.shared.snapshots.status.figures())
    }

    /// The rates of the last moments.
    pub fn rates(&self) -> &Rates {
        self.rates.get_or_init(|| self.shared.monitoring.metrics.rates())
    }

    /// The CPU time of the process, and of its children.
    pub fn usage(&self) -> &[Usage; 2] {
        self.usage.get_or_init(|| [UsageOf::Process, UsageOf::Children].map(process::usage))
    }

    /// A certificate of the TLS port.
    pub fn certificate(
        &self,
        of: fn(&Context) -> Option<&CertificateSummary>,
    ) -> Option<&CertificateSummary> {
        of(self.tls.get_or_init(|| self.shared.certificates.context()).as_deref()?)
    }

    /// The numbers of error replies by their first words.
    pub fn errors(&self) -> &[(String, u64)] {
        self.errors.get_or_init(|| self.shared.monitoring.errors.all())
    }

    /// The sizes of the values of a database.
    pub fn sizes(&self, db: usize) -> &Sizes {
        let all = || (0..self.shared.keyspace.db_count()).map(|db| self.counters().sizes(db)).collect();
        &self.sizes.get_or_init(all)[db]
    }

    /// The replicas of this server.
    pub fn replicas(&self) -> &[Arc<Replica>] {
        self.replicas.get_or_init(|| self.shared.replication.replicas.listed())
    }

    /// The stream for replicas.
    pub fn feed(&self) -> &FeedFigures {
        self.feed.get_or_init(|| self.shared.replication.feed.figures())
    }

    /// The link to the primary; `None`: the server is one.
    pub fn replica(&self) -> Option<&ReplicaFigures> {
        let replication = &self.shared.replication;
        let figures = || replication.role.figures(self.now_us / 1_000_000, replication.feed.end_offset());
        self.replica.get_or_init(figures).as_ref()
    }

    /// The snapshot that is received from the primary.
    pub fn transfer(&self) -> Option<&TransferFigures> {
        self.replica()?.transfer.as_ref()
    }

    /// The kinds of addresses that the server listens on, each in the form of Redis.
    pub fn listeners(&self) -> &[String] {
        self.listeners.get_or_init(|| {
            let config = &self.config;
            let binds: String = config.bind.0.iter().map(|address| format!(",bind={address}")).collect();
            let on_port = |name: &str, port: u16| {
                (port != 0 && !binds.is_empty()).then(|| format!("name={name}{binds},port={port}"))
            };
            let unix =
                (!config.unixsocket.is_empty()).then(|| format!("name=unix,bind={}", config.unixsocket));
            [on_port("tcp", config.port), unix, on_port("tls", config.tls_port)]
                .into_iter()
                .flatten()
                .collect()
        })
    }
}
