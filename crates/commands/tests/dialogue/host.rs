//! The minimal host of a dialogue. Methods that dialogues do not use panic.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Lsn, Millis};
use commands::acl::{LoggedDenial, Users};
use commands::context::Ctx;
use commands::error::CommandError;
use commands::host::{
    AcknowledgedCounts, CacheInvalidation, ClientAdmin, ClientFilter, Clock, CommandHistogram, CommandLog,
    CommandLogs, ConfigAdmin, Debugging, FailoverPlan, LatencyEvent, LatencyEvents, LibraryFacts, Lifecycle,
    LoggedCommand, MemoryReport, MemoryStat, Migrations, Persistence, PrimaryLink, PubSub, QueuedCost,
    Reload, ReplicaFacts, ReplicaRole, Replicas, ReplyBufferSetting, RestorePolicy, RunningFunction,
    ScriptKind, ScriptRequest, Scripting, Secrets, ServerReport, ShutdownOptions, SyncAnswer, Transfer,
    TransferTarget, UserAdmin,
};
use commands::session::{Queued, Session};
use commands::subscriptions::{Name, SubscriptionKind};
use commands::tracking::Redirection;
use config::{Config, SetCaller};
use keyspace::Latched;
use wire::reply::ReplyBuffer;

/// A host with a clock and a configuration, and no other state.
pub struct TestHost {
    /// Unix time in milliseconds.
    pub clock: Rc<Cell<i64>>,
    pub config: Rc<RefCell<Config>>,
    users: RefCell<Arc<Users>>,
}

impl TestHost {
    pub fn new(clock: Rc<Cell<i64>>, config: Rc<RefCell<Config>>, users: Users) -> Self {
        Self { clock, config, users: RefCell::new(Arc::new(users)) }
    }
}

impl UserAdmin for TestHost {
    fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.borrow())
    }

    fn users_version(&self) -> u64 {
        self.users.borrow().version()
    }

    fn change_users(
        &self,
        change: &dyn Fn(&Users) -> Result<Users, CommandError>,
    ) -> Result<(), CommandError> {
        let changed = change(&self.users.borrow())?;
        *self.users.borrow_mut() = Arc::new(changed);
        Ok(())
    }

    fn load_users(&self) -> Result<(), CommandError> {
        unreachable!("the test host has no ACL file")
    }

    fn save_users(&self) -> Result<(), CommandError> {
        unreachable!("the test host has no ACL file")
    }

    fn record_denial(&self, _: &Session, _: &commands::acl::DenialEvent<'_>) {}

    fn denials(&self, _: usize) -> Vec<LoggedDenial> {
        Vec::new()
    }

    fn clear_denials(&self) {}
}

impl Clock for TestHost {
    fn unix_micros(&self) -> i64 {
        self.clock.get() * 1000
    }

    fn uptime_ns(&self) -> u64 {
        self.clock.get() as u64 * 1_000_000
    }

    fn started_at(&self) -> Millis {
        Millis(0)
    }
}

impl ConfigAdmin for TestHost {
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let config = self.config.borrow();
        config.matching(patterns).into_iter().map(|(name, value)| (name.into_owned(), value)).collect()
    }

    fn config_set(&self, arguments: &[&[u8]], _: &Session) -> Result<Lsn, CommandError> {
        let caller = SetCaller { is_local: true, is_loading: false };
        let change = self.config.borrow().with_changes(arguments, caller);
        let change = change.map_err(|error| CommandError::owned(format!("ERR {error}")))?;
        *self.config.borrow_mut() = change.config;
        Ok(Lsn(0))
    }

    fn config_rewrite(&self, _: bool) -> Result<(), CommandError> {
        Err(CommandError::new("ERR The server is running without a config file"))
    }
}

impl ClientAdmin for TestHost {
    fn client_list(&self, _: &ClientFilter, _: &Session) -> Vec<u8> {
        Vec::new()
    }

    fn client_info(&self, session: &Session) -> String {
        format!("id={} name={}", session.id, session.names.client.escape_ascii())
    }

    fn client_kill(&self, _: &ClientFilter, _: &Session) -> (u64, bool) {
        (0, false)
    }

    fn client_unblock(&self, _: u64, _: bool) -> bool {
        false
    }

    fn client_pause(&self, _: Duration, _: bool) -> Result<(), CommandError> {
        Ok(())
    }

    fn client_unpause(&self) {}

    fn is_expiry_paused(&self) -> bool {
        false
    }

    fn client_exists(&self, id: u64) -> bool {
        id == 1
    }

    fn publish(&self, _: &Session) {}
}

