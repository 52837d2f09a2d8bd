//! Scripts and functions.

use std::sync::Arc;

use commands::context::Ctx;
use commands::error::CommandError;
use commands::host::{LibraryFacts, RestorePolicy, RunningFunction, ScriptKind, ScriptRequest, Scripting};
use wire::reply::ReplyBuffer;

use super::WorkerHost;
use crate::script_runs::WorkerScripts;

impl WorkerHost {
    /// The scripts of the worker. Commands of scripts can't reach them.
    fn worker_scripts(&self) -> Result<&WorkerScripts, CommandError> {
        self.scripts.as_deref().ok_or(CommandError::new("ERR Scripts can't run scripts"))
    }
}

impl Scripting for WorkerHost {
    fn run_script(
        &self,
        ctx: &mut Ctx<'_>,
        request: ScriptRequest<'_>,
        out: &mut ReplyBuffer<'_>,
    ) -> Result<(), CommandError> {
        self.worker_scripts()?.run(ctx, request, out)
    }

    fn show_malformed_script(&self, ctx: &Ctx<'_>) {
        if let Some(scripts) = &self.scripts {
            scripts.feed_monitors(ctx);
        }
    }

    fn load_script(&self, body: &[u8]) -> Result<[u8; 40], CommandError> {
        self.worker_scripts()?.load(body).map(|script| script.sha)
    }

    fn script_body(&self, sha: &[u8]) -> Option<Arc<[u8]>> {
        self.scripts.as_ref()?.script_of(sha).map(|script| Arc::clone(&script.body))
    }

    fn flush_scripts(&self) {
        self.shared.scripts.cache.flush();
        if let Some(scripts) = &self.scripts {
            scripts.reset();
        }
    }

    fn kill_script(&self, kind: ScriptKind) -> Result<(), CommandError> {
        self.shared.scripts.running.kill(kind)
    }

    fn load_library(&self, code: &[u8], replaces: bool) -> Result<Vec<u8>, CommandError> {
        let scripts = self.worker_scripts()?;
        let mut loader = |code: &[u8]| scripts.check_library(code);
        let loaded = self.shared.scripts.libraries.load(code, replaces, &mut loader);
        let library = loaded.inspect_err(|_| scripts.forget_checked())?;
        // If this fails, so does a call of one of its functions.
        let _ = scripts.load_library(&library);
        Ok(library.name.clone())
    }

    fn delete_library(&self, name: &[u8]) -> Result<(), CommandError> {
        self.shared.scripts.libraries.delete(name)
    }

    fn flush_libraries(&self) {
        self.shared.scripts.libraries.flush();
    }

    fn libraries(&self) -> Vec<Arc<LibraryFacts>> {
        self.shared.scripts.libraries.all().libraries.values().cloned().collect()
    }

    fn library_counts(&self) -> (usize, usize) {
        let all = self.shared.scripts.libraries.all();
        (all.libraries.size(), all.functions.size())
    }

    fn has_function(&self, name: &[u8]) -> bool {
        self.shared.scripts.libraries.all().function(name).is_some()
    }

    fn restore_libraries(&self, codes: &[&[u8]], policy: RestorePolicy) -> Result<(), CommandError> {
        let scripts = self.worker_scripts()?;
        let mut loader = |code: &[u8]| scripts.check_library(code);
        let restored = self.shared.scripts.libraries.restore(codes, policy, &mut loader);
        scripts.forget_checked();
        restored
    }

    fn running_function(&self) -> Option<RunningFunction> {
        self.shared.scripts.running.function()
    }
}
