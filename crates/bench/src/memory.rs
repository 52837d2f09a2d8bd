//! Resident memory per key: the growth of a fresh server when it is filled.

use crate::accounting::resident_size;
use crate::case::Case;
use crate::error::BenchError;
use crate::load::Live;
use crate::outcome::{MemoryOutcome, ServerInfo};
use crate::running_servers::fill;
use crate::server::running::{RunningServer, StartOptions};
use crate::server::spec::ServerSpec;

/// Starts the server, runs the fill of the case's workload, and stops the server. Returns `None` if the
/// server's process can't be inspected.
pub fn measure_memory(
    spec: &ServerSpec,
    options: &StartOptions,
    case: &Case,
    show: &dyn Fn(Live),
) -> Result<Option<(MemoryOutcome, ServerInfo)>, BenchError> {
    let server = RunningServer::start(spec, options)?;
    let (Some(pid), Some(plan), true) = (server.target().pid, case.fill_plan()?, server.is_ours()) else {
        return Ok(None);
    };
    let resident = || resident_size(pid).map_err(BenchError::environment(format!("server {}", spec.name)));
    let before = resident()?;
    fill(&server, &plan, show)?;
    let after = resident()?;
    let load = &case.load;
    let outcome = MemoryOutcome {
        server: spec.name.clone(),
        key_count: load.key_count,
        key_size: load.key_size,
        value_size: load.value_size.to_string(),
        payload_size_mean: load.key_size as f64 + load.value_size.mean(),
        resident_size_before: before,
        resident_size_after: after,
        resident_size_per_key: after.saturating_sub(before) as f64 / load.key_count as f64,
    };
    Ok(Some((outcome, server.info())))
}
