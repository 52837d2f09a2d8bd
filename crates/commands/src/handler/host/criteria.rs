//! The criteria by which `CLIENT LIST` and `CLIENT KILL` select connections.

use super::{ClientFacts, ClientFilter, ClientKind};

/// At most one of each criterion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Criteria {
    pub ids: Option<Vec<u64>>,
    pub kind: Option<ClientKind>,
    pub address: Option<Vec<u8>>,
    pub local_address: Option<Vec<u8>>,
    pub ip: Option<Vec<u8>>,
    pub user: Option<Vec<u8>>,
    pub name: Option<Vec<u8>>,
    pub lib_name: Option<Vec<u8>>,
    pub lib_version: Option<Vec<u8>>,
    pub db: Option<u16>,
    pub flags: Option<Vec<u8>>,
    pub capa: Option<Vec<u8>>,
}

impl ClientFilter {
    /// Whether every connection matches.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a connection matches.
    #[must_use]
    pub fn keeps(&self, facts: &ClientFacts) -> bool {
        self.skip_id != Some(facts.id)
            && self.idle_seconds_min.is_none_or(|least| facts.idle_seconds >= least)
            && self.age_seconds_min.is_none_or(|least| facts.age_seconds >= least)
            && self.keep.answers(facts).all(|met| met)
            && !self.drop.answers(facts).any(|met| met)
    }
}

impl Criteria {
    /// Returns, for each given criterion, whether the connection meets it.
    fn answers<'a>(&'a self, facts: &'a ClientFacts) -> impl Iterator<Item = bool> + 'a {
        let same = |wanted: &Option<Vec<u8>>, is: &[u8]| wanted.as_ref().map(|wanted| wanted == is);
        // A connection without a text has none that could be equal: an empty one selects nothing.
        let named =
            |wanted: &Option<Vec<u8>>, is: &[u8]| same(wanted, is).map(|equal| equal && !is.is_empty());
        let has_all = |wanted: &Option<Vec<u8>>, is: &str| {
            wanted.as_ref().map(|wanted| wanted.iter().all(|letter| is.as_bytes().contains(letter)))
        };
        [
            self.ids.as_ref().map(|ids| ids.contains(&facts.id)),
            self.kind.map(|kind| kind == facts.kind),
            same(&self.address, facts.peer.as_bytes()),
            same(&self.local_address, facts.local.as_bytes()),
            self.ip.as_ref().map(|ip| facts.has_ip(ip)),
            same(&self.user, &facts.user),
            named(&self.name, &facts.name),
            named(&self.lib_name, &facts.lib_name),
            named(&self.lib_version, &facts.lib_version),
            self.db.map(|db| db == facts.db),
            has_all(&self.flags, &facts.flags),
            has_all(&self.capa, &facts.capa),
        ]
        .into_iter()
        .flatten()
    }
}
