//! The labels of figures that have a line for each of several things.

use commands::table::NUMBERED;

use super::gathered::Gathered;

/// The labels of a figure that has a line for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Each kind of address that the server listens on.
    Listener,
    /// Each worker that runs.
    Worker,
    /// Each wanted worker but the first, even if it has not started yet.
    OtherWorker,
    /// Each command and subcommand.
    Command,
    /// Each first word of an error reply.
    ErrorCode,
    /// Each database.
    Database,
    /// Each replica.
    Replica,
}

/// One of the [`Labels`].
pub struct Label<'n> {
    /// Its number, for readers.
    pub index: usize,
    /// In the figure's name; `None`: the number.
    pub name: Option<&'n str>,
}

impl Label<'_> {
    /// The label of a figure without labels.
    pub const NONE: Label<'static> = Label { index: 0, name: Some("") };

    /// Its name, or else its number.
    pub fn text(&self) -> String {
        self.name.map_or_else(|| self.index.to_string(), str::to_owned)
    }
}

impl Labels {
    /// Visits the labels that there are now, in the order of the lines.
    pub fn visit(self, gathered: &Gathered<'_>, mut visit: impl FnMut(&Label<'_>)) {
        let shared = gathered.shared;
        match self {
            Self::Listener => {
                (0..gathered.listeners().len()).for_each(|index| visit(&Label { index, name: None }))
            }
            Self::Worker => {
                let seen = shared.monitoring.statistics.threads().map(|(index, _)| index);
                seen.filter(|index| shared.workers.handle(*index).is_occupied())
                    .for_each(|index| visit(&Label { index, name: None }));
            }
            Self::OtherWorker => {
                (1..shared.pool.wanted()).for_each(|index| visit(&Label { index, name: None }))
            }
            Self::Database => {
                (0..shared.keyspace.db_count()).for_each(|index| visit(&Label { index, name: None }))
            }
            Self::Replica => {
                (0..gathered.replicas().len()).for_each(|index| visit(&Label { index, name: None }))
            }
            Self::Command => {
                for (index, (name, _)) in NUMBERED.iter().enumerate() {
                    visit(&Label { index, name: Some(name) });
                }
            }
            Self::ErrorCode => {
                for (index, (code, _)) in gathered.errors().iter().enumerate() {
                    // As in Redis, characters that structure the text of INFO are replaced.
                    let shown = code.replace(['#', ':', '\n', '\r'], "_");
                    visit(&Label { index, name: Some(&shown) });
                }
            }
        }
    }
}
