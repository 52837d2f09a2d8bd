//! Stalls: reads at a fixed rate on a separate connection, during a large operation of the server.

use std::time::Duration;

use crate::case::{Case, LoadSettings};
use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::load::{self, FlowPlan, Live, Outcome, Plan};
use crate::outcome::{ServerInfo, StallOutcome};
use crate::running_servers::fill;
use crate::sample::LatencySummary;
use crate::server::running::{RunningServer, StartOptions};
use crate::server::spec::ServerSpec;
use crate::suite::{Disturbance, StallCase};
use crate::workload::Workload;

/// Latency above which a read counts as stalled.
const SLOW_NS: u64 = 3_000_000;

/// Maximum outstanding reads: enough that no read waits for another one.
const READ_PIPELINE: u64 = 10_000;

/// Writes per request batch: unbatched, the load generator would limit the rate.
const WRITES_TOGETHER: usize = 50;
const WRITE_CONNECTION_COUNT: usize = 8;

/// Outstanding requests of a flood: more than are executed in a turn, and than sockets hold.
const FLOOD_PIPELINE: u64 = 200_000;

/// Undisturbed reads at the start, as a reference.
const UNDISTURBED: Duration = Duration::from_millis(500);

/// Settings of a stall measurement.
#[derive(Clone, Debug)]
pub struct StallSettings {
    /// Keys, sizes and the window.
    pub load: LoadSettings,
    /// Reads per second.
    pub read_rate: f64,
    /// Divisor of the number of elements that [`StallCase::setup`] creates.
    pub divisor: u64,
}

impl StallSettings {
    fn case(&self, command: String, key_prefix: &str, load: LoadSettings) -> Result<Case, BenchError> {
        let mut workload = Workload::free(&[command], Some("SET {key} {value}"))?;
        workload.key_prefix = key_prefix.to_owned();
        Ok(Case { name: String::new(), workload, load })
    }

    fn reads(&self) -> Result<Case, BenchError> {
        let load = LoadSettings {
            connection_count: 1,
            pipeline: READ_PIPELINE,
            rate: Some(self.read_rate),
            warmup: Duration::ZERO,
            ..self.load.clone()
        };
        self.case("GET {key}".to_owned(), "key:", load)
    }

    /// Returns the plan of the reads and the concurrent writes. One thread drives both, see `growth`.
    fn plan(&self, case: &StallCase, round: usize) -> Result<Plan, BenchError> {
        let mut plan = self.reads()?.plan(round as u64)?;
        if let Some(rate) = case.write_rate {
            let load = LoadSettings {
                connection_count: WRITE_CONNECTION_COUNT,
                pipeline: READ_PIPELINE,
                rate: Some(rate / WRITES_TOGETHER as f64),
                key_count: 1_000_000_000,
                distribution: Distribution::Sequential,
                ..self.load.clone()
            };
            let writes = format!("{{times:{WRITES_TOGETHER} SET {{key}} {{value}} ; }}");
            plan.flows.extend(self.case(writes, "new:", load)?.plan(round as u64)?.flows);
        }
        if let Some(command) = case.flood {
            let load = LoadSettings { connection_count: 1, pipeline: FLOOD_PIPELINE, ..self.load.clone() };
            plan.flows.extend(self.case(command.to_owned(), "key:", load)?.plan(round as u64)?.flows);
        }
        Ok(plan)
    }

    /// Returns a plan of `count` sequential requests.
    fn quota(
        &self,
        command: &str,
        count: u64,
        key_count: u64,
        rate: Option<f64>,
    ) -> Result<Plan, BenchError> {
        let load = LoadSettings {
            connection_count: 1,
            pipeline: if rate.is_some() { 1 } else { 100 },
            rate,
            key_count,
            distribution: Distribution::Sequential,
            request_count: Some(count),
            warmup: Duration::ZERO,
            ..self.load.clone()
        };
        let plan = self.case(command.to_owned(), "key:", load)?.plan(0)?;
        let flows = plan.flows.into_iter().map(|flow| FlowPlan { quota: Some(count), ..flow }).collect();
        Ok(Plan { flows, length: None, ..plan })
    }
}

/// Starts the server, fills it, and reads during the disturbance.
pub fn measure_stalls(
    spec: &ServerSpec,
    options: &StartOptions,
    settings: &StallSettings,
    case: &StallCase,
    round: usize,
    show: &dyn Fn(Live),
) -> Result<(StallOutcome, ServerInfo), BenchError> {
    let server = RunningServer::start(spec, options)?;
    let failed = |what: &str, error: &str| BenchError::server(&spec.name, format!("{what}: {error}"));
    for &(count, command) in case.setup {
        let count = (count / settings.divisor).max(1);
        fill(&server, &settings.quota(command, count, count, None)?, show)?;
    }
    if let Some(plan) = settings.reads()?.fill_plan()? {
        fill(&server, &plan, show)?;
    }
    let plan = settings.plan(case, round)?;
    let disturbing = match &case.disturbance {
        Some(Disturbance { command, count, rate }) => {
            Some(settings.quota(command, *count, settings.load.key_count, Some(*rate))?)
        }
        None => None,
    };
    let target = server.target();
    let (reads, disturbed) = std::thread::scope(|scope| {
        let disturbed = disturbing.as_ref().map(|plan| {
            scope.spawn(move || {
                std::thread::sleep(UNDISTURBED);
                load::run(plan, target, &mut |_| ())
            })
        });
        let reads = load::run(&plan, target, &mut |live| show(live));
        (
            reads,
            disturbed.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        )
    });
    let (reads, disturbed) = (reads?, disturbed.transpose()?);
    let first_error =
        |outcome: &Outcome| outcome.flows.iter().find_map(|flow| flow.tally.first_error.clone());
    if let Some(error) = first_error(&reads).or(disturbed.as_ref().and_then(first_error)) {
        return Err(failed(case.name, &error));
    }
    let flow = &reads.flows[0];
    let outcome = StallOutcome {
        server: spec.name.clone(),
        name: case.name.to_owned(),
        round: round + 1,
        read_count: flow.latency.len(),
        slow_count: flow.latency.count_between(SLOW_NS, u64::MAX),
        latency: LatencySummary::of(&flow.latency),
        late_count: flow.lag.count_between(SLOW_NS, u64::MAX),
        lag: LatencySummary::of(&flow.lag),
        disturbance_ns_max: disturbed.map(|outcome| outcome.flows[0].latency.max()),
        writes_per_second: reads
            .flows
            .get(1)
            .map(|writes| writes.tally.replies as f64 / reads.window.as_secs_f64()),
    };
    Ok((outcome, server.info()))
}
