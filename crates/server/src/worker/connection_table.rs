//! The connections of a worker, by token.

use slab::Slab;

use crate::connection::Connection;
use crate::connection::token::Token;
use crate::mail::WorkerHandle;

/// The connections of a worker. Publishes their number in the worker's handle.
pub(super) struct ConnectionTable {
    thread: usize,
    handle: &'static WorkerHandle,
    all: Slab<Box<Connection>>,
    /// The generation of the last token, so that no two connections have equal tokens.
    generation: u32,
}

impl ConnectionTable {
    pub(super) fn new(thread: usize, handle: &'static WorkerHandle) -> Self {
        Self { thread, handle, all: Slab::new(), generation: 0 }
    }

    /// The connection with this token, if this worker still has it.
    #[inline]
    pub(super) fn find(&self, token: Token) -> Option<&Connection> {
        self.all
            .get(token.place())
            .map(|connection| &**connection)
            .filter(|found| found.client.token == token)
    }

    /// As [`Self::find`], mutable.
    #[inline]
    pub(super) fn find_mut(&mut self, token: Token) -> Option<&mut Connection> {
        self.all
            .get_mut(token.place())
            .map(|connection| &mut **connection)
            .filter(|found| found.client.token == token)
    }

    /// The connection at an index below [`Self::index_end`].
    pub(super) fn at_mut(&mut self, index: usize) -> Option<&mut Connection> {
        self.all.get_mut(index).map(|connection| &mut **connection)
    }

    /// The index above those of all connections.
    pub(super) fn index_end(&self) -> usize {
        self.all.capacity()
    }

    /// Adds a connection that is made for its token.
    pub(super) fn insert(&mut self, make: impl FnOnce(Token) -> Connection) -> Token {
        self.generation = self.generation.wrapping_add(1);
        let entry = self.all.vacant_entry();
        let token = Token::new(self.thread, self.generation, entry.key());
        let connection = make(token);
        connection.record.token.set(token.0);
        entry.insert(Box::new(connection));
        self.publish_count();
        token
    }

    /// Removes a connection, if this worker still has it.
    pub(super) fn remove(&mut self, token: Token) -> Option<Box<Connection>> {
        self.find(token)?;
        let connection = self.all.remove(token.place());
        self.publish_count();
        Some(connection)
    }

    fn publish_count(&self) {
        self.handle.connection_count.set(self.all.len() as u64);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.all.iter().map(|(_, connection)| &**connection)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.all.iter_mut().map(|(_, connection)| &mut **connection)
    }

    /// The tokens of all connections.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.iter().map(|connection| connection.client.token).collect()
    }
}
