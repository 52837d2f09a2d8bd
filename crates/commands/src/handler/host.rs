//! The services that commands need from the server: the only interface from `commands` upwards.
//!
//! The server implements the traits, and thereby [`Host`]; tests implement them minimally. No method blocks or
//! acquires a latch: counters and lists are read from the state that each worker publishes.

mod clients;
mod criteria;
mod memory;
mod migration;
mod monitoring;
mod persistence;
mod primary_link;
mod process;
mod pubsub;
mod replicas;
mod scripting;
mod users;

pub use self::clients::{ClientAdmin, ClientFacts, ClientFilter, ClientKind};
pub use self::criteria::Criteria;
pub use self::memory::{MemoryReport, MemoryStat};
pub use self::migration::{Migrations, Transfer, TransferStep, TransferTarget};
pub use self::monitoring::{
    CommandHistogram, CommandLog, CommandLogs, LatencyEvent, LatencyEvents, LoggedCommand, QueuedCost,
    ServerReport,
};
pub use self::persistence::Persistence;
pub use self::primary_link::{FailoverPlan, PrimaryLink, ReplicaRole};
pub use self::process::{
    Clock, ConfigAdmin, Crash, Debugging, Lifecycle, Reload, ReplyBufferSetting, Secrets, ShutdownOptions,
    SyncPoint,
};
pub use self::pubsub::{CacheInvalidation, PubSub};
pub use self::replicas::{AcknowledgedCounts, ReplicaFacts, Replicas, SyncAnswer};
pub use self::scripting::{
    FunctionFacts, LibraryFacts, RestorePolicy, RunningFunction, ScriptKind, ScriptName, ScriptRequest,
    Scripting,
};
pub use self::users::UserAdmin;

/// The server, as seen by commands.
pub trait Host:
    Clock
    + ConfigAdmin
    + UserAdmin
    + ClientAdmin
    + ServerReport
    + CommandLogs
    + LatencyEvents
    + MemoryReport
    + PubSub
    + CacheInvalidation
    + Lifecycle
    + Persistence
    + Migrations
    + PrimaryLink
    + Replicas
    + Debugging
    + Secrets
    + Scripting
{
}

impl<T> Host for T where
    T: Clock
        + ConfigAdmin
        + UserAdmin
        + ClientAdmin
        + ServerReport
        + CommandLogs
        + LatencyEvents
        + MemoryReport
        + PubSub
        + CacheInvalidation
        + Lifecycle
        + Persistence
        + Migrations
        + PrimaryLink
        + Replicas
        + Replicas
        + Debugging
        + Secrets
        + Scripting
{
}
