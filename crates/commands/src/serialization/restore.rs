//! `RESTORE`, `RESTORE-ASKING`

use collections::{ExpiryChange, Hash, NewValue};
use config::RdbVersionCheck;
use keyspace::Key;
use rdb::{DecodeContext, Payload, PayloadChecks, PayloadError, Value, ValueType, Version};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::dump::payload_in;
use super::value_limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::hash::log_all;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub const RESTORE: Command = Command {
    name: "restore",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM),
    categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::OW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: doc(Group::Generic, "2.6.0", "Creates a key from the serialized representation of a value."),
    subcommands: &[],
    run,
};

/// `RESTORE-ASKING`: `RESTORE`, as if `ASKING` preceded it.
pub const RESTORE_ASKING: Command = Command {
    name: "restore-asking",
    flags: RESTORE.flags.union(Flags::ASKING),
    doc: doc(Group::Server, "3.0.0", "An internal command for migrating keys in a cluster.").internal(),
    ..RESTORE
};

const fn doc(group: Group, since: &'static str, summary: &'static str) -> Doc {
    Doc::new(group, since, summary)
        .complexity("O(N) where N is the size of the value in bytes; O(N*log(N)) for sorted sets.")
        .history(&[
            ("3.0.0", "Added the `REPLACE` modifier."),
            ("5.0.0", "Added the `ABSTTL` modifier."),
            ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
        ])
        .args(ARGS)
}

const ARGS: &[Arg] = &[
    Arg::key("key", 0),
    Arg::integer("ttl"),
    Arg::string("serialized-value"),
    Arg::word("replace", "REPLACE").since("3.0.0").optional(),
    Arg::word("absttl", "ABSTTL").since("5.0.0").optional(),
    Arg::integer("seconds").token("IDLETIME").since("5.0.0").optional(),
    Arg::integer("frequency").token("FREQ").since("5.0.0").optional(),
];

const BUSY_KEY: CommandError = CommandError::new("BUSYKEY Target key name already exists.");
const INVALID_TTL: CommandError = CommandError::new("ERR Invalid TTL value, must be >= 0");
const INVALID_IDLE_TIME: CommandError = CommandError::new("ERR Invalid IDLETIME value, must be >= 0");
const INVALID_FREQUENCY: CommandError = CommandError::new("ERR Invalid FREQ value, must be >= 0 and <= 255");
const WRONG_PAYLOAD: CommandError = CommandError::new("ERR DUMP payload version or checksum are wrong");
const BAD_DATA: CommandError = CommandError::new("ERR Bad data format");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = RestoreOptions::parse(args)?;
    let key = ctx.key(0);
    if !options.replace && ctx.data.find_for_write(key).is_some() {
        return Err(BUSY_KEY);
    }
    let ttl = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    if ttl < 0 {
        return Err(INVALID_TTL);
    }
    let value = decode(ctx, key, args.at(3))?;
    let now = if options.is_absolute { 0 } else { ctx.now().0 };
    // As in Redis, a sum beyond the largest time is a time in the past.
    let expiry = Some(ttl.wrapping_add(now)).filter(|_| ttl > 0);
    if expiry.is_some_and(|at| ctx.expires_now(at)) {
        if options.replace && ctx.data.find_for_write(key).is_some() {
            ctx.remove(key);
            ctx.changed(EventClass::Generic, "del", key);
            ctx.record_deletion(key);
        }
        return Ok(reply.ok());
    }
    let value = match value {
        Value::Bytes(ref bytes) => NewValue::Auto(bytes),
        Value::Int(value) => NewValue::Int(value),
        Value::Object(object) => NewValue::Object(Box::new(object)),
        Value::Empty => return Err(BAD_DATA),
    };
    ctx.data.set(key, value, expiry.map_or(ExpiryChange::Clear, ExpiryChange::At));
    ctx.changed(EventClass::Generic, "restore", key);
    // After the change, which is an access itself.
    options.set_access(ctx, key);
    options.record_effects(ctx, args, expiry);
    Ok(reply.ok())
}

