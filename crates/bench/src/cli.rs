//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::distribution::Distribution;
use crate::pinning::CpuList;
use crate::server::spec::ServerSpec;
use crate::template::PLACEHOLDERS;
use crate::values::ValueSize;

const EXAMPLES: &str = "\
Examples (write BENCH for the way you call it: 'broadloom bench' or 'broadloom-bench'):
  BENCH                                     GET on 127.0.0.1:6379
  BENCH --server valkey --server redis --workload get,set --pipeline 16
                                            starts both, compares them in interleaved rounds
  BENCH --server 'mine=/opt/mine --port {port} --dir {dir} --threads {threads}' --server-threads 2
  BENCH --server valkey --rate 50000 --seconds 20
                                            open loop: latency from the intended send time
  BENCH --mix get=95,set=5 --distribution zipf:0.99 --value-size 16..256
  BENCH --command '3*HSET h:{key} f {value}' --command 'HGET h:{key} f'
  BENCH suite headline --markdown benchmarks.md --json benchmarks.json
  BENCH --server mine=127.0.0.1:7000 --server echo
                                            how far it is from the limit, a server that only answers +OK
  BENCH --echo --port 7000                  that limit server by itself
  BENCH --list                              the named workloads, suites and known servers";

/// Puts load on Redis-compatible servers and compares them.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, args_conflicts_with_subcommands = true, max_term_width = 110)]
pub struct Cli {
    /// A suite, instead of a load described by options.
    #[command(subcommand)]
    pub what: Option<What>,
    /// The load.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What there is besides a load described by options.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Runs a whole set of measurements that is declared by name (see --list)
    Suite(SuiteArgs),
}

