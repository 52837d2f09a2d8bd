//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::distribution::Distribution;
use crate::encryption::EncryptionOptions;
use crate::pinning::CpuList;
use crate::server::spec::ServerSpec;
use crate::template::PLACEHOLDERS;
use crate::values::ValueSize;

const EXAMPLES: &str = "\
Examples (BENCH stands for 'broadloom bench' or 'broadloom-bench'):
  BENCH                                     GET on 127.0.0.1:6379
  BENCH --server valkey --server redis --workload get,set --pipeline 16
                                            starts both servers and compares them in interleaved rounds
  BENCH --server 'mine=/opt/mine --port {port} --dir {dir} --threads {threads}' --server-threads 2
  BENCH --server valkey --rate 50000 --seconds 20
                                            open loop: latency from the intended send time
  BENCH --mix get=95,set=5 --distribution zipf:0.99 --value-size 16..256
  BENCH --command '3*HSET h:{key} f {value}' --command 'HGET h:{key} f'
  BENCH suite headline --markdown benchmarks.md --json benchmarks.json
  BENCH --server mine=127.0.0.1:7000 --server echo
                                            compares it with the echo server, which only replies +OK
  BENCH --tls --server broadloom --server valkey
                                            compares both over TLS, with a certificate made for the run
  BENCH --tls --cacert ca.crt --server mine=127.0.0.1:6380
  BENCH --server all=127.0.0.1:7000 --server rules=user:password@127.0.0.1:7000
                                            compares two users of one server
  BENCH --echo --port 7000                  runs only the echo server
  BENCH --list                              prints the named workloads, suites and known servers";

/// Measures the throughput, latency and CPU cost of Redis-compatible servers and compares them.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, args_conflicts_with_subcommands = true, max_term_width = 110)]
pub struct Cli {
    /// A subcommand, instead of a load described by options.
    #[command(subcommand)]
    pub subcommand: Option<SuiteCommand>,
    /// Load options.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The subcommands besides a load described by options.
#[derive(Debug, Subcommand)]
pub enum SuiteCommand {
    /// Runs a predefined set of measurements (see --list)
    Suite(SuiteArgs),
}

/// A load described by options.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Print the named workloads, suites and known servers, and exit
    #[arg(long)]
    pub list: bool,

    /// Run the echo server, which replies +OK to every request, with --server-threads threads and the
    /// --io-backend
    #[arg(long)]
    pub echo: bool,

    /// Loopback port of the echo server; 0 selects a free port and prints it
    #[arg(long, value_name = "PORT", default_value = "0", requires = "echo")]
    pub port: u16,

    /// Server to measure, repeatable: a known server ('valkey', 'valkey=/opt/valkey-server'), an address
    /// ('127.0.0.1:6379', 'name=127.0.0.1:6379', 'name=USER:PASSWORD@127.0.0.1:6379'), or a command ('name=CMD
    /// {port} {dir} {threads} {io}', with --tls also {cert} {key} {cacert}) that is started on a free port in a
    /// temporary directory and killed at the end [default: 127.0.0.1:6379]
    #[arg(long, value_name = "SPEC")]
    pub server: Vec<ServerSpec>,

    /// Server that the others are compared with, repeatable [default: the last server]
    #[arg(long, value_name = "NAME")]
    pub baseline: Vec<String>,

    /// What is measured.
    #[command(flatten)]
    pub work: WorkArgs,

    /// Outstanding requests per connection; each value of a list is a separate case
    #[arg(long, short = 'P', value_name = "N", value_delimiter = ',', default_value = "1", value_parser = at_least_one)]
    pub pipeline: Vec<u64>,

    /// Number of connections over all load threads
    #[arg(long, short, value_name = "N", default_value = "50", value_parser = at_least_one)]
    pub connections: u64,

    /// Requests per second (open loop); without it, each request waits for the previous reply (closed loop)
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub rate: Option<f64>,

    /// Keys and values.
    #[command(flatten)]
    pub keyspace: KeyspaceArgs,

    /// When and how often it is measured.
    #[command(flatten)]
    pub windows: WindowArgs,

    /// Threads of started servers; replaces {threads} in their commands
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one)]
    pub server_threads: u64,

    /// I/O backend of started servers; replaces {io} in their commands
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    pub io_backend: String,

    /// How connections log in.
    #[command(flatten)]
    pub login: LoginArgs,

    /// Options of TLS.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Options common to loads and suites.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What is measured.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Named workloads; each is a separate case
    #[arg(long, short, value_name = "NAMES", value_delimiter = ',', default_value = "get")]
    pub workload: Vec<String>,

    /// One case that mixes named workloads by weight, such as 'get=95,set=5'
    #[arg(long, value_name = "MIX", conflicts_with_all = ["workload", "command"])]
    pub mix: Option<String>,

    /// One case of custom commands, repeatable; 'WEIGHT*COMMAND' sets a relative frequency
    #[arg(long, value_name = "COMMAND", conflicts_with = "workload", long_help = command_help())]
    pub command: Vec<String>,

    /// Command that writes each key once before the custom commands, such as 'HSET h:{key} f {value}'
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub fill_command: Option<String>,

    /// Do not write the keys before the measurement
    #[arg(long)]
    pub no_fill: bool,

    /// Allow workloads that require an empty store to run FLUSHALL on servers not started by the benchmark
    #[arg(long)]
    pub flush: bool,
}

/// Keys and values.
#[derive(Debug, Args)]
pub struct KeyspaceArgs {
    /// Number of distinct keys
    #[arg(long, short, value_name = "N", default_value = "1000000")]
    pub keys: u64,

    /// Bytes per key
    #[arg(long, value_name = "BYTES", default_value = "16")]
    pub key_size: usize,

