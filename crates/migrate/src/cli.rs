//! The command line.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, Parser};

use crate::address::{HostPort, ServerUrl};

const EXAMPLES: &str = "\
Examples:
  broadloom migrate --from redis://10.0.0.5:6379
                        makes the server on 127.0.0.1:6379 a replica of 10.0.0.5, waits, compares
  broadloom migrate --from redis://10.0.0.5:6379 --switch
                        the same, and then makes it the primary; the source refuses writes from then on
  broadloom migrate --from redis://10.0.0.5:6379 --to-as 10.0.0.6:6379 --switch --reverse
                        the same, and the source becomes a replica of it, which it reaches at 10.0.0.6: the way back
                        stays open
  broadloom migrate --from redis://10.0.0.5:6379 --undo
                        undoes the last step: before the switch and after it
  broadloom migrate --from rediss://app:secret@cache.example:6380 --cacert ca.pem --by-scan --switch
                        for services that refuse replication; weaker, see docs/migrate.md

Exit status: 0 if the requested step succeeded (without --switch and --undo: if it is safe to switch), 1 if it did
not, 2 for an invalid command line, 130 after Ctrl-C. The last lines tell the state that both servers are left in.";

/// Minimum time to wait for a reply, whatever `--timeout` is: a large key takes seconds.
const REPLY_TIME_MIN: Duration = Duration::from_secs(5);

/// Moves the data of a running Redis, Valkey or KeyDB to another server while its clients go on.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 110)]
#[command(group(ArgGroup::new("step").args(["switch", "undo", "follow"])))]
pub struct Cli {
    /// Server to move from: redis://[user[:password]@]host[:port], or rediss:// for TLS. Special characters of the
    /// user and password are written as %XX
    #[arg(long, value_name = "URL", value_parser = UrlParser)]
    pub from: ServerUrl,

    /// Server to move to
    #[arg(long, value_name = "URL", value_parser = UrlParser, default_value = "redis://127.0.0.1:6379")]
    pub to: ServerUrl,

    /// Password of the source, instead of one in its URL
    #[arg(long, value_name = "TEXT", env = "BROADLOOM_FROM_PASSWORD", hide_env_values = true)]
    pub from_password: Option<String>,

    /// Password of the target, instead of one in its URL
    #[arg(long, value_name = "TEXT", env = "BROADLOOM_TO_PASSWORD", hide_env_values = true)]
    pub to_password: Option<String>,

    /// Switch: pause writes to the source until the target has everything, then make the target the primary
    #[arg(long)]
    pub switch: bool,

    /// Undo the last step. Before a switch: detach the target. After one with --reverse: make the source the
    /// primary again. After one without: let the source accept writes again (with --discard)
    #[arg(long)]
    pub undo: bool,

    /// Copy until Ctrl-C, and show the lag
    #[arg(long)]
    pub follow: bool,

    /// After the switch, make the source a replica of the target
    #[arg(long, requires = "switch", conflicts_with = "by_scan")]
    pub reverse: bool,

    /// Let the former primary accept writes after the switch, though the new one does not get them
    #[arg(long, conflicts_with = "follow")]
    pub no_fence: bool,

    /// Accept that writes to the target since the switch are not in the source; lift the fence of another move as well
    #[arg(long, requires = "undo")]
    pub discard: bool,

    /// Allow a target that has keys: they are deleted
    #[arg(long, conflicts_with = "undo")]
    pub overwrite: bool,

    /// Copy by SCAN, DUMP and RESTORE, for sources that refuse replication
    #[arg(long, conflicts_with = "undo")]
    pub by_scan: bool,

    /// How changes during a copy are noticed.
    #[command(flatten)]
    pub events: EventArgs,

    /// Address of the source as the target reaches it, if it differs from that in --from: always for a source on
    /// 127.0.0.1 and a target elsewhere. The tool looks for another server there, with the login of the source
    #[arg(long, value_name = "HOST:PORT")]
    pub from_as: Option<HostPort>,

    /// Address of the target as the source reaches it (--reverse), if it differs from that in --to, as with --from-as
    #[arg(long, value_name = "HOST:PORT")]
    pub to_as: Option<HostPort>,

    /// Keys that are compared value by value
    #[arg(long, value_name = "N", default_value = "1000")]
    pub sample: u64,

    /// Time without progress after which the move is given up: of a full synchronisation, of a lag, and of a server that
    /// sends nothing while a reply is awaited (for replies at least 5 seconds, because a large key takes that long)
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,

