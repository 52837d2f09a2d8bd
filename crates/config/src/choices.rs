//! The directives' choices: one enum for each, with its words in configuration files.
//!
//! A variant may have several words; the first one is printed.

use crate::rule::{Reason, Rule};
use crate::setting::{Before, Setting};

macro_rules! choices {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident { $( $(#[doc = $variant_doc:literal])+ $variant:ident = $($word:literal)|+ ),+ $(,)? }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[doc = $variant_doc])+ $variant ),+ }

        impl $name {
            const WORDS: &'static [(&'static str, Self)] = &[$( $( ($word, Self::$variant) ),+ ),+];

            /// The word in configuration files.
            #[must_use]
            pub fn word(self) -> &'static str {
                word_of(Self::WORDS, self)
            }
        }

        impl Setting for $name {
            fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
                parse_word(Self::WORDS, args[0])
            }

            fn print(&self, _: &Rule) -> Vec<u8> {
                self.word().into()
            }

            fn describe(_: &Rule) -> String {
                format!("one of {}", list_words(Self::WORDS))
            }
        }
    )+};
}

choices! {
    /// The log level.
    LogLevel {
        /// Everything, for developers.
        Debug = "debug",
        /// Minor events as well.
        Verbose = "verbose",
        /// Information for operators.
        Notice = "notice",
        /// Only conditions that need attention.
        Warning = "warning",
        /// Nothing.
        Nothing = "nothing",
    }

    /// The version of RDB files that are written.
    RdbVersion {
        /// The oldest version that can hold the data: 11, or 80 if a hash has field expiries.
        Auto = "auto",
        /// Redis from 5.0 on, and Valkey.
        V9 = "9",
        /// Redis from 7.2 on, and Valkey.
        V11 = "11",
        /// Redis from 7.4 on. Holds field expiries.
        V12 = "12",
        /// Valkey from 9.0 on. Holds field expiries.
        V80 = "80",
    }

    /// How `BGSAVE` saves by default.
    SaveMethod {
        /// By a child process.
        Fork = "fork",
        /// By a thread.
        Forkless = "forkless",
    }

    /// The keys that are evicted when `maxmemory` is reached.
    MaxmemoryPolicy {
        /// Of the keys with a TTL, the least recently used.
        VolatileLru = "volatile-lru",
        /// Of the keys with a TTL, the least recently modified.
        VolatileLrm = "volatile-lrm",
        /// Of the keys with a TTL, the least frequently used.
        VolatileLfu = "volatile-lfu",
        /// Of the keys with a TTL, a random one.
        VolatileRandom = "volatile-random",
        /// Of the keys with a TTL, the one that expires first.
        VolatileTtl = "volatile-ttl",
        /// Of all keys, the least recently used.
        AllkeysLru = "allkeys-lru",
        /// Of all keys, the least recently modified.
        AllkeysLrm = "allkeys-lrm",
        /// Of all keys, the least frequently used.
        AllkeysLfu = "allkeys-lfu",
        /// Of all keys, a random one.
        AllkeysRandom = "allkeys-random",
        /// None: writes that need memory are rejected.
        Noeviction = "noeviction",
    }

    /// The system calls for network I/O.
    IoBackend {
        /// io_uring where the kernel allows it, otherwise epoll.
        Auto = "auto",
        /// io_uring; the server does not start without it.
        IoUring = "io_uring" | "io-uring",
        /// epoll.
        Epoll = "epoll",
    }

    /// The connections that may perform a dangerous action.
    ProtectedAction {
        /// None.
        No = "no",
        /// Every connection.
        Yes = "yes",
        /// Connections from the same machine.
        Local = "local",
    }

    /// The channels that a new ACL user may use.
    AclPubsubDefault {
        /// All.
        AllChannels = "allchannels",
        /// None.
        ResetChannels = "resetchannels",
    }

    /// The supervisor of the process.
    Supervised {
        /// Upstart, notified by a stop signal.
        Upstart = "upstart",
        /// systemd, notified through its notification socket.
        Systemd = "systemd",
        /// Detected from the environment.
        Auto = "auto",
        /// None.
        No = "no",
    }

    /// The syslog facility.
    SyslogFacility {
        /// `LOG_USER`.
        User = "user",
        /// `LOG_LOCAL0`.
        Local0 = "local0",
        /// `LOG_LOCAL1`.
        Local1 = "local1",
        /// `LOG_LOCAL2`.
        Local2 = "local2",
        /// `LOG_LOCAL3`.
        Local3 = "local3",
        /// `LOG_LOCAL4`.
        Local4 = "local4",
        /// `LOG_LOCAL5`.
        Local5 = "local5",
        /// `LOG_LOCAL6`.
        Local6 = "local6",
        /// `LOG_LOCAL7`.
        Local7 = "local7",
    }

    /// When the append-only file is synchronised to disk.
    Appendfsync {
        /// Once a second.
        Everysec = "everysec",
        /// Before each reply.
        Always = "always",
        /// At the kernel's discretion.
        No = "no",
    }

    /// How a replica loads a snapshot that its primary sends without a file.
    ReplDisklessLoad {
        /// From a file.
        Disabled = "disabled",
        /// Without a file if it has no keys.
        OnEmptyDb = "on-empty-db",
        /// Into a second keyspace, which then replaces the first.
        SwapDb = "swapdb",
        /// After flushing its keys.
        FlushBeforeLoad = "flush-before-load" | "flushdb",
    }

    /// Whether TLS clients need a certificate.
    TlsAuthClients {
        /// No certificate is needed.
        No = "no",
        /// A valid certificate is needed.
        Yes = "yes",
        /// A valid certificate or none.
        Optional = "optional",
    }

    /// The field of a TLS client's certificate that names its ACL user.
    TlsAuthClientsUser {
        /// The common name.
        CommonName = "CN",
        /// The subject's URI.
        Uri = "URI",
        /// None.
        Off = "off",
    }

    /// How the process's out-of-memory score is set.
    OomScoreAdj {
        /// Not at all.
        No = "no",
        /// Relative to the score at start.
        Relative = "yes" | "relative",
        /// To the given values.
        Absolute = "absolute",
    }

    /// Whether the contents of a `RESTORE` payload are fully verified.
    SanitizeDumpPayload {
        /// Never.
        No = "no",
        /// Always.
        Yes = "yes",
        /// For clients, but not for the primary.
        Clients = "clients",
    }

    /// The name of a node for cluster clients.
    ClusterPreferredEndpointType {
        /// Its address.
        Ip = "ip",
        /// Its host name.
        Hostname = "hostname",
        /// None: clients keep the endpoint that they used.
        UnknownEndpoint = "unknown-endpoint",
    }

    /// When `nodes.conf` is saved.
    ClusterConfigSaveBehavior {
        /// At each change; a failure is fatal.
        Sync = "sync",
        /// At each change; failures are tolerated.
        BestEffort = "best-effort",
    }

    /// The reaction to a failed replicated command.
    PropagationErrorBehavior {
        /// Ignore it.
        Ignore = "ignore",
        /// End the process.
        Panic = "panic",
        /// End the process if it is a replica.
        PanicOnReplicas = "panic-on-replicas",
    }

    /// The format of log lines.
    LogFormat {
        /// Redis's.
        Legacy = "legacy",
        /// `key=value` pairs.
        Logfmt = "logfmt",
        /// One JSON object for each line.
        Json = "json",
    }

    /// The format of times in the log.
    LogTimestampFormat {
        /// Redis's.
        Legacy = "legacy",
        /// ISO 8601.
        Iso8601 = "iso8601",
        /// Milliseconds since 1970.
        Milliseconds = "milliseconds",
    }

    /// How strictly the version of an RDB file is checked.
    RdbVersionCheck {
        /// A newer version is refused.
        Strict = "strict",
        /// A newer version is loaded if possible.
        Relaxed = "relaxed",
    }
}

pub(crate) fn word_of<T: Copy + PartialEq>(words: &'static [(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, choice)| *choice == value).map_or("unknown", |(word, _)| word)
}

pub(crate) fn parse_word<T: Copy>(words: &'static [(&'static str, T)], arg: &[u8]) -> Result<T, Reason> {
    words
        .iter()
        .find(|(word, _)| arg.eq_ignore_ascii_case(word.as_bytes()))
        .map(|(_, choice)| *choice)
        .ok_or_else(|| unknown_word(words))
}

pub(crate) fn unknown_word<T>(words: &'static [(&'static str, T)]) -> Reason {
    format!("argument(s) must be one of the following: {}", list_words(words)).into()
}

impl MaxmemoryPolicy {
    /// Whether the least recently modified keys are evicted.
    #[must_use]
    pub fn is_lrm(self) -> bool {
        matches!(self, Self::AllkeysLrm | Self::VolatileLrm)
    }
}

pub(crate) fn list_words<T>(words: &'static [(&'static str, T)]) -> String {
    words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
}