impl ServerReport for TestHost {
    fn info(&self, sections: &[&[u8]]) -> String {
        let names: Vec<_> = sections.iter().map(|name| name.escape_ascii().to_string()).collect();
        format!("# sections: {}\r\n", names.join(" "))
    }

    fn reset_stats(&self) {}

    fn record_queued_call(
        &self,
        _: &Session,
        _: &Config,
        _: Queued<'_>,
        _: QueuedCost,
        _: Option<&CommandError>,
    ) {
    }

    fn record_queued_denial(&self, _: &CommandError) {}

    fn monitor(&self, _: &Session, _: bool) {}
}

impl CommandLogs for TestHost {
    fn command_log(&self, _: CommandLog, _: usize) -> Vec<LoggedCommand> {
        Vec::new()
    }

    fn command_log_len(&self, _: CommandLog) -> usize {
        0
    }

    fn command_log_reset(&self, _: CommandLog) {}
}

impl LatencyEvents for TestHost {
    fn latency_events(&self) -> Vec<LatencyEvent> {
        Vec::new()
    }

    fn latency_reset(&self, _: &[&[u8]]) -> usize {
        0
    }

    fn latency_add(&self, _: &'static str, _: u64) {}

    fn latency_histograms(&self) -> Vec<CommandHistogram> {
        Vec::new()
    }
}

impl MemoryReport for TestHost {
    fn memory_stats(&self) -> Vec<(String, MemoryStat)> {
        Vec::new()
    }

    fn used_memory(&self) -> usize {
        0
    }

    fn allocator_report(&self) -> String {
        String::new()
    }

    fn memory_purge(&self) {}

    fn free_later(&self, _: u64, free: Box<dyn FnOnce() + Send>) {
        free();
    }

    fn reply_when_freed(&self, _: &Session) -> bool {
        false
    }
}

impl PubSub for TestHost {
    fn subscribe(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]) {
        session.add_subscription(kind, Name::new(0, name));
    }

    fn unsubscribe(
        &self,
        session: &mut Session,
        kind: SubscriptionKind,
        name: &[u8],
        _: &mut ReplyBuffer<'_>,
    ) {
        session.remove_subscription(kind, 0, name);
    }

    fn catch_up(&self, _: &mut Session, _: &mut ReplyBuffer<'_>) {}

    /// There are no subscribers: the only connection's session keeps its own subscriptions.
    fn publish_message(&self, _: SubscriptionKind, _: &[u8], _: &[u8]) -> u64 {
        0
    }

    fn names(&self, _: SubscriptionKind) -> Vec<Name> {
        Vec::new()
    }

    fn name_count(&self, _: SubscriptionKind) -> usize {
        0
    }

    fn subscriber_count(&self, _: SubscriptionKind, _: &[u8]) -> u64 {
        0
    }
}

impl CacheInvalidation for TestHost {
    fn redirect(&self, _: &Session, _: Option<Redirection>) {}

    fn invalidate_all(&self) {}
}

impl Lifecycle for TestHost {
    fn shutdown(&self, _: ShutdownOptions, _: &Session) -> Result<bool, CommandError> {
        Err(CommandError::new("ERR Errors trying to SHUTDOWN. Check logs."))
    }

    fn shutdown_abort(&self) -> Result<(), CommandError> {
        Err(CommandError::new("ERR No shutdown in progress."))
    }
}

impl Persistence for TestHost {
    fn last_save(&self) -> i64 {
        self.started_at().0 / 1000
    }

    fn save(&self, _: &mut Latched<'_>, _: &Session) -> Result<(), CommandError> {
        Err(CommandError::new("ERR"))
    }

    fn save_in_background(
        &self,
        _: &mut Latched<'_>,
        _: &Session,
        _: bool,
    ) -> Result<&'static str, CommandError> {
        Ok("Background saving started")
    }

    fn cancel_saving(&self) -> Result<&'static str, CommandError> {
        Err(CommandError::new("ERR Background saving is currently not in progress or scheduled"))
    }

    fn rewrite_append_only(&self, _: &Session) -> Result<&'static str, CommandError> {
        Ok("Background append only file rewriting started")
    }

    fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= Lsn(0)
    }

    fn append_only_fails(&self) -> bool {
        false
    }

    fn flushed_all(&self, _: &mut Latched<'_>, _: &Session, _: bool) -> bool {
        false
    }
}

impl Migrations for TestHost {
    fn begin_transfer(&self, _: TransferTarget, _: &Session) -> Result<Box<dyn Transfer>, CommandError> {
        Err(CommandError::new("IOERR error or timeout connecting to the client"))
    }
}