    /// Bytes per value: a number such as '64', or a range such as '16..256'
    #[arg(long, short = 'd', value_name = "BYTES", default_value = "64")]
    pub value_size: ValueSize,

    /// Key distribution: uniform, zipf[:EXPONENT], hot[:SHARE] or sequential
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    pub distribution: Distribution,
}

/// When and how often it is measured.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Length of each measured window
    #[arg(long, short, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub seconds: Duration,

    /// Requests in each window, instead of a duration
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "seconds")]
    pub requests: Option<u64>,

    /// Duration of the load before each window
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub warmup: Duration,

    /// Rounds; each round measures every server once, starting with a different server
    #[arg(long, short, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub rounds: u64,
}

/// How connections log in.
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// User name for AUTH
    #[arg(long, value_name = "NAME", requires = "password")]
    pub user: Option<String>,

    /// Password for AUTH
    #[arg(long, visible_alias = "pass", value_name = "TEXT", env = "REDISCLI_AUTH", hide_env_values = true)]
    pub password: Option<String>,

    /// Database number for SELECT
    #[arg(long, value_name = "N", default_value = "0")]
    pub db: u32,
}

/// Options of TLS.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Use TLS on all connections. Known servers that the benchmark starts get a certificate made for the run
    #[arg(long = "tls", conflicts_with = "echo")]
    pub is_on: bool,

    /// Certificates of the authorities that the servers' certificates must come from (PEM). Names in the servers'
    /// certificates are not checked
    #[arg(long, value_name = "FILE", requires = "is_on")]
    pub cacert: Option<PathBuf>,

    /// Accept any certificate of a server
    #[arg(long, requires = "is_on", conflicts_with = "cacert")]
    pub insecure: bool,

    /// Certificate of the clients (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["is_on", "key"])]
    pub cert: Option<PathBuf>,

    /// Key of the clients' certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["is_on", "cert"])]
    pub key: Option<PathBuf>,
}

impl TlsArgs {
    /// Returns the choices for the encryption, if it is on.
    #[must_use]
    pub fn options(&self, starts_servers: bool) -> Option<EncryptionOptions> {
        self.is_on.then(|| EncryptionOptions {
            authorities: self.cacert.clone(),
            own: self.cert.clone().zip(self.key.clone()),
            is_insecure: self.insecure,
            starts_servers,
        })
    }
}

/// Options of a suite run.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// Name of the suite
    #[arg(value_name = "NAME", default_value = "headline")]
    pub name: String,

    /// Run only this section, repeatable
    #[arg(long, value_name = "NAME")]
    pub section: Vec<String>,

    /// Run only the cases whose name contains this text, repeatable
    #[arg(long, value_name = "TEXT")]
    pub case: Vec<String>,

    /// Measure these servers instead of the suite's own, in the syntax of the load option --server;
    /// repeatable
    #[arg(long, value_name = "SPEC")]
    pub server: Vec<ServerSpec>,

    /// Run at a small scale: 1/20 of the keys, short windows, 3 rounds. A smoke test; do not quote its
    /// figures
    #[arg(long)]
    pub quick: bool,

    /// Number of rounds, instead of the suite's
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    pub rounds: Option<u64>,

    /// Length of the measured windows, instead of the suite's
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Options common to loads and suites.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options common to loads and suites.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Number of load threads
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = at_least_one)]
    pub threads: u64,

    /// CPUs that started servers are bound to, such as '0' or '0,2-3'
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<CpuList>,

    /// CPUs that load threads are bound to
    #[arg(long, value_name = "LIST")]
    pub client_cpus: Option<CpuList>,

    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Write all results, including every sample, as JSON ('-' for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write one line per sample as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Disable the progress bar (also disabled if stderr is not a terminal)
    #[arg(long)]
    pub no_progress: bool,

    /// Exit with status 0 even if servers sent error replies
    #[arg(long)]
    pub allow_errors: bool,
}

fn command_help() -> String {
    format!(
        "One case of custom commands, repeatable; 'WEIGHT*COMMAND' sets a relative frequency. Words are split by shell \
         rules. Placeholders:\n\n{PLACEHOLDERS}"
    )
}

fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|&count| count >= 1)
        .ok_or_else(|| "expected an integer of at least 1".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1e6).contains(number));
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0 to 1000000".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn loads_and_suites_parse() {
        let cli =
            Cli::try_parse_from(["bench", "--pipeline", "1,16", "--server", "valkey", "-n", "1000"]).unwrap();
        assert_eq!(cli.run.pipeline, [1, 16]);
        assert_eq!(cli.run.windows.requests, Some(1_000));
        let cli =
            Cli::try_parse_from(["bench", "suite", "headline", "--quick", "--section", "growth"]).unwrap();
        let Some(SuiteCommand::Suite(suite)) = cli.subcommand else { panic!("{cli:?}") };
        assert!(suite.quick && suite.section == ["growth"]);
        let cli =
            Cli::try_parse_from(["bench", "--user", "u", "--pass", "p", "--tls", "--insecure"]).unwrap();
        assert_eq!(cli.run.login.password.as_deref(), Some("p"));
        assert!(cli.run.tls.options(false).is_some_and(|options| options.is_insecure));
        for wrong in
            ["--cacert=x", "--insecure", "--tls --cert=x", "--tls --key=x", "--tls --insecure --cacert=x"]
        {
            let words = ["bench"].into_iter().chain(wrong.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
        }
        for wrong in ["--rate=0", "--pipeline=0", "--value-size=x", "--fill-command=x", "--server=x"] {
            assert!(Cli::try_parse_from(["bench", wrong]).is_err(), "{wrong}");
        }
    }
}
