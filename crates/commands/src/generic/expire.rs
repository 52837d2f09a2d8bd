//! `EXPIRE`, `PEXPIRE`, `EXPIREAT` and `PEXPIREAT`

use bitflags::bitflags;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub const EXPIRE: Command = Command {
    name: "expire",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(Group::Generic, "1.0.0", "Sets the time to live of a key in seconds.")
        .history(HISTORY)
        .args(&[Arg::key("key", 0), Arg::integer("seconds"), CONDITION]),
    subcommands: &[],
    run: |ctx, args, reply| expire(ctx, args, Unit::Seconds, Base::Now, reply),
};

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub const PEXPIRE: Command = Command {
    name: "pexpire",
    doc: Doc::new(Group::Generic, "2.6.0", "Sets the time to live of a key in milliseconds.")
        .history(HISTORY)
        .args(&[Arg::key("key", 0), Arg::integer("milliseconds"), CONDITION]),
    run: |ctx, args, reply| expire(ctx, args, Unit::Millis, Base::Now, reply),
    ..EXPIRE
};

/// `EXPIREAT key unix-time-seconds [NX | XX | GT | LT]`
pub const EXPIREAT: Command = Command {
    name: "expireat",
    doc: Doc::new(
        Group::Generic,
        "1.2.0",
        "Sets the expiration time of a key as a Unix timestamp in seconds.",
    )
    .history(HISTORY)
    .args(&[Arg::key("key", 0), Arg::new("unix-time-seconds", ArgType::UnixTime), CONDITION]),
    run: |ctx, args, reply| expire(ctx, args, Unit::Seconds, Base::Epoch, reply),
    ..EXPIRE
};

/// `PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]`
pub const PEXPIREAT: Command = Command {
    name: "pexpireat",
    doc: Doc::new(
        Group::Generic,
        "2.6.0",
        "Sets the expiration time of a key as a Unix timestamp in milliseconds.",
    )
    .history(HISTORY)
    .args(&[Arg::key("key", 0), Arg::new("unix-time-milliseconds", ArgType::UnixTime), CONDITION]),
    run: |ctx, args, reply| expire(ctx, args, Unit::Millis, Base::Epoch, reply),
    ..EXPIRE
};

const HISTORY: &[(&str, &str)] = &[("7.0.0", "Added `NX`, `XX`, `GT` and `LT`.")];

const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.since("7.0.0")
.optional();

#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Millis,
}

/// The origin of a given time.
#[derive(Clone, Copy)]
enum Base {
    Now,
    Epoch,
}

bitflags! {
    /// The condition on the previous expiry for setting a new one.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Condition: u8 {
        const NX = 1;
        const XX = 2;
        const GT = 4;
        const LT = 8;
    }
}

impl Condition {
    /// Parses condition words.
    pub(crate) fn parse<'w>(words: impl Iterator<Item = &'w [u8]>) -> Result<Self, CommandError> {
        let mut conditions = Self::empty();
        for word in words {
            conditions |= match word {
                _ if word.eq_token("nx") => Self::NX,
                _ if word.eq_token("xx") => Self::XX,
                _ if word.eq_token("gt") => Self::GT,
                _ if word.eq_token("lt") => Self::LT,
                _ => return Err(CommandError::quote("ERR Unsupported option ", word, "")),
            };
        }
        if conditions.contains(Self::NX) && conditions != Self::NX {
            return Err(NX_WITH_OTHERS);
        }
        if conditions.contains(Self::GT.union(Self::LT)) {
            return Err(GT_WITH_LT);
        }
        Ok(conditions)
    }

    /// Whether the condition allows `at` after `before`; no expiry counts as infinite.
    pub(crate) fn allow(self, before: Option<i64>, at: i64) -> bool {
        let later = before.is_some_and(|before| at > before);
        let earlier = before.is_none_or(|before| at < before);
        !(self.contains(Self::NX) && before.is_some()
            || self.contains(Self::XX) && before.is_none()
            || self.contains(Self::GT) && !later
            || self.contains(Self::LT) && !earlier)
    }
}

const NX_WITH_OTHERS: CommandError =
    CommandError::new("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_WITH_LT: CommandError =
    CommandError::new("ERR GT and LT options at the same time are not compatible");

fn expire(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    unit: Unit,
    base: Base,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let condition = Condition::parse(args.tail(3).iter())?;
    let time = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let at = unix_millis(time, unit, base, ctx.now().0)
        .ok_or_else(|| CommandError::invalid_expire(ctx.command.name))?;
    let key = ctx.key(0);
    let before = ctx.data.find_for_write(key).map(|entry| entry.expiry());
    if !before.is_some_and(|before| condition.allow(before, at)) {
        return Ok(reply.flag(false));
    }
    if ctx.is_over(at) {
        ctx.delete_as_expired(key);
    } else {
        ctx.data.set_expiry(key, Some(at));
        ctx.changed(EventClass::Generic, "expire", key);
    }
    Ok(reply.flag(true))
}

/// Returns the Unix time in milliseconds, at least 0; `None` on overflow.
fn unix_millis(time: i64, unit: Unit, base: Base, now: i64) -> Option<i64> {
    let ms = match unit {
        Unit::Seconds => time.checked_mul(1000)?,
        Unit::Millis => time,
    };
    let at = match base {
        Base::Now => ms.checked_add(now)?,
        Base::Epoch => ms,
    };
    Some(at.max(0))
}