/// Always a primary without replicas.
impl PrimaryLink for TestHost {
    fn replicate(&self, _: &[u8], _: u16) -> bool {
        false
    }

    fn promote(&self) {}

    fn replica_role(&self) -> Option<ReplicaRole> {
        None
    }

    fn acknowledge(&self) {}

    fn check_role_change(&self) -> Result<(), CommandError> {
        Ok(())
    }

    fn fail_over(&self, _: FailoverPlan<'_>) -> Result<(), CommandError> {
        Err(CommandError::new("ERR FAILOVER requires connected replicas."))
    }

    fn abort_failover(&self) -> bool {
        false
    }

    fn take_over(&self, _: &[u8]) -> Result<(), CommandError> {
        Err(CommandError::new("ERR PSYNC FAILOVER can't be sent to a master."))
    }
}

impl Replicas for TestHost {
    fn synchronise(&self, _: &Session, _: Option<(&[u8], u64)>) -> SyncAnswer {
        SyncAnswer::NoData
    }

    fn acknowledged(&self, _: &Session, _: u64, _: Option<u64>) {}

    fn replicas_at(&self, _: Lsn) -> AcknowledgedCounts {
        AcknowledgedCounts::default()
    }

    fn is_replica(&self) -> bool {
        false
    }

    fn stream_offset(&self) -> u64 {
        0
    }

    fn awaits_channel(&self, _: u64) -> bool {
        false
    }

    fn is_stream_expected(&self, _: u64) -> bool {
        false
    }

    fn replica_facts(&self) -> Vec<ReplicaFacts> {
        Vec::new()
    }
}

impl Debugging for TestHost {
    fn prepare_reload(&self, _: Reload) -> Result<(), CommandError> {
        Err(CommandError::new("ERR There are no files in this test"))
    }

    fn set_active_expire(&self, _: bool) {}

    fn pause_cron(&self, _: bool) {}

    fn set_reply_buffers(&self, _: ReplyBufferSetting) {}

    fn sleep(&self, _: u64) {}

    fn stall_others(&self, _: u64) {}

    fn set_checksum_validation(&self, _: bool) {}

    fn set_scripts_unrestricted(&self, _: bool) {}

    fn validates_checksums(&self) -> bool {
        true
    }

    fn delay_append_only(&self, _: u64) {}

    fn stop_at(&self, _: commands::host::SyncPoint, _: bool) {}

    fn set_stream_grace(&self, _: i64) {}

    fn change_replication_id(&self) {}

    fn write_server_log(&self, _: &str) {}

    fn crash(&self, _: commands::host::Crash) -> ! {
        panic!("a command requested a crash");
    }
}

impl Secrets for TestHost {
    fn fill_with_secrets(&self, bytes: &mut [u8]) -> Result<(), CommandError> {
        bytes.fill(0x5a);
        Ok(())
    }
}

/// The interpreter is not part of these tests: `crates/server/tests` has the dialogues of scripts.
const NO_SCRIPTS: CommandError = CommandError::new("ERR There are no scripts in this test");

impl Scripting for TestHost {
    fn run_script(
        &self,
        _: &mut Ctx<'_>,
        _: ScriptRequest<'_>,
        _: &mut ReplyBuffer<'_>,
    ) -> Result<(), CommandError> {
        Err(NO_SCRIPTS)
    }

    fn show_malformed_script(&self, _: &Ctx<'_>) {}

    fn load_script(&self, _: &[u8]) -> Result<[u8; 40], CommandError> {
        Err(NO_SCRIPTS)
    }

    fn script_body(&self, _: &[u8]) -> Option<Arc<[u8]>> {
        None
    }

    fn flush_scripts(&self) {}

    fn kill_script(&self, _: ScriptKind) -> Result<(), CommandError> {
        Err(CommandError::new("NOTBUSY No scripts in execution right now."))
    }

    fn load_library(&self, _: &[u8], _: bool) -> Result<Vec<u8>, CommandError> {
        Err(NO_SCRIPTS)
    }

    fn delete_library(&self, _: &[u8]) -> Result<(), CommandError> {
        Err(CommandError::new("ERR Library not found"))
    }

    fn flush_libraries(&self) {}

    fn libraries(&self) -> Vec<Arc<LibraryFacts>> {
        Vec::new()
    }

    fn library_counts(&self) -> (usize, usize) {
        (0, 0)
    }

    fn has_function(&self, _: &[u8]) -> bool {
        false
    }

    fn restore_libraries(&self, _: &[&[u8]], _: RestorePolicy) -> Result<(), CommandError> {
        Err(NO_SCRIPTS)
    }

    fn running_function(&self) -> Option<RunningFunction> {
        None
    }
}
