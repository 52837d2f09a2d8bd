//! Runs a suite, or the selected sections of it.

use std::time::Duration;

use crate::case::{Case, LoadSettings};
use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::growth::{GrowthSettings, measure_growth};
use crate::load::Live;
use crate::memory::measure_memory;
use crate::outcome::{CollectionMemory, Findings, SectionOutcome, ServerInfo};
use crate::pinning::CpuList;
use crate::progress::RunProgress;
use crate::running_servers::{RoundSettings, RunningServers};
use crate::server::known;
use crate::server::running::StartOptions;
use crate::server::spec::ServerSpec;
use crate::suite::{MemoryCase, Part, Section, Suite, SuiteCase, Variant};
use crate::workload::Workload;

/// Divisor of key counts under `--quick`.
pub(super) const QUICK_KEY_DIVISOR: u64 = 20;

/// Windows, warm-ups and rounds under `--quick`.
const QUICK_LENGTH: Duration = Duration::from_millis(300);
const QUICK_WARMUP: Duration = Duration::from_millis(100);
pub(super) const QUICK_ROUND_COUNT: usize = 3;

/// Number of lines shown of a failed server start.
const REASON_LINE_COUNT: usize = 3;

/// User options of a suite run.
#[derive(Clone, Debug)]
pub struct SuiteOptions {
    /// The sections to run; all if empty.
    pub sections: Vec<String>,
    /// Substrings of the names of the cases to run; all if empty.
    pub cases: Vec<String>,
    /// Servers instead of the suite's.
    pub servers: Vec<ServerSpec>,
    /// Whether to run at a small scale, as a smoke test.
    pub is_quick: bool,
    /// Number of rounds, instead of the suite's.
    pub round_count: Option<usize>,
    /// Length of the windows, instead of the suite's.
    pub length: Option<Duration>,
    /// Load threads.
    pub load_thread_count: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Start options of servers; the suite sets the number of threads and the backend.
    pub start: StartOptions,
    /// CPUs that load threads are bound to.
    pub client_cpus: CpuList,
    /// Whether a progress bar is drawn.
    pub shows_progress: bool,
}

/// Results of a suite.
#[derive(Debug, Default)]
pub struct SuiteOutcome {
    /// Measured servers.
    pub servers: Vec<ServerInfo>,
    /// Results of each section.
    pub sections: Vec<SectionOutcome>,
    /// Omitted measurements, with the reason.
    pub remarks: Vec<String>,
    /// Failed measurements.
    pub failures: Vec<String>,
}

/// Runs a suite.
pub fn run(suite: &Suite, options: &SuiteOptions) -> Result<SuiteOutcome, BenchError> {
    for name in &options.sections {
        if !suite.sections.iter().any(|section| section.name == name) {
            let names: Vec<&str> = suite.sections.iter().map(|section| section.name).collect();
            return Err(BenchError::usage(format!(
                "unknown section '{name}'; available: {}",
                names.join(", ")
            )));
        }
    }
    let mut runner =
        Runner { suite, options, servers: Vec::new(), length_ms: None, outcome: SuiteOutcome::default() };
    runner.choose_servers()?;
    for section in suite.sections {
        if !options.sections.is_empty() && !options.sections.iter().any(|name| name == section.name) {
            continue;
        }
        if options.shows_progress {
            eprintln!("{}: {}", section.name, section.title);
        }
        runner.length_ms = section.length_ms;
        if let Some(findings) = runner.section(section)? {
            let (title, about) = (section.title.to_owned(), section.about.to_owned());
            runner.outcome.sections.push(SectionOutcome { title, about, findings });
        }
    }
    Ok(runner.outcome)
}

/// Joins the first lines of a multi-line text, such as a server's log.
fn on_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(REASON_LINE_COUNT).collect::<Vec<&str>>().join("; ")
}

pub(super) struct Runner<'a> {
    pub(super) suite: &'a Suite,
    pub(super) options: &'a SuiteOptions,
    servers: Vec<ServerSpec>,
    /// Window length of the current section, if it has its own.
    length_ms: Option<u64>,
    pub(super) outcome: SuiteOutcome,
}