/// Verifies a payload and builds its value in the heap of the key's slot.
fn decode<'a>(ctx: &Ctx<'_>, key: Key<'_>, payload: &'a [u8]) -> Result<Value<'a>, CommandError> {
    let checks_version = ctx.config.rdb_version_check == RdbVersionCheck::Strict;
    let checks = PayloadChecks { checksum: ctx.host.validates_checksums(), version: checks_version };
    let payload = Payload::open(payload, checks).map_err(|error| match error {
        PayloadError::VersionOrChecksum => WRONG_PAYLOAD,
        PayloadError::NoType => BAD_DATA,
    })?;
    let value_type = ValueType::of_byte(payload.type_byte, payload.version.family).map_err(|_| BAD_DATA)?;
    let context = DecodeContext {
        alloc: ctx.alloc_context(key),
        limits: value_limits(ctx.config),
        drop_fields_before: None,
    };
    match rdb::decode(value_type, payload.value, 0, context) {
        Ok(Value::Empty) => Err(BAD_DATA),
        Ok(value) => Ok(value),
        Err(error) => {
            let reason = rdb::describe_fault(error.fault, value_type);
            ctx.host.write_server_log(&format!(
                "Internal error in RDB reading offset {} of a payload -> {reason}",
                error.offset
            ));
            Err(BAD_DATA)
        }
    }
}

#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    is_absolute: bool,
    idle_seconds: Option<i64>,
    frequency: Option<i64>,
}

impl RestoreOptions {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = args.tail(4).iter();
        while let Some(word) = rest.next() {
            if word.eq_token("replace") {
                options.replace = true;
            } else if word.eq_token("absttl") {
                options.is_absolute = true;
            } else if word.eq_token("idletime") && options.frequency.is_none() {
                let seconds = parse_number(rest.next())?;
                options.idle_seconds = Some(seconds).filter(|seconds| *seconds >= 0);
                options.idle_seconds.ok_or(INVALID_IDLE_TIME)?;
            } else if word.eq_token("freq") && options.idle_seconds.is_none() {
                let frequency = parse_number(rest.next())?;
                options.frequency = Some(frequency).filter(|frequency| (0..=255).contains(frequency));
                options.frequency.ok_or(INVALID_FREQUENCY)?;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Records the request with the time of the expiry in place of the time to live, and with a payload that older servers
    /// can read. There is none for a hash whose fields expire, which is recorded field by field.
    fn record_effects(&self, ctx: &mut Ctx<'_>, args: Args<'_>, expiry: Option<i64>) {
        if !ctx.records_effects() {
            return;
        }
        let key = ctx.key(0);
        if ctx.peek::<Hash>(key).is_some_and(Hash::has_expiries) {
            if self.replace {
                ctx.record_deletion(key);
            }
            log_all(ctx, key);
            if let Some(at) = expiry {
                ctx.record_effect(&["PEXPIREAT".into(), key.bytes.into(), at.into()]);
            }
            return;
        }
        let mut effect: Vec<EffectArg<'_>> = args.iter().map(EffectArg::from).collect();
        let older = older_payload(ctx, key, args.at(3));
        if let Some(older) = &older {
            effect[3] = older[..].into();
        }
        effect[0] = "RESTORE".into();
        if let Some(at) = expiry.filter(|_| !self.is_absolute) {
            effect[2] = at.into();
            effect.push("ABSTTL".into());
        }
        ctx.record_effect(&effect);
    }

    /// Sets how recently or often the key was used, as far as the eviction policy records it.
    fn set_access(&self, ctx: &Ctx<'_>, key: Key<'_>) {
        let aging = ctx.data.mode.aging;
        let idle = self.idle_seconds.and_then(|seconds| aging.of_idle_seconds(seconds as u64));
        let access = idle.or_else(|| aging.of_frequency(self.frequency? as u8));
        if let (Some(access), Some(entry)) = (access, ctx.data.peek(key)) {
            entry.set_access(access);
        }
    }
}

/// Returns the payload of a restored value in the oldest version, if it was received in a newer one or unchecked.
fn older_payload(ctx: &Ctx<'_>, key: Key<'_>, received: &[u8]) -> Option<Vec<u8>> {
    let is_old = Payload::open(received, PayloadChecks::ALL)
        .is_ok_and(|payload| payload.version.number <= Version::V11.number);
    let entry = ctx.data.peek(key).filter(|_| !is_old)?;
    payload_in(Version::V11, ctx.config.rdbcompression, ctx.alloc_context(key), entry.value())
}

fn parse_number(text: Option<&[u8]>) -> Result<i64, CommandError> {
    parse_i64_strict(text.ok_or(CommandError::SYNTAX)?).ok_or(CommandError::NOT_AN_INTEGER)
}
