//! The data on disk.
//!
//! | module | contents |
//! |---|---|
//! | [`loading`] | RDB files and append-only files become data |

pub mod loading;
