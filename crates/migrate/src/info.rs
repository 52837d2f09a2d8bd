//! The text of `INFO`: fields, the role, the keys of each database.

use std::collections::BTreeMap;

use crate::address::HostPort;

/// The reply to `INFO` with one or more sections.
pub struct Info(String);

/// What a server is in replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Primary,
    /// A replica of a primary at this address.
    Replica {
        primary: HostPort,
        is_linked: bool,
    },
}

/// A place in the stream of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// `master_replid`; absent before Redis 4.
    pub history: Option<String>,
    pub offset: u64,
}

impl Position {
    /// Whether the positions can't be compared, because they count in different histories.
    pub fn is_of_another_history(&self, other: &Self) -> bool {
        matches!((&self.history, &other.history), (Some(one), Some(other)) if one != other)
    }
}

/// The keys of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// All keys.
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
}

/// The databases that have keys.
pub type Keyspace = BTreeMap<u32, KeyCounts>;

impl Info {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
    }

    /// Returns a field that is a number; `None` also for a negative one, which stands for unknown.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// Whether a field is 1.
    pub fn is_on(&self, name: &str) -> bool {
        self.field(name) == Some("1")
    }

    /// Returns the role, from the section `replication`.
    pub fn role(&self) -> Role {
        match (self.field("role"), self.field("master_host"), self.number("master_port")) {
            (Some("slave" | "replica"), Some(host), Some(port)) => Role::Replica {
                primary: HostPort { host: host.to_owned(), port: port as u16 },
                is_linked: self.field("master_link_status") == Some("up"),
            },
            _ => Role::Primary,
        }
    }

    /// Returns the position, from the section `replication`.
    pub fn position(&self) -> Option<Position> {
        let offset = self.number("slave_repl_offset").or_else(|| self.number("master_repl_offset"))?;
        Some(Position { history: self.field("master_replid").map(str::to_owned), offset })
    }

    /// Returns the name and version, from the section `server`.
    pub fn product(&self) -> String {
        let products =
            [("Broadloom", "broadloom_version"), ("Valkey", "valkey_version"), ("Redis", "redis_version")];
        let found = products.iter().find_map(|(name, field)| Some((name, self.field(field)?)));
        found.map_or_else(
            || "a server of unknown version".to_owned(),
            |(name, version)| format!("{name} {version}"),
        )
    }

    /// Returns the databases, from the section `keyspace`.
    pub fn keyspace(&self) -> Keyspace {
        let databases = self.0.lines().filter_map(|line| {
            let (name, counts) = line.trim().strip_prefix("db")?.split_once(':')?;
            let count = |name: &str| {
                let mut fields = counts.split(',').filter_map(|field| field.split_once('='));
                fields.find(|(field, _)| *field == name)?.1.parse().ok()
            };
            let counts = KeyCounts { keys: count("keys")?, expires: count("expires").unwrap_or(0) };
            Some((name.parse().ok()?, counts))
        });
        databases.filter(|(_, counts)| counts.keys > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let info = Info::new(
            "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nloading:1\r\nmaster_sync_total_bytes:-1\r\n".into(),
        );
        assert_eq!((info.product().as_str(), info.is_on("loading")), ("Valkey 9.1.2", true));
        assert_eq!((info.number("master_sync_total_bytes"), info.field("absent")), (None, None));
        assert_eq!(info.role(), Role::Primary);
    }

    #[test]
    fn roles_and_databases_are_read() {
        let info = Info::new(
            "role:slave\r\nmaster_host:::1\r\nmaster_port:7000\r\nmaster_link_status:down\r\n\
             db0:keys=12,expires=3,avg_ttl=9\r\ndb2:keys=0,expires=0\r\ndb11:keys=1,expires=0,subexpiry=4\r\n"
                .into(),
        );
        let primary = HostPort { host: "::1".into(), port: 7000 };
        assert_eq!(info.role(), Role::Replica { primary, is_linked: false });
        let expected = [(0, KeyCounts { keys: 12, expires: 3 }), (11, KeyCounts { keys: 1, expires: 0 })];
        assert_eq!(info.keyspace(), Keyspace::from(expected));
    }
}