    /// Maximum time for which a switch holds writes back until the former primary is fenced; the switch is given up if
    /// it takes longer, also if a server does not reply
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = pause)]
    pub pause_max: Duration,

    /// Certificates of the authorities that the servers' certificates must come from (PEM), for rediss://. Names in
    /// the certificates are not checked
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// Certificate of this tool (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// Key of this tool's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// File that keeps the servers' earlier settings for --undo [default: in the user's state directory, named by
    /// both servers]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Disable the progress bar (also disabled if stderr is not a terminal)
    #[arg(long)]
    pub no_progress: bool,
}

/// How changes during a copy are noticed.
#[derive(Clone, Copy, Debug, Args)]
pub struct EventArgs {
    /// Copy without changes that are made meanwhile
    #[arg(long = "no-events", requires = "by_scan", conflicts_with_all = ["assume_events", "switch", "follow"])]
    pub are_off: bool,

    /// The source publishes keyspace events of all kinds, though its settings can't be read
    #[arg(long = "assume-events", requires = "by_scan")]
    pub assume_events: bool,
}

impl Cli {
    /// Returns the time without any byte of a reply after which a server counts as unreachable.
    pub fn reply_time_max(&self) -> Duration {
        self.timeout.max(REPLY_TIME_MIN)
    }

    /// Returns the command that undoes this move, for a shell. It has no passwords.
    pub fn undo_command(&self) -> String {
        let mut words = format!("broadloom migrate --from {} --to {} --undo", self.from, self.to);
        for (option, address) in [("from", &self.from_as), ("to", &self.to_as)] {
            if let Some(address) = address {
                words.push_str(&format!(" --{option}-as {address}"));
            }
        }
        let files =
            [("cacert", &self.cacert), ("cert", &self.cert), ("key", &self.key), ("state", &self.state)];
        for (option, path) in files {
            if let Some(path) = path {
                words.push_str(&format!(" --{option} {}", quoted(&path.display().to_string())));
            }
        }
        words
    }

    /// Returns the address of the source as the target reaches it.
    pub fn source_address(&self) -> &HostPort {
        self.from_as.as_ref().unwrap_or(&self.from.address)
    }

    /// Returns the address of the target as the source reaches it.
    pub fn target_address(&self) -> &HostPort {
        self.to_as.as_ref().unwrap_or(&self.to.address)
    }
}

/// Quotes a word for a shell if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:@%+=,".contains(char);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Parses a URL without its text in the error, because that may contain a password.
#[derive(Clone)]
struct UrlParser;

impl TypedValueParser for UrlParser {
    type Value = ServerUrl;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<ServerUrl, clap::Error> {
        let text = value.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
        text.and_then(str::parse).map_err(|reason| {
            let name = argument.map(ToString::to_string).unwrap_or_default();
            let text = format!("invalid value for '{name}': {reason}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.1..=1e6).contains(number));
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.1 to 1000000".to_owned())
}

fn pause(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|number: &f64| (1.0..=600.0).contains(number));
    number.map(Duration::from_secs_f64).ok_or_else(|| "expected a number of seconds from 1 to 600".to_owned())
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
    fn a_refused_url_is_not_printed() {
        let error = Cli::try_parse_from(["migrate", "--from=redis://u:hush@h:x"]).expect_err("no port");
        let text = error.to_string();
        assert!(text.contains("'--from <URL>'") && text.contains("'x' is not a port"), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }

    #[test]
    fn the_undo_command_has_what_it_needs() {
        let words = ["migrate", "--from=rediss://a%40b:hush@h", "--cacert=/ca.pem", "--cert=it's", "--key=k"];
        let cli = Cli::try_parse_from(words).expect("valid");
        assert_eq!(
            cli.undo_command(),
            "broadloom migrate --from rediss://a%40b@h:6379 --to redis://127.0.0.1:6379 --undo --cacert /ca.pem --cert \
             'it'\\''s' --key k"
        );
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let parse = |options: &str| {
            let words = ["migrate", "--from=redis://a"].into_iter().chain(options.split_whitespace());
            Cli::try_parse_from(words)
        };
        for right in
            ["", "--switch --reverse", "--undo --discard", "--by-scan --no-events", "--follow --by-scan"]
        {
            assert!(parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "--switch --undo",
            "--switch --follow",
            "--reverse",
            "--discard",
            "--no-events",
            "--by-scan --switch --reverse",
            "--by-scan --switch --no-events",
            "--by-scan --undo",
            "--undo --overwrite",
            "--cert=x",
            "--pause-max=0",
            "--timeout=x",
            "--from-as=:1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(Cli::try_parse_from(["migrate"]).is_err(), "--from is required");
    }
}
