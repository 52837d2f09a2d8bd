//! What a replica has declared of itself with `REPLCONF`.

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredReplica {
    /// The port on which it listens.
    pub port: u16,
    /// Its address, if it is not that of its connection.
    pub address: Option<String>,
    /// Whether it accepts a snapshot that ends with a mark (`capa eof`).
    pub accepts_mark: bool,
    /// Whether it accepts another id with `+CONTINUE` (`capa psync2`).
    pub accepts_new_id: bool,
    /// The version of Valkey that it has; `None`: it has not said.
    pub version: Option<(u32, u32, u32)>,
    /// Whether it wants a snapshot only.
    pub only_snapshot: bool,
    /// Whether the snapshot has no keys (`rdb-filter-only`).
    pub is_filtered: bool,
    /// Whether a snapshot without keys has the libraries of functions.
    pub includes_functions: bool,
    /// Whether it has sent `SYNC`: it acknowledges nothing.
    pub is_old: bool,
    /// Whether it was answered that it is a replica. From then on it gets no other reply.
    pub is_served: bool,
    /// The form in which it accepts its snapshot on a connection of its own.
    pub channel_form: Option<ChannelForm>,
    /// Whether this connection is for the snapshot, and another one for the stream (`rdb-channel`).
    pub is_channel: bool,
    /// The client of the replica's other connection: the one for the stream (`main-ch-client-id`), or the one for the snapshot
    /// (`set-rdb-client-id`).
    pub other_client: Option<u64>,
}

impl DeclaredReplica {
    /// Whether it wants a snapshot without keys, and no stream.
    #[must_use]
    pub fn excludes_keys(&self) -> bool {
        self.is_filtered && self.only_snapshot && !self.is_channel
    }
}

/// How a replica gets its snapshot on a connection of its own, while the stream goes to the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelForm {
    /// Valkey's: the replica asks for the stream when the snapshot begins (`capa dual-channel`).
    Valkey,
    /// Redis's: the stream begins with the snapshot (`capa rdb-channel-repl`).
    Redis,
}
