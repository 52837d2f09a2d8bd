//! The server as its administrators and commands see it: [`host::WorkerHost`] carries out the requests of handlers to
//! the server; `port` is the admin port; the other files hold `INFO` with its other forms, `CLIENT`, `CONFIG SET`, `MEMORY`,
//! `SAVE` and `SHUTDOWN`.
//!
//! Touches the shared state, and workers by mail only.

pub mod clients;
pub mod host;
pub mod info;
pub mod memory;
pub mod migration;
pub mod port;
pub mod settings;
pub mod shutdown;
