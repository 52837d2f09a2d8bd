//! One case of a comparison: a workload with load settings, converted into the load generator's plans.

use std::time::Duration;

use serde::Serialize;

use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::keys::KeyShape;
use crate::load::{FlowPlan, Plan};
use crate::pinning::CpuList;
use crate::template::Template;
use crate::values::{ValueSize, ValueSource};
use crate::workload::{Own, Workload};

/// Connections and pipeline of the fill: enough to keep any server busy.
const FILL_CONNECTION_COUNT: usize = 8;
const FILL_PIPELINE: u64 = 64;

/// Load settings of one case.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// Load threads.
    pub thread_count: usize,
    /// Connections over all threads.
    pub connection_count: usize,
    /// Outstanding requests per connection.
    pub pipeline: u64,
    /// Distinct keys.
    pub key_count: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: ValueSize,
    /// Distribution of the requested keys.
    pub distribution: Distribution,
    /// Requests per second in the open loop; `None` for the closed loop.
    pub rate: Option<f64>,
    /// Load before the measured window.
    pub warmup: Duration,
    /// Length of the window, unless `request_count` ends it.
    pub length: Duration,
    /// Number of requests in a window.
    pub request_count: Option<u64>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// CPUs that load threads are bound to.
    pub client_cpus: CpuList,
}

/// The settings as reported.
#[derive(Clone, Debug, Serialize)]
pub struct ReportedSettings {
    /// Commands sent.
    pub commands: Vec<String>,
    /// Load threads.
    pub thread_count: usize,
    /// Connections.
    pub connection_count: usize,
    /// Outstanding requests per connection.
    pub pipeline: u64,
    /// Distinct keys.
    pub key_count: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value, in command-line syntax.
    pub value_size: String,
    /// Key distribution, in command-line syntax.
    pub distribution: String,
    /// Requests per second in the open loop; `None` for the closed loop.
    pub rate: Option<f64>,
}

/// A workload with its settings.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in reports.
    pub name: String,
    /// Commands sent.
    pub workload: Workload,
    /// Load settings.
    pub load: LoadSettings,
}

impl Case {
    /// Creates a case. Settings that the workload prescribes override those of `load`.
    #[must_use]
    pub fn new(name: String, workload: Workload, load: LoadSettings) -> Self {
        let Own { key_count, value_size, .. } = workload.own;
        let load = LoadSettings {
            key_count: key_count.unwrap_or(load.key_count),
            value_size: value_size.map_or(load.value_size, |size| ValueSize { min: size, max: size }),
            ..load
        };
        Self { name, workload, load }
    }

    /// Returns the plan of one measured run.
    pub fn plan(&self, round: u64) -> Result<Plan, BenchError> {
        let (keys, values) = self.shapes()?;
        let commands = self.workload.commands.iter();
        let templates = commands
            .map(|weighted| Ok((weighted.weight, Template::parse(&weighted.command, &keys, &values)?)))
            .collect::<Result<Vec<_>, BenchError>>()?;
        let load = &self.load;
        let quota = match self.workload.own.uses_up {
            Some(times) => Some(load.key_count * times),
            None if self.workload.from_empty => Some(load.key_count),
            None => load.request_count,
        };
        let flow = FlowPlan {
            connection_count: load.connection_count,
            pipeline: load.pipeline,
            rate: load.rate,
            quota,
            templates,
            distribution: self.distribution(),
            key_count: load.key_count,
            values,
            subscribes: false,
        };
        let mut flows = vec![flow];
        if self.workload.own.listener_count > 0 {
            flows.insert(0, flows[0].to_listeners(self.workload.own.listener_count));
        }
        if let Some((connection_count, command)) = self.workload.own.waiting {
            let request = Template::parse(command, &keys, &flows[0].values)?;
            flows.push(flows[0].to_waiting(connection_count, request));
        }
        Ok(Plan {
            thread_count: load.thread_count.min(load.connection_count),
            flows,
            warmup: if quota.is_none() { load.warmup } else { Duration::ZERO },
            length: quota.is_none().then_some(load.length),
            seed: load.seed.wrapping_add(round),
            client_cpus: load.client_cpus.clone(),
        })
    }

    /// Returns the plan of a separate warm-up, for runs that count their requests and so can't contain one.
    pub fn warmup_plan(&self) -> Result<Option<Plan>, BenchError> {
        let load = &self.load;
        let is_counted = self.workload.from_empty || self.workload.own.uses_up.is_some();
        if is_counted || load.request_count.is_none() || load.warmup.is_zero() {
            return Ok(None);
        }
        let load =
            LoadSettings { request_count: None, warmup: Duration::ZERO, length: load.warmup, ..load.clone() };
        Self { load, ..self.clone() }.plan(0).map(Some)
    }

    /// Returns the plan that writes each key once, if the workload needs keys.
    pub fn fill_plan(&self) -> Result<Option<Plan>, BenchError> {
        let Some(command) = &self.workload.fill else {
            return Ok(None);
        };
        let (keys, values) = self.shapes()?;
        let flow = FlowPlan {
            connection_count: FILL_CONNECTION_COUNT,
            pipeline: FILL_PIPELINE,
            rate: None,
            quota: Some(self.load.key_count * self.workload.own.fill_times),
            templates: vec![(1, Template::parse(command, &keys, &values)?)],
            distribution: Distribution::Sequential,
            key_count: self.load.key_count,
            values,
            subscribes: false,
        };
        Ok(Some(Plan {
            thread_count: self.load.thread_count.min(FILL_CONNECTION_COUNT),
            flows: vec![flow],
            warmup: Duration::ZERO,
            length: None,
            seed: self.load.seed,
            client_cpus: self.load.client_cpus.clone(),
        }))
    }

    /// Identifies the fill: cases with equal content share the keys.
    #[must_use]
    pub fn fill_content(&self) -> String {
        let Self { workload, load, .. } = self;
        let command = workload.fill.as_deref().unwrap_or_default();
        format!("{command} {} {} {} {}", workload.key_prefix, load.key_count, load.key_size, load.value_size)
    }

    /// Returns the settings as reported.
    #[must_use]
    pub fn reported(&self) -> ReportedSettings {
        let load = &self.load;
        let commands = self.workload.commands.iter();
        let commands = commands.map(|weighted| match weighted.weight {
            1 => weighted.command.clone(),
            weight => format!("{weight}*{}", weighted.command),
        });
        let waiting =
            self.workload.own.waiting.map(|(count, command)| format!("{command} ({count} connections)"));
        ReportedSettings {
            commands: commands.chain(waiting).collect(),
            thread_count: load.thread_count,
            connection_count: load.connection_count,
            pipeline: load.pipeline,
            key_count: load.key_count,
            key_size: load.key_size,
            value_size: load.value_size.to_string(),
            distribution: self.distribution().to_string(),
            rate: load.rate,
        }
    }

    fn distribution(&self) -> Distribution {
        self.workload.distribution.unwrap_or(self.load.distribution)
    }

    fn shapes(&self) -> Result<(KeyShape, ValueSource), BenchError> {
        let keys = KeyShape::new(&self.workload.key_prefix, self.load.key_size, self.load.key_count)?;
        Ok((keys, ValueSource::new(self.load.value_size)))
    }
}
