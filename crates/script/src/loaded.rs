//! What is known of a library when its code has run.

use mlua::Table;

use crate::source::ScriptFlags;

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedFunction {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// What it declares about itself.
    pub flags: ScriptFlags,
}

/// A library that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedLibrary {
    /// Its functions, in the order of their registration.
    pub functions: Vec<LoadedFunction>,
}

/// A library whose code has run.
pub(crate) struct CheckedLibrary {
    pub(crate) code: Vec<u8>,
    pub(crate) functions: Vec<LoadedFunction>,
    /// The functions, in the same order.
    pub(crate) callbacks: Table,
    /// Its memory, in bytes.
    pub(crate) size: usize,
}
