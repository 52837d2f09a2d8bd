//! The directives' choices: one enum each, with the words that files have for it.
//!
//! A variant may have several words; the first is the one that is printed.

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

            /// The word for it in configuration files.
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
    /// How much is logged.
    LogLevel {
        /// Everything, for developers.
        Debug = "debug",
        /// Events of little interest as well.
        Verbose = "verbose",
        /// What an operator wants to see.
        Notice = "notice",
        /// Only what needs attention.
        Warning = "warning",
        /// Nothing.
        Nothing = "nothing",
    }

    /// What is evicted when `maxmemory` is reached.
    MaxmemoryPolicy {
        /// Of the keys with a TTL, the least recently used.
        VolatileLru = "volatile-lru",
        /// Of the keys with a TTL, the least frequently used.
        VolatileLfu = "volatile-lfu",
        /// Of the keys with a TTL, any.
        VolatileRandom = "volatile-random",
        /// Of the keys with a TTL, the one that expires first.
        VolatileTtl = "volatile-ttl",
        /// Of all keys, the least recently used.
        AllkeysLru = "allkeys-lru",
        /// Of all keys, the least frequently used.
        AllkeysLfu = "allkeys-lfu",
        /// Of all keys, any.
        AllkeysRandom = "allkeys-random",
        /// Nothing: writes are refused instead.
        Noeviction = "noeviction",
    }

    /// Which system calls carry the network.
    IoBackend {
        /// io_uring where the kernel allows it, epoll elsewhere.
        Auto = "auto",
        /// io_uring; the server doesn't start without it.
        IoUring = "io_uring" | "io-uring",
        /// epoll.
        Epoll = "epoll",
    }

    /// Who may use what is dangerous.
    ProtectedAction {
        /// Nobody.
        No = "no",
        /// Every connection.
        Yes = "yes",
        /// Connections from the machine itself.
        Local = "local",
    }

    /// Which channels a new ACL user may use.
    AclPubsubDefault {
        /// All.
        AllChannels = "allchannels",
        /// None.
        ResetChannels = "resetchannels",
    }

    /// Who supervises the process.
    Supervised {
        /// Upstart, told by a stop signal.
        Upstart = "upstart",
        /// systemd, told through its notification socket.
        Systemd = "systemd",
        /// Whichever the environment names.
        Auto = "auto",
        /// Nobody.
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

    /// When the append-only file is forced to disk.
    Appendfsync {
        /// Once a second.
        Everysec = "everysec",
        /// Before each reply.
        Always = "always",
        /// When the kernel likes.
        No = "no",
    }

    /// How a replica loads what its primary sends without a file.
    ReplDisklessLoad {
        /// It takes a file.
        Disabled = "disabled",
        /// Without a file if it holds no keys.
        OnEmptyDb = "on-empty-db",
        /// Into a second keyspace, then swaps.
        SwapDb = "swapdb",
        /// Flushes first.
        FlushBeforeLoad = "flush-before-load" | "flushdb",
    }

    /// Whether TLS clients must show a certificate.
    TlsAuthClients {
        /// They need none.
        No = "no",
        /// They need a valid one.
        Yes = "yes",
        /// A valid one or none.
        Optional = "optional",
    }

    /// Which field of a TLS client's certificate names its ACL user.
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
        /// To the values given.
        Absolute = "absolute",
    }

    /// Whether the payload of `RESTORE` is verified in depth.
    SanitizeDumpPayload {
        /// Never.
        No = "no",
        /// Always.
        Yes = "yes",
        /// For clients, not for the primary.
        Clients = "clients",
    }

    /// How a node names itself to cluster clients.
    ClusterPreferredEndpointType {
        /// By address.
        Ip = "ip",
        /// By host name.
        Hostname = "hostname",
        /// Not at all: clients go on with the one they know.
        UnknownEndpoint = "unknown-endpoint",
    }

    /// When `nodes.conf` is saved.
    ClusterConfigSaveBehavior {
        /// At each change; failing is fatal.
        Sync = "sync",
        /// As well as it goes.
        BestEffort = "best-effort",
    }

    /// What happens when a replicated command fails.
    PropagationErrorBehavior {
        /// It is ignored.
        Ignore = "ignore",
        /// The process ends.
        Panic = "panic",
        /// The process ends if it is a replica.
        PanicOnReplicas = "panic-on-replicas",
    }

    /// The form of log lines.
    LogFormat {
        /// Redis's.
        Legacy = "legacy",
        /// `key=value` pairs.
        Logfmt = "logfmt",
        /// An object a line.
        Json = "json",
    }

    /// The form of times in the log.
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
        /// A newer one is refused.
        Strict = "strict",
        /// A newer one is tried.
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

pub(crate) fn list_words<T>(words: &'static [(&'static str, T)]) -> String {
    words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
}
