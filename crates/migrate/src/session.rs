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
/// the same server, and an address for another server there than here: the replication IDs decide while the link is up.
/// Replicas of one primary have the same ID.
fn replicates(replica: &Info, primary: &Info, address: &HostPort) -> Option<bool> {
    let Role::Replica { primary: its_primary, is_linked } = replica.role() else { return None };
    let ids = replica.field("master_replid").zip(primary.field("master_replid"));
    let is_same = match ids {
        Some((one, other)) if is_linked && primary.role() == Role::Primary => one == other,
        _ => its_primary == *address,
    };
    is_same.then_some(is_linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_told_by_replication_ids_while_the_link_is_up() {
        let address = HostPort { host: "a".into(), port: 1 };
        let primary = Info::new("role:master\r\nmaster_replid:x\r\n".into());
        let replica = |host: &str, link: &str, id: &str| {
            Info::new(format!(
                "role:slave\r\nmaster_host:{host}\r\nmaster_port:1\r\nmaster_link_status:{link}\r\nmaster_replid:{id}\r\n"
            ))
        };
        let replicates = |replica: &Info, primary: &Info| replicates(replica, primary, &address);
        assert_eq!(replicates(&replica("a", "up", "x"), &primary), Some(true));
        assert_eq!(replicates(&replica("name", "up", "x"), &primary), Some(true));
        assert_eq!(replicates(&replica("a", "down", "y"), &primary), Some(false));
        assert_eq!(replicates(&replica("b", "down", "x"), &primary), None);
        assert_eq!(replicates(&replica("a", "up", "y"), &primary), None, "another server at this address");
        let sibling = replica("b", "up", "x");
        assert_eq!(replicates(&replica("b", "up", "x"), &sibling), None, "replicas of one primary");
        assert_eq!(replicates(&replica("a", "up", "x"), &sibling), Some(true), "a replica of a replica");
    }
}
