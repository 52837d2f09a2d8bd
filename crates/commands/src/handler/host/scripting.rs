//! Scripts and functions.

use std::sync::Arc;

use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::command::ScriptSource;
use crate::context::Ctx;
use crate::error::CommandError;

/// What a request runs.
#[derive(Clone, Copy, Debug)]
pub enum ScriptName<'a> {
    /// A script, by its text.
    Body(&'a [u8]),
    /// A script, by its digest.
    Sha(&'a [u8]),
    /// A function, by its name.
    Function(&'a [u8]),
}

impl<'a> ScriptName<'a> {
    /// What a request runs whose first argument is of this kind.
    #[must_use]
    #[inline]
    pub fn of(source: ScriptSource, args: Args<'a>) -> Self {
        match source {
            ScriptSource::Body => Self::Body(args.at(1)),
            ScriptSource::Sha => Self::Sha(args.at(1)),
            ScriptSource::Function => Self::Function(args.at(1)),
        }
    }
}

/// A request that runs a script or function.
#[derive(Clone, Copy)]
pub struct ScriptRequest<'a> {
    /// The script or function.
    pub name: ScriptName<'a>,
    /// Whether it may only read.
    pub reads_only: bool,
    /// The keys that the request declares.
    pub keys: Args<'a>,
    /// The other arguments.
    pub arguments: Args<'a>,
}

/// Scripts and functions are killed by different commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ScriptKind {
    Script,
    Function,
}

/// A library of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFacts {
    /// Its name.
    pub name: Vec<u8>,
    /// Its text, with the first line.
    pub code: Vec<u8>,
    /// Its functions.
    pub functions: Vec<FunctionFacts>,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// Its flags, such as `no-writes`.
    pub flags: Vec<&'static str>,
}

/// A function that runs.
#[derive(Clone, Debug)]
pub struct RunningFunction {
    /// Its name.
    pub name: Vec<u8>,
    /// The request that runs it.
    pub command: Vec<Vec<u8>>,
    /// How long it has run, in milliseconds.
    pub duration_ms: u64,
}

/// The handling of existing libraries when a payload is restored (`FUNCTION RESTORE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They are deleted.
    Flush,
    /// A library of the same name is an error.
    Append,
    /// A library of the same name is replaced.
    Replace,
}

/// Scripts and functions.
pub trait Scripting {
    /// Runs a script or function under the latches of the request, and writes its reply.
    fn run_script(
        &self,
        ctx: &mut Ctx<'_>,
        request: ScriptRequest<'_>,
        out: &mut ReplyBuffer<'_>,
    ) -> Result<(), CommandError>;
    /// Shows a request to run a script or function to monitors, although it is malformed and runs nothing.
    fn show_malformed_script(&self, ctx: &Ctx<'_>);
    /// Adds a script to the cache, and returns its digest.
    fn load_script(&self, body: &[u8]) -> Result<[u8; 40], CommandError>;
    /// Returns the text of a cached script. `sha` is in any case.
    fn script_body(&self, sha: &[u8]) -> Option<Arc<[u8]>>;
    /// Empties the cache of scripts.
    fn flush_scripts(&self);
    /// Ends the running scripts or functions that have written nothing.
    fn kill_script(&self, kind: ScriptKind) -> Result<(), CommandError>;
    /// Adds a library, and returns its name.
    fn load_library(&self, code: &[u8], replaces: bool) -> Result<Vec<u8>, CommandError>;
    /// Deletes a library.
    fn delete_library(&self, name: &[u8]) -> Result<(), CommandError>;
    /// Deletes all libraries.
    fn flush_libraries(&self);
    /// Returns all libraries, by name.
    fn libraries(&self) -> Vec<Arc<LibraryFacts>>;
    /// Returns the numbers of libraries and of functions.
    fn library_counts(&self) -> (usize, usize);
    /// Whether there is a function with this name, in any case.
    fn has_function(&self, name: &[u8]) -> bool;
    /// Adds libraries, all or none.
    fn restore_libraries(&self, codes: &[&[u8]], policy: RestorePolicy) -> Result<(), CommandError>;
    /// Returns the function that has run longest.
    fn running_function(&self) -> Option<RunningFunction>;
}
