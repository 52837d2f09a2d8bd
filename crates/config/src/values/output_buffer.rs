//! `client-output-buffer-limit`: the pending output of a client of each class.

use crate::rule::{Reason, Rule, format_memory, parse_memory};
use crate::setting::{Before, FileLine, FileLines, Setting, utf8};
use crate::values::join;

/// The classes of clients with their own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// Ordinary connections, `MONITOR` included.
    Normal,
    /// Connections to replicas.
    Replica,
    /// Connections with a subscription.
    Pubsub,
}

impl ClientClass {
    const ALL: [Self; 3] = [Self::Normal, Self::Replica, Self::Pubsub];

    fn named(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"replica" | b"slave" => Some(Self::Replica),
            b"pubsub" => Some(Self::Pubsub),
            _ => None,
        }
    }
}

/// A client is closed when its pending replies reach the hard limit, or exceed the soft limit for its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// In bytes; 0 is no limit.
    pub hard_size: u64,
    /// In bytes; 0 is no limit.
    pub soft_size: u64,
    /// The time for which the soft limit may be exceeded.
    pub soft_seconds: u64,
}

/// The limits of all classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBufferLimits([OutputBufferLimit; 3]);

impl OutputBufferLimits {
    /// The limit of a class.
    #[must_use]
    pub const fn of(&self, class: ClientClass) -> OutputBufferLimit {
        self.0[class as usize]
    }
}

impl Default for OutputBufferLimits {
    fn default() -> Self {
        Self([
            OutputBufferLimit::default(),
            OutputBufferLimit { hard_size: 256 << 20, soft_size: 64 << 20, soft_seconds: 60 },
            OutputBufferLimit { hard_size: 32 << 20, soft_size: 8 << 20, soft_seconds: 60 },
        ])
    }
}

impl Setting for OutputBufferLimits {
    const IS_LIST: bool = true;

    fn parse(_: &Rule, args: &[&[u8]], before: Before<'_, Self>) -> Result<Self, Reason> {
        let (groups, rest) = args.as_chunks::<4>();
        if !rest.is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        let mut limits = *before.current;
        for &[class, hard, soft, seconds] in groups {
            let class = ClientClass::named(class)
                .ok_or("Invalid client class specified in buffer limit configuration.")?;
            limits.0[class as usize] = parse_limit(hard, soft, seconds)
                .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        }
        Ok(limits)
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        // Redis and Valkey print the old name of the replicas' class.
        join(["normal", "slave", "pubsub"].into_iter().zip(self.0).map(|(name, limit)| {
            format!("{name} {} {} {}", limit.hard_size, limit.soft_size, limit.soft_seconds)
        }))
    }

    fn file_lines(&self, _: &Rule, default: &Self) -> FileLines {
        let line = |class: ClientClass| {
            let name = ["normal", "replica", "pubsub"][class as usize];
            let limit = self.of(class);
            let hard = format_memory(i128::from(limit.hard_size));
            let soft = format_memory(i128::from(limit.soft_size));
            let value = format!("{name} {hard} {soft} {}", limit.soft_seconds).into_bytes();
            FileLine { value, forced: limit != default.of(class) }
        };
        FileLines::Write(ClientClass::ALL.into_iter().map(line).collect())
    }

    fn describe(_: &Rule) -> String {
        "groups of <normal|replica|pubsub> <hard limit> <soft limit> <soft seconds>".into()
    }
}

fn parse_limit(hard: &[u8], soft: &[u8], seconds: &[u8]) -> Option<OutputBufferLimit> {
    Some(OutputBufferLimit {
        hard_size: u64::try_from(parse_memory(hard)?).ok()?,
        soft_size: u64::try_from(parse_memory(soft)?).ok()?,
        // A C `int` in Redis and Valkey.
        soft_seconds: u64::try_from(utf8(seconds).ok()?.parse::<i32>().ok()?).ok()?,
    })
}
