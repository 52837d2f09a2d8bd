//! A run of the tool: its options, both servers, the record of the move and the progress.

use crate::address::{HostPort, ServerUrl};
use crate::cli::Cli;
use crate::error::MigrateError;
use crate::info::{Info, Role};
use crate::progress::Progress;
use crate::record::{Record, Side};
use crate::server::Server;
use crate::servers::Servers;

/// A run of the tool.
pub struct Session<'a> {
    pub cli: &'a Cli,
    /// The source, with its password.
    pub from: ServerUrl,
    /// The target, with its password.
    pub to: ServerUrl,
    pub servers: Servers,
    pub record: Record,
    pub progress: Progress,
}

/// What the servers are to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Neither replicates from the other.
    Separate,
    /// The target is a replica of the source.
    Attached { is_linked: bool },
    /// The source is a replica of the target.
    Reversed { is_linked: bool },
}

impl Side {
    /// Returns the other server.
    pub const fn other(self) -> Self {
        match self {
            Self::Source => Self::Target,
            Self::Target => Self::Source,
        }
    }
}

impl Session<'_> {
    /// Returns one of the servers.
    pub fn server(&mut self, side: Side) -> &mut Server {
        self.servers.get(side)
    }

    /// Returns where a server is reached by the other one.
    pub fn address(&self, side: Side) -> &HostPort {
        match side {
            Side::Source => self.cli.source_address(),
            Side::Target => self.cli.target_address(),
        }
    }

    /// Returns the login of a server.
    pub fn url(&self, side: Side) -> &ServerUrl {
        match side {
            Side::Source => &self.from,
            Side::Target => &self.to,
        }
    }

    /// Changes a setting of a server, and records its earlier value.
    pub fn change(&mut self, side: Side, name: &str, value: &str) -> Result<(), MigrateError> {
        self.record.change(side, self.servers.get(side), name, value)
    }

    /// Restores settings of a server.
    pub fn restore(&mut self, side: Side, is_wanted: impl Fn(&str) -> bool) -> Result<(), MigrateError> {
        self.record.restore(side, self.servers.get(side), is_wanted)
    }

    /// Returns what the servers are to each other.
    pub fn relation(&mut self) -> Result<Relation, MigrateError> {
        let source = self.servers.source.info("replication")?;
        let target = self.servers.target.info("replication")?;
        if let Some(is_linked) = replicates(&target, &source, self.address(Side::Source)) {
            return Ok(Relation::Attached { is_linked });
        }
        let reversed = replicates(&source, &target, self.address(Side::Target));
        Ok(reversed.map_or(Relation::Separate, |is_linked| Relation::Reversed { is_linked }))
    }
}

impl Servers {
    /// Returns one of the servers.
    pub fn get(&mut self, side: Side) -> &mut Server {
        match side {
            Side::Source => &mut self.source,
            Side::Target => &mut self.target,
        }
    }
}

/// Whether one server is a replica of the other, and then whether their link is up. A name and an address may stand for
/// the same server: then the replication IDs are equal.
fn replicates(replica: &Info, primary: &Info, address: &HostPort) -> Option<bool> {
    let Role::Replica { primary: its_primary, is_linked } = replica.role() else { return None };
    let id = replica.field("master_replid");
    let is_same =
        its_primary == *address || (is_linked && id.is_some() && id == primary.field("master_replid"));
    is_same.then_some(is_linked)
}
