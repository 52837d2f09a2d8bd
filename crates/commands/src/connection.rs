//! Commands about the connection itself.

pub mod auth;
pub mod client;
pub mod echo;
pub mod hello;
pub mod ping;
pub mod quit;
pub mod reset;
pub mod select;