/// A load described by options.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// List the named workloads, suites and known servers, and end
    #[arg(long)]
    pub list: bool,

    /// Be the limit server, which answers +OK to every request on --server-threads threads and the --io-backend
    #[arg(long)]
    pub echo: bool,

    /// Loopback port of the limit server; 0 takes a free one and prints it
    #[arg(long, value_name = "PORT", default_value = "0", requires = "echo")]
    pub port: u16,

    /// A server, may be repeated: a known one ('valkey', 'valkey=/opt/valkey-server'), an address
    /// ('127.0.0.1:6379', 'name=127.0.0.1:6379'), or a command ('name=CMD {port} {dir} {threads} {io}') that is
    /// started on a free port in a temporary directory and killed at the end [default: 127.0.0.1:6379]
    #[arg(long, value_name = "SPEC")]
    pub server: Vec<ServerSpec>,

    /// A server that the others are shown in relation to, may be repeated [default: the last server]
    #[arg(long, value_name = "NAME")]
    pub baseline: Vec<String>,

    /// Named workloads, each a case of its own
    #[arg(long, short, value_name = "NAMES", value_delimiter = ',', default_value = "get")]
    pub workload: Vec<String>,

    /// One case that mixes named workloads by weight, such as 'get=95,set=5'
    #[arg(long, value_name = "MIX", conflicts_with_all = ["workload", "command"])]
    pub mix: Option<String>,

    /// One case of free commands, may be repeated; 'WEIGHT*COMMAND' gives a relative frequency
    #[arg(long, value_name = "COMMAND", conflicts_with = "workload", long_help = command_help())]
    pub command: Vec<String>,

    /// Command that writes each key once before the free commands, such as 'HSET h:{key} f {value}'
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub fill_command: Option<String>,

    /// Do not write the keys beforehand
    #[arg(long)]
    pub no_fill: bool,

    /// Let workloads that begin with an empty store run FLUSHALL on servers that were not started here
    #[arg(long)]
    pub flush: bool,

    /// Requests under way on each connection (several: a case for each)
    #[arg(long, short = 'P', value_name = "N", value_delimiter = ',', default_value = "1", value_parser = at_least_one)]
    pub pipeline: Vec<u64>,

    /// Connections over all load threads
    #[arg(long, short, value_name = "N", default_value = "50", value_parser = at_least_one)]
    pub connections: u64,

    /// Requests a second in the open loop; without it, the next request waits for the reply (closed loop)
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub rate: Option<f64>,

    /// Distinct keys
    #[arg(long, short, value_name = "N", default_value = "1000000")]
    pub keys: u64,

    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value = "16")]
    pub key_size: usize,

    /// Bytes of a value: '64', or a range to draw from, '16..256'
    #[arg(long, short = 'd', value_name = "BYTES", default_value = "64")]
    pub value_size: ValueSize,

    /// Which keys: uniform, zipf[:EXPONENT], hot[:SHARE], sequential
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    pub distribution: Distribution,

    /// Length of each measured window
    #[arg(long, short, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub seconds: Duration,

    /// Requests in each window, instead of a length
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "seconds")]
    pub requests: Option<u64>,

    /// Load before each window
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub warmup: Duration,

    /// Rounds: in each one, every server is measured once, and the next round begins with another one
    #[arg(long, short, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub rounds: u64,

    /// Threads of the servers that are started: what {threads} of their commands stands for
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one)]
    pub server_threads: u64,

    /// I/O of the servers that are started: what {io} of their commands stands for
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    pub io_backend: String,

    /// User for AUTH
    #[arg(long, value_name = "NAME", requires = "password")]
    pub user: Option<String>,

    /// Password for AUTH
    #[arg(long, value_name = "TEXT", env = "REDISCLI_AUTH", hide_env_values = true)]
    pub password: Option<String>,

    /// Database to SELECT
    #[arg(long, value_name = "N", default_value = "0")]
    pub db: u32,

    /// Where and how it runs.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A suite and what may be changed about it.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// The suite
    #[arg(value_name = "NAME", default_value = "headline")]
    pub name: String,

    /// Run this section only, may be repeated
    #[arg(long, value_name = "NAME")]
    pub section: Vec<String>,

    /// Run only the cases whose name contains this, may be repeated
    #[arg(long, value_name = "TEXT")]
    pub case: Vec<String>,

    /// Measure these servers instead of the suite's own, as in the load's --server; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub server: Vec<ServerSpec>,

    /// A twentieth of the keys, short windows and 3 rounds: to see that everything works, not to quote
    #[arg(long)]
    pub quick: bool,

    /// Another number of rounds
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    pub rounds: Option<u64>,

    /// Another length of the measured windows
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Where and how it runs.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What a load and a suite have in common.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Load threads
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = at_least_one)]
    pub threads: u64,

    /// CPUs that started servers are bound to, such as '0' or '0,2-3'
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<CpuList>,

    /// CPUs that load threads are bound to
    #[arg(long, value_name = "LIST")]
    pub client_cpus: Option<CpuList>,

    /// Start of the random numbers
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Write everything, each sample included, as JSON ('-' for the standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write one line for each sample as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Draw no progress bar (there is none if stderr is no terminal)
    #[arg(long)]
    pub no_progress: bool,

    /// End with success even if there were error replies
    #[arg(long)]
    pub allow_errors: bool,
}

fn command_help() -> String {
    format!(
        "One case of free commands, may be repeated; 'WEIGHT*COMMAND' gives a relative frequency. Words are split as a \
         shell does. In them:\n\n{PLACEHOLDERS}"
    )
}

fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&count| count >= 1).ok_or_else(|| "a whole number from 1 on".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "a number above 0".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1e6).contains(number));
    number.map(Duration::from_secs_f64).ok_or_else(|| "a number of seconds".to_owned())
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
        assert_eq!(cli.run.requests, Some(1_000));
        let cli =
            Cli::try_parse_from(["bench", "suite", "headline", "--quick", "--section", "growth"]).unwrap();
        let Some(What::Suite(suite)) = cli.what else { panic!("{cli:?}") };
        assert!(suite.quick && suite.section == ["growth"]);
        for wrong in ["--rate=0", "--pipeline=0", "--value-size=x", "--fill-command=x", "--server=x"] {
            assert!(Cli::try_parse_from(["bench", wrong]).is_err(), "{wrong}");
        }
    }
}
