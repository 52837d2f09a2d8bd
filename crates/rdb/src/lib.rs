//! The codec of RDB files and DUMP payloads: bytes to values and back.
//!
//! Reads the files of Redis (versions 1 to 15) and Valkey (80 and 81), and writes the oldest version that can
//! hold a value. Owns no data: values are built in the caller's heap. Does no I/O and reads no clock.
//!
//! Invariants
//! 1. Input is not trusted: every length, count and encoding is validated. A fault is an [`Error`] with its
//!    offset, never a panic.
//! 2. No length in the input reserves memory by itself: memory is bounded by a multiple of the
//!    bytes present.
//! 3. A prefix of a valid file is never a fault: the [`Cutter`] returns that it needs more bytes.
//!
//! Start reading at [`Cutter`] (a file becomes a sequence of records), then [`decode`] (a record's bytes become a
//! value) and [`Encoder`] (a value becomes bytes).

mod checksum;
mod cutter;
mod decode;
mod dump;
mod encode;
mod error;
mod file;
mod grammar;
mod input;
mod intset;
mod listpack;
mod lzf;
mod output;
mod report;
mod value_type;
mod version;
mod ziplist;
mod zipmap;

pub use checksum::Checksum;
pub use cutter::{Cut, Cutter, Event, Record};
pub use decode::{DecodeContext, Limits, Value, decode, decode_noting};
pub use dump::{LibrariesError, Payload, PayloadChecks, PayloadError, read_libraries, write_libraries};
pub use encode::{ElementForm, Encoder, FieldExpiriesLost, Pieces};
pub use error::{Error, Fault};
pub use file::{RecordHead, Usage, write_end, write_resize, write_select};
pub use input::Progress;
pub use report::describe as describe_fault;
pub use value_type::{StreamForm, ValueType};
pub use version::{Family, Version};