impl Runner<'_> {
    /// Selects the servers named by the user, or the installed servers of the suite.
    fn choose_servers(&mut self) -> Result<(), BenchError> {
        self.servers.clone_from(&self.options.servers);
        if self.servers.is_empty() {
            for name in self.suite.servers {
                let spec: ServerSpec = name.parse()?;
                if spec.is_available() {
                    self.servers.push(spec);
                } else {
                    let program = known::by_name(name).map_or(*name, |known| known.program);
                    self.remark(format!(
                        "{name} skipped: program '{program}' not found; set its path with --server"
                    ));
                }
            }
        }
        if self.servers.is_empty() {
            return Err(BenchError::usage("no server to measure; specify one with --server"));
        }
        Ok(())
    }

    fn section(&mut self, section: &Section) -> Result<Option<Findings>, BenchError> {
        match &section.part {
            Part::Compare { cases } => self.compare(cases).map(Some),
            Part::AgainstTheBetter { of, cases } => self.against_the_better(of, cases).map(Some),
            Part::Collections { cases } => self.collections(cases).map(Some),
            Part::Variants { server, variants, cases } => self.variants(server, variants, cases),
            Part::Memory { key_count, value_sizes } => self.memory(*key_count, value_sizes).map(Some),
            Part::Modes { servers, baseline, modes } => self.modes(servers, baseline, modes).map(Some),
            Part::Stalls { servers, read_rate, round_count, cases } => {
                self.stalls(servers, *read_rate, *round_count, cases).map(Some)
            }
            Part::Growth {
                key_count,
                round_count,
                read_rate,
                read_connection_count,
                write_connection_count,
                write_pipeline,
            } => {
                let load = LoadSettings {
                    connection_count: *write_connection_count,
                    pipeline: *write_pipeline,
                    key_count: self.scaled(*key_count),
                    ..self.load()?
                };
                let (read_rate, read_connection_count) = (*read_rate, *read_connection_count);
                let settings = GrowthSettings { load, read_rate, read_connection_count };
                self.growth(&settings, self.options.round_count.unwrap_or(*round_count)).map(Some)
            }
        }
    }

    fn compare(&mut self, cases: &[SuiteCase]) -> Result<Findings, BenchError> {
        let mut running_servers = RunningServers::default();
        for spec in &self.servers.clone() {
            let added = running_servers.add(spec, &self.start(1, "auto"));
            self.or_failure(spec, added)?;
        }
        let baselines = self.suite.baselines.iter().map(|&name| name.to_owned()).collect();
        self.rounds(running_servers, cases, baselines, false)
    }

    fn against_the_better(&mut self, of: &[&str], cases: &[SuiteCase]) -> Result<Findings, BenchError> {
        let mut running_servers = RunningServers::default();
        for spec in &self.with_data() {
            let added = running_servers.add(spec, &self.start(1, "auto"));
            self.or_failure(spec, added)?;
        }
        self.rounds(running_servers, cases, of.iter().map(|&name| name.to_owned()).collect(), true)
    }

    fn collections(&mut self, cases: &[MemoryCase]) -> Result<Findings, BenchError> {
        let cases: Vec<&MemoryCase> = cases.iter().filter(|case| self.is_selected(case.name)).collect();
        let servers = self.with_data();
        let mut progress = RunProgress::new(servers.len() * cases.len(), self.options.shows_progress);
        let mut outcomes = Vec::new();
        for case in cases {
            let load = LoadSettings { key_count: self.scaled(case.key_count), ..self.load()? };
            let plan = self.case(case.name, Workload::named(case.workload)?, load);
            for spec in &servers {
                let what = format!("memory · {} · {}", spec.name, case.name);
                let show = |live: Live| progress.watch(&what, live);
                let measured = measure_memory(spec, &self.start(1, "auto"), &plan, &show);
                if let Some(Some((outcome, info))) = self.or_failure(spec, measured)? {
                    outcomes.push(CollectionMemory::of(case.name, &plan, &outcome));
                    self.note(info);
                }
                progress.finish_run();
            }
        }
        Ok(Findings::Collections(outcomes))
    }

    fn variants(
        &mut self,
        server: &str,
        variants: &[Variant],
        cases: &[SuiteCase],
    ) -> Result<Option<Findings>, BenchError> {
        let Some(spec) = self.servers.iter().find(|spec| spec.name == server).cloned() else {
            self.remark(format!("no variants of {server}: it is not among the measured servers"));
            return Ok(None);
        };
        let mut running_servers = RunningServers::default();
        for variant in variants {
            let start = StartOptions {
                cpus: CpuList::default(),
                ..self.start(variant.thread_count, variant.io_backend)
            };
            let variant = ServerSpec { name: variant.name.to_owned(), ..spec.clone() };
            match running_servers.add(&variant, &start) {
                // A sandbox may forbid a backend. That is a property of the machine, not a failure.
                Err(error @ BenchError::Server { .. }) => {
                    self.remark(format!("skipped: {}", on_one_line(&error.to_string())));
                }
                added => added?,
            }
        }
        if running_servers.is_empty() {
            return Ok(None);
        }
        let with_one_thread = variants.iter().filter(|variant| variant.thread_count == 1);
        let baselines = with_one_thread.map(|variant| variant.name.to_owned()).collect();
        self.rounds(running_servers, cases, baselines, false).map(Some)
    }

    fn rounds(
        &mut self,
        mut running_servers: RunningServers,
        cases: &[SuiteCase],
        baselines: Vec<String>,
        against_the_better: bool,
    ) -> Result<Findings, BenchError> {
        let load = self.load()?;
        let cases = cases.iter().filter(|case| self.is_selected(case.name)).map(|case| {
            let load = LoadSettings { pipeline: case.pipeline, ..load.clone() };
            Ok(self.case(case.name, Workload::named(case.workload)?, load))
        });
        let cases = cases.collect::<Result<Vec<Case>, BenchError>>()?;
        let usual = if self.options.is_quick { QUICK_ROUND_COUNT } else { self.suite.load.round_count };
        let rounds = RoundSettings {
            round_count: self.options.round_count.unwrap_or(usual),
            baselines,
            against_the_better,
            may_flush: false,
            fills: true,
            shows_progress: self.options.shows_progress,
        };
        running_servers.infos().into_iter().for_each(|info| self.note(info));
        let outcomes = running_servers.compare(&cases, &rounds)?;
        self.outcome.failures.extend(running_servers.into_failures());
        Ok(Findings::Comparison(outcomes))
    }

    fn memory(&mut self, key_count: u64, value_sizes: &[&str]) -> Result<Findings, BenchError> {
        let mut progress =
            RunProgress::new(self.with_data().len() * value_sizes.len(), self.options.shows_progress);
        let mut outcomes = Vec::new();
        for value_size in value_sizes {
            let load = LoadSettings {
                key_count: self.scaled(key_count),
                value_size: value_size.parse()?,
                ..self.load()?
            };
            let case = Case { name: format!("values {value_size}"), workload: Workload::named("get")?, load };
            for spec in &self.with_data() {
                let what = format!("memory · {} · values {value_size}", spec.name);
                let show = |live: Live| progress.watch(&what, live);
                let measured = measure_memory(spec, &self.start(1, "auto"), &case, &show);
                match self.or_failure(spec, measured)? {
                    Some(Some((outcome, info))) => {
                        outcomes.push(outcome);
                        self.note(info);
                    }
                    Some(None) => self.remark(format!(
                        "no memory figures for {}: it was not started by the benchmark",
                        spec.name
                    )),
                    None => {}
                }
                progress.finish_run();
            }
        }
        Ok(Findings::Memory(outcomes))
    }

    fn growth(&mut self, settings: &GrowthSettings, round_count: usize) -> Result<Findings, BenchError> {
        let servers = self.with_data();
        let mut progress = RunProgress::new(servers.len() * round_count, self.options.shows_progress);
        let mut outcomes = Vec::new();
        for round in 0..round_count {
            for spec in &servers {
                let what = format!("growth · {} · {}/{round_count}", spec.name, round + 1);
                let show = |live: Live| progress.watch(&what, live);
                let measured = measure_growth(spec, &self.start(1, "auto"), settings, round, &show);
                if let Some((outcome, info)) = self.or_failure(spec, measured)? {
                    outcomes.push(outcome);
                    self.note(info);
                }
                progress.finish_run();
            }
        }
        outcomes.sort_by_key(|outcome| servers.iter().position(|spec| spec.name == outcome.server));
        Ok(Findings::Growth(outcomes))
    }

    pub(super) fn is_selected(&self, name: &str) -> bool {
        let cases = &self.options.cases;
        cases.is_empty() || cases.iter().any(|part| name.contains(part.as_str()))
    }

    /// Creates a case; the workload's own key counts are scaled too.
    fn case(&self, name: &str, mut workload: Workload, load: LoadSettings) -> Case {
        let own = &mut workload.own;
        if own.key_count == Some(1) {
            own.fill_times = self.scaled(own.fill_times).max(1);
            own.uses_up = own.uses_up.map(|count| self.scaled(count).max(1));
        } else {
            own.key_count = own.key_count.map(|count| self.scaled(count));
        }
        Case::new(name.to_owned(), workload, load)
    }

    pub(super) fn with_data(&self) -> Vec<ServerSpec> {
        let keeps_data = |spec: &&ServerSpec| !self.suite.dataless.contains(&spec.name.as_str());
        self.servers.iter().filter(keeps_data).cloned().collect()
    }

    pub(super) fn load(&self) -> Result<LoadSettings, BenchError> {
        let load = &self.suite.load;
        let (warmup, length) = if self.options.is_quick {
            (QUICK_WARMUP, QUICK_LENGTH)
        } else {
            let length_ms = self.length_ms.unwrap_or(load.length_ms);
            (Duration::from_millis(load.warmup_ms), Duration::from_millis(length_ms))
        };
        Ok(LoadSettings {
            thread_count: self.options.load_thread_count,
            connection_count: load.connection_count,
            pipeline: 1,
            key_count: self.scaled(load.key_count),
            key_size: load.key_size,
            value_size: load.value_size.parse()?,
            distribution: Distribution::Uniform,
            rate: None,
            warmup,
            length: self.options.length.unwrap_or(length),
            request_count: None,
            seed: self.options.seed,
            client_cpus: self.options.client_cpus.clone(),
        })
    }

    pub(super) fn start(&self, thread_count: usize, io_backend: &str) -> StartOptions {
        StartOptions { thread_count, io_backend: io_backend.to_owned(), ..self.options.start.clone() }
    }

    pub(super) fn scaled(&self, key_count: u64) -> u64 {
        if self.options.is_quick { key_count / QUICK_KEY_DIVISOR } else { key_count }
    }

    /// Records a server error as a failure, so that the other servers are still measured.
    pub(super) fn or_failure<T>(
        &mut self,
        spec: &ServerSpec,
        result: Result<T, BenchError>,
    ) -> Result<Option<T>, BenchError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ BenchError::Server { .. }) => {
                self.outcome.failures.push(error.to_string());
                if self.options.shows_progress {
                    eprintln!("{} skipped: {error}", spec.name);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Records a measured server.
    pub(super) fn note(&mut self, info: ServerInfo) {
        let mut known = self.outcome.servers.iter();
        if !known.any(|known| known.name == info.name && known.origin == info.origin) {
            self.outcome.servers.push(info);
        }
    }

    fn remark(&mut self, text: String) {
        if self.options.shows_progress {
            eprintln!("{text}");
        }
        self.outcome.remarks.push(text);
    }
}
