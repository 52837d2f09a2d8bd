//! The measured servers: specification, start and operation.

pub mod known;
pub mod running;
pub mod spec;
