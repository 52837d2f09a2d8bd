//! The table of directives: the single source of [`Config`], [`Id`] and [`DIRECTIVES`].
//!
//! A line is `field: type = default, accepted values, [marks], alias "other" "names";`. The directive's name is
//! the field's with dashes for underscores: `maxmemory_policy` is `maxmemory-policy`. Where the names in Redis
//! and Valkey differ, the directive has the name that both accept, so that a rewritten file still starts either
//! of them.
//!
//! There are two kinds of blocks. `honoured` directives have an effect. `inert` directives are read,
//! checked, answered and rewritten, but change nothing, for the given reason, which is logged at start. A
//! directive that gains a meaning moves to the honoured block and gets its doc line. An inert line ends with
//! `refused "consequence"` if ignoring the directive would make the server unsafe: every value but the default
//! is then an error.
//!
//! Defaults are Redis's; where Valkey 8 chose otherwise, Valkey's.
//!
//! Invariants, tested at the end:
//! 1. In each block the fields are in alphabetical order; names and aliases are unique.
//! 2. Every default is accepted by its own rule.

pub(crate) mod directive;

use self::directive::{Directive, Marks, assign};
use crate::checks::{
    check_announced_ip, check_append_dir_name, check_append_file_name, check_cluster_file_name,
    check_dump_file_name, check_hash_seed, check_host_name, check_ipv4, check_ipv6, check_node_name,
    check_title_template,
};
use crate::choices::{
    AclPubsubDefault, Appendfsync, ClusterConfigSaveBehavior, ClusterPreferredEndpointType, IoBackend,
    LogFormat, LogLevel, LogTimestampFormat, MaxmemoryPolicy, OomScoreAdj, PropagationErrorBehavior,
    ProtectedAction, RdbVersion, RdbVersionCheck, ReplDisklessLoad, SanitizeDumpPayload, SaveMethod,
    Supervised, SyslogFacility, TlsAuthClients, TlsAuthClientsUser,
};
use crate::rule::{
    INT_MAX, LONG_MAX, Rule, bytes, checked_text, checked_text_or_unset, int, memory, microseconds,
    milliseconds, octal, seconds, text, text_or_unset,
};
use crate::setting::Setting;
use crate::values::{
    BindAddresses, ClientMemoryLimit, NotifyEvents, OomScores, OutputBufferLimits, Percentiles,
    PrimaryAddress, SavePoints, Secret, ShutdownFlags, ThreadCount, check_cpu_list,
};

const ANY: Rule = Rule::ByType;
const THREAD_COUNT_MAX: i128 = base::limits::THREAD_COUNT_MAX as i128;
/// Limit of `SELECT`: a database number has 16 bits.
const DATABASE_COUNT_MAX: i128 = 1 << 16;
const INT_MIN: i128 = i32::MIN as i128;
const LONG_MIN: i128 = i64::MIN as i128;
const UINT_MAX: i128 = u32::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;
const HZ_MIN: u32 = 1;
const HZ_MAX: u32 = 500;
const REPL_BACKLOG_SIZE_MIN: u64 = 16 << 10;
const SNAPSHOT_BUFFER_SIZE_MAX: i128 = 1 << 40;
const WRITE_LOG_SIZE_MIN: i128 = 64 << 10;
const WRITE_LOG_SIZE_MAX: i128 = 1 << 36;

