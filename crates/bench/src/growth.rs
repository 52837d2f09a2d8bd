//! The growth pause: reads at a fixed rate while an empty store is filled, so that tables grow during the
//! reads.

use crate::case::{Case, LoadSettings};
use crate::error::BenchError;
use crate::load::{self, Live, Plan};
use crate::outcome::{GrowthOutcome, ServerInfo};
use crate::sample::LatencySummary;
use crate::server::running::{RunningServer, StartOptions};
use crate::server::spec::ServerSpec;
use crate::workload::Workload;

/// Settings of the growth measurement.
#[derive(Clone, Debug)]
pub struct GrowthSettings {
    /// Keys, sizes and threads; the connections and pipeline of the writer.
    pub load: LoadSettings,
    /// Reads per second.
    pub read_rate: f64,
    /// Connections of the reader.
    pub read_connection_count: usize,
}

impl GrowthSettings {
    /// Returns writer and reader in one plan. The same threads drive both; on a small machine separate
    /// threads would preempt each other for whole time slices.
    fn plan(&self, round: usize) -> Result<Plan, BenchError> {
        let case = |name: &str, load: LoadSettings| -> Result<Plan, BenchError> {
            Case { name: name.to_owned(), workload: Workload::named(name)?, load }.plan(round as u64)
        };
        let mut plan = case("fill", self.load.clone())?;
        let reads = LoadSettings {
            connection_count: self.read_connection_count,
            pipeline: 1,
            rate: Some(self.read_rate),
            request_count: None,
            ..self.load.clone()
        };
        plan.flows.extend(case("get", reads)?.flows);
        Ok(plan)
    }
}

/// Starts the server, and reads while it is filled.
pub fn measure_growth(
    spec: &ServerSpec,
    options: &StartOptions,
    settings: &GrowthSettings,
    round: usize,
    show: &dyn Fn(Live),
) -> Result<(GrowthOutcome, ServerInfo), BenchError> {
    let server = RunningServer::start(spec, options)?;
    if !server.is_ours() {
        return Err(BenchError::usage(format!(
            "{} must be started by the benchmark, because growth is measured from empty",
            spec.name
        )));
    }
    let outcome = load::run(&settings.plan(round)?, server.target(), &mut |live| show(live))?;
    let (writes, reads) = (&outcome.flows[0], &outcome.flows[1]);
    let outcome = GrowthOutcome {
        server: spec.name.clone(),
        round: round + 1,
        key_count: settings.load.key_count,
        fill_seconds: outcome.window.as_secs_f64(),
        read_rate: settings.read_rate,
        latency: LatencySummary::of(&reads.latency),
        lag: LatencySummary::of(&reads.lag),
        error_count: writes.tally.errors + reads.tally.errors,
        unanswered_count: reads.unanswered,
    };
    Ok((outcome, server.info()))
}