macro_rules! directives {
    (
        honoured { $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:expr, $rule:expr
            $(, [$($mark:ident)+])? $(, alias $($alias:literal)+)? ;
        )* }
        $( inert $reason:literal { $(
            $inert_field:ident: $inert_type:ty = $inert_default:expr, $inert_rule:expr
            $(, [$($inert_mark:ident)+])? $(, alias $($inert_alias:literal)+)? $(, refused $refused:literal)? ;
        )* } )*
    ) => {
        /// The values of all directives. A snapshot: a change creates a new one.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $( $(#[doc = $doc])+ pub $field: $type, )*
            $($(
                #[doc = concat!("Has no effect: ", $reason, ".")]
                pub $inert_field: $inert_type,
            )*)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $( $field: $default, )* $($( $inert_field: $inert_default, )*)* }
            }
        }

        /// Identifies a directive, in the spelling of its field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(non_camel_case_types)]
        pub enum Id {
            $( $(#[doc = $doc])+ $field, )*
            $($( #[doc = concat!("Has no effect: ", $reason, ".")] $inert_field, )*)*
        }

        /// Every directive, in the order of [`Id`].
        pub static DIRECTIVES: &[Directive] = &[
            $( directive!(
                $field, $type, concat!($($doc),+), None, None, $rule, [$($($mark)+)?], [$($($alias),+)?]
            ), )*
            $($( directive!(
                $inert_field, $inert_type, concat!("Has no effect: ", $reason, "."), Some($reason),
                first_of!($(Some($refused),)? None), $inert_rule, [$($($inert_mark)+)?], [$($($inert_alias),+)?]
            ), )*)*
        ];
    };
}

macro_rules! first_of {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}

macro_rules! directive {
    (
        $field:ident, $type:ty, $doc:expr, $inert:expr, $refused:expr, $rule:expr, [$($mark:ident)*],
        [$($alias:literal),*]
    ) => {
        Directive {
            id: Id::$field,
            name: {
                const NAME: [u8; stringify!($field).len()] = with_dashes(stringify!($field));
                ascii(&NAME)
            },
            aliases: &[$($alias),*],
            doc: $doc,
            inert: $inert,
            refused: $refused,
            marks: Marks { $($mark: true,)* ..Marks::NONE },
            rule: $rule,
            is_list: <$type as Setting>::IS_LIST,
            assign: |config, rule, args, turn| assign(&mut config.$field, rule, args, turn),
            print: |config, rule| config.$field.print(rule),
            file_lines: |config, rule, default| config.$field.file_lines(rule, &default.$field),
            describe: <$type as Setting>::describe,
        }
    };
}

directives! {
    honoured {
        /// The channels that new ACL users and selectors may use.
        acl_pubsub_default: AclPubsubDefault = AclPubsubDefault::ResetChannels, ANY;
        /// The file of the ACL users; empty: none.
        aclfile: String = String::new(), text(), [immutable];
        /// Maximum number of entries in the log of denied requests.
        acllog_max_len: u64 = 128, int(0, LONG_MAX);
        /// Maximum share of each worker's time for defragmentation, in percent.
        active_defrag_cycle_max: u8 = 25, int(1, 99);
        /// Minimum share of each worker's time for defragmentation, in percent.
        active_defrag_cycle_min: u8 = 1, int(1, 99);
        /// Maximum duration of defragmentation without a pause, in microseconds.
        active_defrag_cycle_us: u32 = 500, microseconds(0, 100_000);
        /// Wasted bytes below which nothing is defragmented.
        active_defrag_ignore_bytes: u64 = 100 << 20, memory(1, LONG_MAX);
        /// Wasted percent from which defragmentation runs.
        active_defrag_threshold_lower: u32 = 10, int(0, 1000);
        /// Wasted percent from which `active-defrag-cycle-max` applies.
        active_defrag_threshold_upper: u32 = 100, int(0, 1000);
        /// The effort of deleting expired keys, from 1 (least) to 10.
        active_expire_effort: u8 = 1, int(1, 10);
        /// Whether the memory of entries is defragmented at run time.
        activedefrag: bool = false, ANY;
        /// The addresses of the admin port.
        admin_bind: BindAddresses = BindAddresses::loopback(), ANY, [fixed];
        /// The password of the admin port, for HTTP Basic authentication with any user name; unset: none.
        admin_password: Secret = Secret::default(), text_or_unset(), [sensitive whole];
        /// The port for metrics and states over HTTP; 0: none.
        admin_port: u16 = 0, int(0, 65_535), [fixed];
        /// Whether the admin port uses TLS, with the certificates of the TLS port.
        admin_tls: bool = false, ANY, [fixed];
        /// Whether the log starts with the logo even if it is not written to a terminal.
        always_show_logo: bool = false, ANY, [immutable];
        /// Whether append-only files that a rewrite has replaced are kept.
        aof_disable_auto_gc: bool = false, ANY, [hidden];
        /// Size, in bytes, below which a damaged end of an append-only file is truncated at the load; 0: never.
        aof_load_corrupt_tail_max_size: u64 = 0, bytes(0, LONG_MAX);
        /// Whether an append-only file that ends inside a request is loaded, and truncated to its last complete request.
        aof_load_truncated: bool = true, ANY;
        /// The CPUs of the threads that rewrite the append-only file; empty: all.
        aof_rewrite_cpulist: String = String::new(), text_or_unset(), [immutable], alias "aof_rewrite_cpulist";
        /// Whether a base is synchronised while it is written, not only at its end.
        aof_rewrite_incremental_fsync: bool = true, ANY;
        /// Whether timestamps are written to the append-only file.
        aof_timestamp_enabled: bool = false, ANY;
        /// Whether bases are snapshots in RDB; otherwise they are requests.
        aof_use_rdb_preamble: bool = true, ANY;
        /// The directory of the append-only files, in `dir`.
        appenddirname: String = "appendonlydir".into(), checked_text(check_append_dir_name), [immutable];
        /// The beginning of the names of the append-only files.
        appendfilename: String = "appendonly.aof".into(), checked_text(check_append_file_name), [immutable];
        /// When the append-only file is synchronised to disk: before each reply, every second, or at the system's choice.
        appendfsync: Appendfsync = Appendfsync::Everysec, ANY;
        /// Whether changes are written to an append-only file.
        appendonly: bool = false, ANY, [deny_loading];
        /// The size below which the append-only file is not rewritten automatically, in bytes.
        auto_aof_rewrite_min_size: u64 = 64 << 20, memory(0, LONG_MAX);
        /// The growth since the last rewrite, in percent, at which the append-only file is rewritten; 0: never.
        auto_aof_rewrite_percentage: u32 = 100, int(0, INT_MAX);
        /// The availability zone reported to clients.
        availability_zone: String = String::new(), text(), [whole];
        /// The CPUs that snapshot threads may use.
        bgsave_cpulist: String = String::new(), text_or_unset(), [immutable], alias "bgsave_cpulist";
        /// Addresses to listen on.
        bind: BindAddresses = BindAddresses::default(), ANY;
        /// The address from which connections to the primary are opened.
        bind_source_addr: String = String::new(), text_or_unset();
        /// The CPUs that the background thread may use.
        bio_cpulist: String = String::new(), checked_text_or_unset(check_cpu_list), [immutable], alias "bio_cpulist";
        /// Duration of a script, in milliseconds, after which requests that need its keys get the error `BUSY`; 0: never.
        busy_reply_threshold: u64 = 5000, milliseconds(0, LONG_MAX), alias "lua-time-limit";
        /// The limits of the pending output of clients, by class.
        client_output_buffer_limit: OutputBufferLimits = OutputBufferLimits::default(), ANY;
        /// Maximum bytes of a client's input that is neither executed nor a complete argument, its queued transaction included.
        client_query_buffer_limit: u64 = 1 << 30, memory(1 << 20, LONG_MAX);
        /// Maximum number of entries in the log of large replies.
        commandlog_large_reply_max_len: u64 = 128, int(0, LONG_MAX);
        /// Maximum number of entries in the log of large requests.
        commandlog_large_request_max_len: u64 = 128, int(0, LONG_MAX);
        /// Size of a reply, in bytes, from which its command is logged; -1: never.
        commandlog_reply_larger_than: i64 = 1 << 20, bytes(-1, LONG_MAX);
        /// Size of a request, in bytes, from which it is logged; -1: never.
        commandlog_request_larger_than: i64 = 1 << 20, bytes(-1, LONG_MAX);
        /// Whether entries are moved together, in a little of the time, when most of their memory is wasted.
        compact_sparse_memory: bool = true, ANY;
        /// Whether a crash is reported in the log.
        crash_log_enabled: bool = true, ANY;
        /// Whether the process runs in the background.
        daemonize: bool = false, ANY, [immutable];
        /// Number of logical databases.
        databases: u32 = 16, int(1, DATABASE_COUNT_MAX), [immutable];
        /// The name of the RDB file, in `dir`.
        dbfilename: String = "dump.rdb".into(), checked_text(check_dump_file_name), [protected];
        /// A text to be included in crash reports.
        debug_context: String = String::new(), text(), [hidden];
        /// The working directory.
        dir: String = String::new(), text(), [protected deny_loading];
        /// Whether transparent huge pages are disabled for the process, entries and tables included.
        disable_thp: bool = false, ANY, [immutable];
        /// Whether a full synchronisation has a connection for the snapshot and one for the stream, if the other side is Valkey.
        dual_channel_replication_enabled: bool = false, ANY;
        /// Whether the rate of ticks grows with the number of clients.
        dynamic_hz: bool = true, ANY;
        /// The connections that may use `DEBUG`.
        enable_debug_command: ProtectedAction = ProtectedAction::No, ANY, [immutable];
        /// The connections that may change protected directives.
        enable_protected_configs: ProtectedAction = ProtectedAction::No, ANY, [immutable];
        /// Whether errors and `HELLO` contain Redis's name where clients may depend on it.
        extended_redis_compatibility: bool = false, ANY;
        /// Maximum number of fields of a hash that is reported as a `listpack`.
        hash_max_listpack_entries: u64 = 512, int(0, LONG_MAX), alias "hash-max-ziplist-entries";
        /// Maximum bytes of a field or value of a hash that is reported as a `listpack`.
        hash_max_listpack_value: u64 = 64, memory(0, LONG_MAX), alias "hash-max-ziplist-value";
        /// The seed of the key hash; empty: random at each start.
        hash_seed: String = String::new(), checked_text_or_unset(check_hash_seed), [immutable whole];
        /// Whether the log omits data of clients.
        hide_user_data_from_log: bool = true, ANY;
        /// Maximum bytes of a HyperLogLog in its sparse form.
        hll_sparse_max_bytes: u64 = 3000, memory(0, LONG_MAX);
        /// Ticks a second, limited to 1 to 500.
        hz: u32 = 10, int(0, INT_MAX);
        /// Whether keys are being imported from another server: expired keys are kept.
        import_mode: bool = false, ANY;
        /// The system calls for network I/O.
        io_backend: IoBackend = IoBackend::Auto, ANY, [fixed];
        /// Number of workers; 0: one for each core.
        io_threads: ThreadCount = ThreadCount::default(), int(0, THREAD_COUNT_MAX),
            alias "server-threads" "threads" "proactor_threads";
        /// Whether all workers serve connections, whatever the load.
        io_threads_always_active: bool = false, ANY, [hidden];
        /// The share of its time, in percent, above which a worker leaves half of its load to another one.
        io_threads_grow_percent: u8 = 92, int(10, 100);
        /// Minimum number of workers that serve connections.
        io_threads_min: u32 = 1, int(1, THREAD_COUNT_MAX);
        /// The share of their time, in percent, below which workers would stay with one less: one becomes dormant.
        io_threads_shrink_percent: u8 = 45, int(0, 90);
        /// Pause after each loaded key or request, in microseconds, for tests; if negative, keys or requests per microsecond
        /// of pause.
        key_load_delay: i32 = 0, int(INT_MIN, INT_MAX), [hidden];
        /// Duration of an event, in milliseconds, from which the latency monitor records it; 0: never.
        latency_monitor_threshold: u64 = 0, milliseconds(0, LONG_MAX);
        /// Whether latencies are recorded in a histogram for each command.
        latency_tracking: bool = true, ANY;
        /// The percentiles that `INFO latencystats` shows.
        latency_tracking_info_percentiles: Percentiles = Percentiles(vec![50.0, 99.0, 99.9]), ANY, [whole];
        /// Whether evicted values are freed in the background.
        lazyfree_lazy_eviction: bool = true, ANY;
        /// Whether expired values are freed in the background.
        lazyfree_lazy_expire: bool = true, ANY;
        /// Whether overwritten values are freed in the background.
        lazyfree_lazy_server_del: bool = true, ANY;
        /// Whether `DEL` frees in the background, as `UNLINK` does.
        lazyfree_lazy_user_del: bool = true, ANY;
        /// Whether `FLUSHALL` and `FLUSHDB` free in the background by default.
        lazyfree_lazy_user_flush: bool = true, ANY;
        /// Minutes after which an unused key's frequency counter is decremented; 0: at each sampling.
        lfu_decay_time: u32 = 1, int(0, INT_MAX);
        /// How slowly a key's frequency counter grows.
        lfu_log_factor: u32 = 10, int(0, INT_MAX);
        /// Limit of a list that is reported as a `listpack`: elements, or with -1 to -5 sizes of 4 to 64 KiB.
        list_max_listpack_size: i32 = -2, int(INT_MIN, INT_MAX), alias "list-max-ziplist-size";
        /// The format of log lines.
        log_format: LogFormat = LogFormat::Legacy, ANY;
        /// The format of times in log lines.
        log_timestamp_format: LogTimestampFormat = LogTimestampFormat::Legacy, ANY;
        /// The log file; empty: standard output.
        logfile: String = String::new(), text(), [immutable];
        /// The log level.
        loglevel: LogLevel = LogLevel::Notice, ANY;
        /// Whether scripts have `getfenv`, `setfenv` and `newproxy`.
        lua_enable_insecure_api: bool = false, ANY, [hidden protected], alias "lua-enable-deprecated-api";
        /// Memory that the scripts of a thread may use, in bytes.
        lua_memory_limit: u64 = 1 << 30, memory(1 << 20, LONG_MAX), [hidden];
        /// The password for the primary.
        masterauth: Secret = Secret::default(), text_or_unset(), [sensitive whole], alias "primaryauth";
        /// The user for the primary; unset: only the password is sent.
        masteruser: Secret = Secret::default(), text_or_unset(), [sensitive], alias "primaryuser";
        /// Maximum number of connections accepted in one turn.
        max_new_connections_per_cycle: u32 = 10, int(1, 1000);
        /// Maximum number of TLS connections that a worker accepts in a turn.
        max_new_tls_connections_per_cycle: u32 = 1, int(1, 1000);
        /// Maximum number of clients.
        maxclients: u32 = 10_000, int(1, UINT_MAX);
        /// Maximum bytes for data and buffers; 0: no limit.
        maxmemory: u64 = 0, memory(0, ULONG_MAX);
        /// Maximum memory of the buffers of all clients together.
        maxmemory_clients: ClientMemoryLimit = ClientMemoryLimit::Bytes(0), ANY, [whole];
        /// How long eviction may delay commands, from 0 (minimal) to 100 (without limit).
        maxmemory_eviction_tenacity: u8 = 10, int(0, 100);
        /// The keys that are evicted when `maxmemory` is reached.
        maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::Noeviction, ANY;
        /// Keys sampled for each evicted key.
        maxmemory_samples: u8 = 5, int(1, 64);
        /// A replica counts for `min-replicas-to-write` if its last contact is at most this many seconds ago; 0: writes are
        /// never rejected.
        min_replicas_max_lag: u32 = 10, seconds(0, INT_MAX), alias "min-slaves-max-lag";
        /// Minimum number of replicas for accepting writes; 0: none.
        min_replicas_to_write: u32 = 0, int(0, INT_MAX), alias "min-slaves-to-write";
        /// Minimum size of a string that replies refer to instead of copying it; 0: never.
        min_string_size_avoid_copy_reply_threaded: u32 = 65_536, int(0, INT_MAX), [hidden];
        /// Whether the append-only file is not synchronised while a snapshot is being written.
        no_appendfsync_on_rewrite: bool = false, ANY;
        /// The classes of keyspace events that are published.
        notify_keyspace_events: NotifyEvents = NotifyEvents::default(), ANY;
        /// How the process's out-of-memory score is set.
        oom_score_adj: OomScoreAdj = OomScoreAdj::No, ANY;
        /// The scores of a primary, a replica and a background child.
        oom_score_adj_values: OomScores = OomScores([0, 200, 800]), ANY;
        /// The file with the process id.
        pidfile: String = String::new(), text_or_unset(), [immutable];
        /// The TCP port; 0: none.
        port: u16 = 6379, int(0, 65_535);
        /// The template of the process title.
        proc_title_template: String = "{title} {listen-addr} {server-mode}".into(),
            checked_text(check_title_template);
        /// The effect of an error reply to a request of an append-only file or of the primary's stream.
        propagation_error_behavior: PropagationErrorBehavior = PropagationErrorBehavior::Ignore, ANY;
        /// Whether clients on other machines are refused while the default user has no password.
        protected_mode: bool = true, ANY;
        /// Largest argument of a request, in bytes.
        proto_max_bulk_len: u64 = 512 << 20, memory(1 << 20, LONG_MAX);
        /// Whether the file of a synchronisation is removed by servers that keep no files.
        rdb_del_sync_files: bool = false, ANY;
        /// Pause after each saved key, in microseconds; if negative, keys per microsecond of pause.
        rdb_key_save_delay: i32 = 0, int(INT_MIN, INT_MAX), [hidden];
        /// Whether an RDB file is synchronised to disk while it is written, not only at its end.
        rdb_save_incremental_fsync: bool = true, ANY;
        /// The version of RDB files.
        rdb_version: RdbVersion = RdbVersion::Auto, ANY;
        /// Whether payloads and files of unknown versions are refused.
        rdb_version_check: RdbVersionCheck = RdbVersionCheck::Strict, ANY;
        /// Whether RDB files are written with a checksum, and whether it is verified when they are loaded.
        rdbchecksum: bool = true, ANY, [immutable];
        /// Whether long strings are compressed in files and in the payload of `DUMP`.
        rdbcompression: bool = true, ANY;
        /// How many bytes of the stream are kept for replicas that connect again.
        repl_backlog_size: u64 = 10 << 20, memory(1, LONG_MAX);
        /// After how long without replicas the stream is not kept any more; 0: it is always kept.
        repl_backlog_ttl: u64 = 3600, seconds(0, LONG_MAX);
        /// Whether the kernel gathers small parts of the stream before it sends them to a replica: fewer packets, some 40 ms later.
        repl_disable_tcp_nodelay: bool = false, ANY;
        /// Where the snapshot of a primary is loaded: from a file first, or while it is received, in place of the data or beside them.
        repl_diskless_load: ReplDisklessLoad = ReplDisklessLoad::Disabled, ANY, [deny_loading];
        /// Whether replicas receive a snapshot while it is taken, not from a file.
        repl_diskless_sync: bool = true, ANY;
        /// How long a snapshot for replicas waits for further ones.
        repl_diskless_sync_delay: u32 = 5, seconds(0, INT_MAX);
        /// The number of waiting replicas with which a snapshot begins at once; 0: none.
        repl_diskless_sync_max_replicas: u32 = 0, int(0, INT_MAX);
        /// The interval at which replicas are sent a `PING`.
        repl_ping_replica_period: u32 = 10, seconds(1, INT_MAX), alias "repl-ping-slave-period";
        /// Whether a full synchronisation has a connection for the snapshot and one for the stream, if the other side is Redis.
        repl_rdb_channel: bool = false, ANY, [hidden];
        /// After how long without data a connection between primary and replica is closed.
        repl_timeout: u32 = 60, seconds(1, INT_MAX);
        /// The address that is told to the primary; unset: the one from which the replica connects.
        replica_announce_ip: String = String::new(), text_or_unset(), alias "slave-announce-ip";
        /// The port that is told to the primary; 0: the one on which the replica listens.
        replica_announce_port: u16 = 0, int(0, 65_535), alias "slave-announce-port";
        /// Whether Sentinel is to know the replica.
        replica_announced: bool = true, ANY;
        /// The size up to which a replica keeps the stream while it loads a snapshot; 0: as `client-output-buffer-limit replica`.
        replica_full_sync_buffer_limit: u64 = 0, memory(0, LONG_MAX);
        /// Whether a replica applies the changes of its primary though its own disk fails; if not, its process ends.
        replica_ignore_disk_write_errors: bool = false, ANY;
        /// Whether a replica leaves eviction to its primary.
        replica_ignore_maxmemory: bool = true, ANY, alias "slave-ignore-maxmemory";
        /// Whether data that a synchronisation replaces are freed in the background.
        replica_lazy_flush: bool = true, ANY, alias "slave-lazy-flush";
        /// The order in which Sentinel promotes replicas, lower first; 0: never.
        replica_priority: u32 = 100, int(0, INT_MAX), alias "slave-priority";
        /// Whether a replica refuses writes of clients.
        replica_read_only: bool = true, ANY, alias "slave-read-only";
        /// Whether a replica serves its data while the link to its primary is down.
        replica_serve_stale_data: bool = true, ANY, alias "slave-serve-stale-data";
        /// The primary that the server replicates.
        replicaof: PrimaryAddress = PrimaryAddress::default(), ANY, [immutable], alias "slaveof";
        /// The password of the default user.
        requirepass: Secret = Secret::default(), text_or_unset(), [sensitive whole];
        /// The save points: the data is saved after so many seconds if so many changes were made.
        save: SavePoints = SavePoints::default(), ANY;
        /// The CPUs that workers may use.
        server_cpulist: String = String::new(), checked_text_or_unset(check_cpu_list), [immutable],
            alias "server_cpulist";
        /// Whether each worker is bound to a CPU of its own.
        server_thread_affinity: bool = false, ANY, [fixed];
        /// Maximum number of members of a set of integers that is an intset.
        set_max_intset_entries: u64 = 512, int(0, LONG_MAX);
        /// Maximum number of members of a set that is reported as a `listpack`.
        set_max_listpack_entries: u64 = 128, int(0, LONG_MAX);
        /// Maximum bytes of a member of a set that is reported as a `listpack`.
        set_max_listpack_value: u64 = 64, int(0, LONG_MAX);
        /// Whether the process title is set.
        set_proc_title: bool = true, ANY, [immutable];
        /// How the process ends on `SIGINT`.
        shutdown_on_sigint: ShutdownFlags = ShutdownFlags::default(), ANY;
        /// How the process ends on `SIGTERM`.
        shutdown_on_sigterm: ShutdownFlags = ShutdownFlags::default(), ANY;
        /// How long a shutdown waits for replicas that are behind.
        shutdown_timeout: u32 = 10, seconds(0, INT_MAX);
        /// Maximum number of arguments in an entry of a command log.
        slowlog_entry_max_argc: u32 = 32, int(2, INT_MAX);
        /// Maximum bytes of an argument in an entry of a command log.
        slowlog_entry_max_string_len: u64 = 128, int(1, LONG_MAX);
        /// Microseconds from which a command is logged as slow; 0: all, -1: none.
        slowlog_log_slower_than: i64 = 10_000, microseconds(-1, LONG_MAX), alias "commandlog-execution-slower-than";
        /// Maximum number of entries in the slow log.
        slowlog_max_len: u64 = 128, int(0, LONG_MAX), alias "commandlog-slow-execution-max-len";
        /// Bytes of changed entries that a snapshot has not written, at which changes wait; 0: a share of the memory.
        snapshot_buffer_size: u64 = 0, memory(0, SNAPSHOT_BUFFER_SIZE_MAX);
        /// The percentage of time for which a snapshot thread may use a CPU while there are requests.
        snapshot_cpu_percent: u32 = 50, int(1, 100);
        /// Number of threads that write a snapshot.
        snapshot_threads: u16 = 1, int(1, 64);
        /// The mark of packets sent on the server's sockets; 0: none.
        socket_mark_id: u32 = 0, int(0, UINT_MAX), [immutable];
        /// Whether writes are rejected after a failed snapshot.
        stop_writes_on_bgsave_error: bool = true, ANY;
        /// Maximum bytes of entries in a node of a stream; 0: no limit.
        stream_node_max_bytes: u64 = 4096, memory(0, LONG_MAX);
        /// Maximum number of entries in a node of a stream; 0: no limit.
        stream_node_max_entries: u64 = 100, int(0, LONG_MAX);
        /// The supervisor of the process.
        supervised: Supervised = Supervised::No, ANY, [immutable];
        /// Whether log lines are also sent to the system log.
        syslog_enabled: bool = false, ANY, [immutable];
        /// The facility of lines in the system log.
        syslog_facility: SyslogFacility = SyslogFacility::Local0, ANY, [immutable];
        /// The name of the program in the system log.
        syslog_ident: String = "broadloom".into(), text(), [immutable];
        /// Maximum number of connections that wait to be accepted.
        tcp_backlog: u32 = 511, int(0, INT_MAX), [immutable];
        /// Seconds between probes of a silent connection; 0: no probes.
        tcp_keepalive: u32 = 300, seconds(0, INT_MAX);
        /// Seconds after which an idle client is closed; 0: never.
        timeout: u32 = 0, seconds(0, INT_MAX);
        /// Whether clients of the TLS port need a certificate.
        tls_auth_clients: TlsAuthClients = TlsAuthClients::Yes, ANY;
        /// The field of a TLS client's certificate that names its ACL user.
        tls_auth_clients_user: TlsAuthClientsUser = TlsAuthClientsUser::Off, ANY;
        /// How often the files of certificates and keys are checked for changes, in seconds; 0: never.
        tls_auto_reload_interval: u32 = 0, seconds(0, INT_MAX);
        /// A directory of certificates of authorities, PEM.
        tls_ca_cert_dir: String = String::new(), text_or_unset(), [volatile];
        /// A file of certificates of authorities, PEM.
        tls_ca_cert_file: String = String::new(), text_or_unset(), [volatile];
        /// The certificate chain of the TLS port, PEM.
        tls_cert_file: String = String::new(), text_or_unset(), [volatile];
        /// The cipher suites of TLS 1.2, as an OpenSSL cipher list.
        tls_ciphers: String = String::new(), text_or_unset();
        /// The cipher suites of TLS 1.3, separated by colons.
        tls_ciphersuites: String = String::new(), text_or_unset();
        /// The certificate chain of connections that the server opens, PEM.
        tls_client_cert_file: String = String::new(), text_or_unset(), [volatile];
        /// The private key of `tls-client-cert-file`, PEM.
        tls_client_key_file: String = String::new(), text_or_unset(), [volatile];
        /// The password of `tls-client-key-file`.
        tls_client_key_file_pass: Secret = Secret::default(), text_or_unset(), [sensitive];
        /// Whether connections to other nodes use TLS: those of `MIGRATE`.
        tls_cluster: bool = false, ANY;
        /// The private key of `tls-cert-file`, PEM.
        tls_key_file: String = String::new(), text_or_unset(), [volatile];
        /// The password of `tls-key-file`.
        tls_key_file_pass: Secret = Secret::default(), text_or_unset(), [sensitive];
        /// TCP port for TLS connections; 0: none.
        tls_port: u16 = 0, int(0, 65_535);
        /// Whether the server's order of cipher suites takes precedence over the client's.
        tls_prefer_server_ciphers: bool = false, ANY;
        /// The versions of TLS, separated by spaces; empty: 1.2 and 1.3.
        tls_protocols: String = String::new(), text_or_unset();
        /// Whether the link to the primary uses TLS.
        tls_replication: bool = false, ANY;
        /// Maximum number of TLS sessions that clients can resume.
        tls_session_cache_size: u32 = 20 * 1024, int(0, INT_MAX);
        /// How long a TLS session can be resumed, in seconds.
        tls_session_cache_timeout: u32 = 300, seconds(0, INT_MAX);
        /// Whether clients can resume TLS sessions.
        tls_session_caching: bool = true, ANY;
        /// Maximum number of keys tracked for client-side caching; 0: no limit.
        tracking_table_max_keys: u64 = 1_000_000, int(0, LONG_MAX);
        /// The Unix socket; empty: none.
        unixsocket: String = String::new(), text_or_unset(), [immutable];
        /// The group that owns the Unix socket.
        unixsocketgroup: String = String::new(), text_or_unset(), [immutable];
        /// The permissions of the Unix socket, in octal; 0: as the umask determines.
        unixsocketperm: u32 = 0, octal(0, 0o777), [immutable];
        /// Whether a fault ends the process with an exit status instead of a signal.
        use_exit_on_panic: bool = false, ANY, [hidden];
        /// Duration of a worker's turn, in milliseconds, from which it is reported with all stacks; 0: never.
        watchdog_period: u32 = 0, milliseconds(0, INT_MAX), [hidden];
        /// The buffer between commands and the append-only file, in bytes; rounded up to a power of two. Writes wait while
        /// it is full.
        write_log_size: u64 = 32 << 20, memory(WRITE_LOG_SIZE_MIN, WRITE_LOG_SIZE_MAX), [immutable hidden];
        /// Maximum number of members of a sorted set that is reported as a `listpack`.
        zset_max_listpack_entries: u64 = 128, int(0, LONG_MAX), alias "zset-max-ziplist-entries";
        /// Maximum bytes of a member of a sorted set that is reported as a `listpack`.
        zset_max_listpack_value: u64 = 64, memory(0, LONG_MAX), alias "zset-max-ziplist-value";
    }

    inert "lists are not compressed" {
        list_compress_depth: u32 = 0, int(0, INT_MAX);
    }

    inert "connections are served during the whole load" {
        loading_process_events_interval_bytes: u32 = 2 << 20, int(1024, INT_MAX), [hidden];
    }

    inert "every payload is fully verified" {
        sanitize_dump_payload: SanitizeDumpPayload = SanitizeDumpPayload::No, ANY;
    }

    inert "snapshots do not fork" {
        bgsave_default_method: SaveMethod = SaveMethod::Fork, ANY;
        forkless_infrastructure_enabled: bool = false, ANY;
    }

    inert "replication does not need them" {
        repl_mptcp: bool = false, ANY, [immutable];
    }

    inert "there is no cluster mode yet" {
        cluster_allow_pubsubshard_when_down: bool = true, ANY;
        cluster_allow_reads_when_down: bool = false, ANY;
        cluster_allow_replica_migration: bool = true, ANY;
        cluster_announce_bus_port: u16 = 0, int(0, 65_535);
        cluster_announce_client_ipv4: String = String::new(), checked_text_or_unset(check_ipv4);
        cluster_announce_client_ipv6: String = String::new(), checked_text_or_unset(check_ipv6);
        cluster_announce_client_port: u16 = 0, int(0, 65_535);
        cluster_announce_client_tls_port: u16 = 0, int(0, 65_535);
        cluster_announce_hostname: String = String::new(), checked_text_or_unset(check_host_name);
        cluster_announce_human_nodename: String = String::new(), checked_text_or_unset(check_node_name), [whole];
        cluster_announce_ip: String = String::new(), checked_text_or_unset(check_announced_ip), [whole];
        cluster_announce_port: u16 = 0, int(0, 65_535);
        cluster_announce_tls_port: u16 = 0, int(0, 65_535);
        cluster_blacklist_ttl: i64 = 60, seconds(LONG_MIN, LONG_MAX);
        cluster_compatibility_sample_ratio: u8 = 0, int(0, 100);
        cluster_config_file: String = "nodes.conf".into(), checked_text(check_cluster_file_name), [immutable];
        cluster_config_save_behavior: ClusterConfigSaveBehavior = ClusterConfigSaveBehavior::Sync, ANY;
        cluster_databases: u32 = 1, int(1, INT_MAX), [immutable];
        cluster_enabled: bool = false, ANY, [immutable],
            refused "The server would serve all slots alone instead of joining the cluster.";
        cluster_link_sendbuf_limit: u64 = 0, memory(0, ULONG_MAX);
        cluster_manual_failover_timeout: u32 = 5000, milliseconds(1, INT_MAX);
        cluster_message_gossip_perc: u32 = 10, int(1, 100), [hidden];
        cluster_migration_barrier: u32 = 1, int(0, INT_MAX);
        cluster_node_timeout: u64 = 15_000, milliseconds(0, LONG_MAX);
        cluster_ping_interval: u64 = 0, milliseconds(0, LONG_MAX), [hidden];
        cluster_port: u16 = 0, int(0, 65_535), [immutable];
        cluster_preferred_endpoint_type: ClusterPreferredEndpointType = ClusterPreferredEndpointType::Ip, ANY;
        cluster_replica_no_failover: bool = false, ANY, alias "cluster-slave-no-failover";
        cluster_replica_validity_factor: u32 = 10, int(0, INT_MAX), alias "cluster-slave-validity-factor";
        cluster_require_full_coverage: bool = true, ANY;
        cluster_slot_migration_handoff_max_lag_bytes: u64 = 1 << 20, memory(0, LONG_MAX);
        cluster_slot_migration_log_max_len: u64 = 1000, int(0, LONG_MAX);
        cluster_slot_migration_max_archived_tasks: u32 = 32, int(1, INT_MAX), [hidden];
        cluster_slot_migration_write_pause_timeout: u64 = 10_000, milliseconds(0, LONG_MAX);
        cluster_slot_stats_enabled: bool = false, ANY;
        slot_migration_max_failover_repl_bytes: i64 = 0, memory(-1, LONG_MAX);
    }

    inert "all cipher suites that the server offers use elliptic curves" {
        tls_dh_params_file: String = String::new(), text_or_unset(), [volatile];
    }

    inert "there are no modules" {
        enable_module_command: ProtectedAction = ProtectedAction::No, ANY, [immutable];
    }

    inert "the server does not need this tuning" {
        active_defrag_max_scan_fields: u64 = 1000, int(1, LONG_MAX);
        activerehashing: bool = true, ANY;
        events_per_io_thread: u32 = 2, int(0, INT_MAX);
        io_threads_do_reads: bool = false, ANY;
        jemalloc_bg_thread: bool = true, ANY;
        lookahead: u32 = 16, int(1, INT_MAX);
        min_io_threads_avoid_copy_reply: u32 = 7, int(0, INT_MAX), [hidden];
        min_string_size_avoid_copy_reply: u32 = 16_384, int(0, INT_MAX), [hidden];
        prefetch_batch_max_size: u32 = 16, int(0, 128);
    }

    inert "the server does not have this feature" {
        crash_memcheck_enabled: bool = true, ANY;
        enable_debug_assert: bool = false, ANY, [immutable hidden];
        ignore_warnings: String = String::new(), text();
        key_memory_histograms: bool = false, ANY, [start_only];
        locale_collate: String = String::new(), text();
        mptcp: bool = false, ANY, [immutable];
        rdma_bind: BindAddresses = BindAddresses(Vec::new()), ANY, [volatile];
        rdma_completion_vector: i32 = -1, int(-1, 1024), [immutable];
        rdma_port: u16 = 0, int(0, 65_535);
        rdma_rx_size: u64 = 1 << 20, bytes(64 << 10, 16 << 20), [immutable];
        stream_idmp_duration: u32 = 100, seconds(1, 86_400);
        stream_idmp_maxsize: u32 = 100, int(1, 10_000);
        vset_force_single_threaded_execution: bool = false, ANY;
    }
}

impl Config {
    /// Clamps values that are accepted outside of their bounds. Called after loading and each change.
    pub(crate) fn apply_dependent_defaults(&mut self) {
        self.hz = self.hz.clamp(HZ_MIN, HZ_MAX);
        self.repl_backlog_size = self.repl_backlog_size.max(REPL_BACKLOG_SIZE_MIN);
    }
}

/// Converts a field's name to the directive's.
const fn with_dashes<const SIZE: usize>(field: &str) -> [u8; SIZE] {
    let mut name = [0; SIZE];
    let mut at = 0;
    while at < SIZE {
        let byte = field.as_bytes()[at];
        name[at] = if byte == b'_' { b'-' } else { byte };
        at += 1;
    }
    name
}

const fn ascii(name: &[u8]) -> &str {
    match std::str::from_utf8(name) {
        Ok(name) => name,
        Err(_) => panic!("a field's name is ASCII"),
    }
}

impl Id {
    /// The directive.
    #[must_use]
    pub fn directive(self) -> &'static Directive {
        &DIRECTIVES[self as usize]
    }

    /// The directive's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.directive().name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::directive::NAMES;
    use super::*;
    use crate::setting::Occurrence;

    #[test]
    fn blocks_are_in_alphabetical_order() {
        for pair in DIRECTIVES.windows(2) {
            let in_one_block = pair[0].inert == pair[1].inert;
            assert!(!in_one_block || pair[0].name < pair[1].name, "{} and {}", pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut seen = HashSet::new();
        for name in NAMES.iter() {
            assert!(seen.insert(name.text), "{} stands twice", name.text);
            assert_eq!(name.text, name.text.to_ascii_lowercase());
        }
    }

    #[test]
    fn ids_index_the_table() {
        for (index, directive) in DIRECTIVES.iter().enumerate() {
            assert_eq!(directive.id as usize, index);
            assert_eq!(directive.id.directive().name, directive.name);
        }
    }

    #[test]
    fn every_default_is_accepted_and_changes_nothing() {
        for directive in DIRECTIVES {
            let mut config = Config::default();
            let printed = directive.value(&config);
            let args: Vec<&[u8]> = match directive.is_list {
                true if printed.is_empty() => vec![],
                true => printed.split(|byte| *byte == b' ').collect(),
                false => vec![&printed],
            };
            match directive.set(&mut config, &args, Occurrence::First) {
                Ok(changed) => assert_eq!(changed, directive.marks.volatile, "{}", directive.name),
                // The only directive whose default has no text.
                Err(_) => assert_eq!(directive.name, "replicaof"),
            }
            assert_eq!(config, Config::default(), "{}", directive.name);
        }
    }

    #[test]
    fn every_directive_is_documented() {
        for directive in DIRECTIVES {
            assert!(directive.doc.trim().ends_with('.'), "{}", directive.name);
            assert!(!directive.accepts().is_empty(), "{}", directive.name);
        }
    }

    #[test]
    fn bounds_fit_the_types() {
        for directive in DIRECTIVES {
            let (Rule::Int { min, max, .. } | Rule::Memory { min, max }) = directive.rule else { continue };
            for bound in [min, max] {
                let text = bound.to_string();
                let set = directive.set(&mut Config::default(), &[text.as_bytes()], Occurrence::First);
                // Integers without a unit have 64 bits, so the largest unsigned one needs a memory rule.
                assert!(set.is_ok(), "{} refuses its bound {bound}", directive.name);
            }
        }
    }
}
