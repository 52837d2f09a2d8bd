//! `MIGRATE`: moves keys to another server.
//!
//! The host connects, sends and receives. The request runs once for each step, and its connection is blocked in between.
//!
//! | run | does | then waits for |
//! |---|---|---|
//! | first | looks for the keys | the connection to the target |
//! | second | encodes the keys, and sends them | the replies of the target; without `COPY` it keeps the latches of the keys |
//! | third | deletes the keys that the target has confirmed | |
//!
//! So no other client reads or changes a key from its encoding to its deletion: requests on its slot wait. Requests on
//! other slots do not.
//!
//! Invariant: a key is deleted only if it is unchanged since it was encoded. The latches guarantee this while they are
//! kept. They are released if the connection must wait for the end of a `CLIENT PAUSE`, so the keys are watched, too.

mod options;

use std::io::Write as _;

use keyspace::{Key, Watching};
use wire::request::Args;

use self::options::{Options, find_several, find_single};
use super::dump;
use crate::command::{Access, Begin, Categories, Command, Find, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::host::TransferStep;
use crate::migration::Migration;
use crate::reply::{Replied, Reply};
use crate::session::BlockReason;

const KEY_FLAGS: KeyFlags = KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE);

/// `MIGRATE host port key|"" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password]
/// [KEYS key [key ...]]`
pub const COMMAND: Command = Command {
    name: "migrate",
    arity: -6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::MOVABLEKEYS),
    categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
    access: Access::Write,
    keys: &[
        KeySpec { custom: Some(find_single), ..KeySpec::at(3, KEY_FLAGS) },
        KeySpec {
            flags: KEY_FLAGS.union(KeyFlags::INCOMPLETE),
            begin: Begin::Keyword { word: "KEYS", from: -2 },
            find: Find::Range { last: -1, step: 1, limit: 0 },
            notes: None,
            custom: Some(find_several),
            flags_of_request: None,
        },
    ],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Generic, "2.6.0", "Moves keys to another server, atomically.")
        .complexity(
            "That of DUMP and DEL here and of RESTORE on the target, and O(N) for the transfer of N bytes between them.",
        )
        .history(&[
            ("3.0.0", "Added the `COPY` and `REPLACE` options."),
            ("3.0.6", "Added the `KEYS` option."),
            ("4.0.7", "Added the `AUTH` option."),
            ("6.0.0", "Added the `AUTH2` option."),
        ])
        .args(ARGS),
    subcommands: &[],
    run,
};

const ARGS: &[Arg] = &[
    Arg::string("host"),
    Arg::integer("port"),
    Arg::one_of("key-selector", &[Arg::key("key", 0), Arg::word("empty-string", "\"\"")]),
    Arg::integer("destination-db"),
    Arg::integer("timeout"),
    Arg::word("copy", "COPY").since("3.0.0").optional(),
    Arg::word("replace", "REPLACE").since("3.0.0").optional(),
    Arg::one_of(
        "authentication",
        &[
            Arg::string("auth").token("AUTH").shown("password").since("4.0.7"),
            Arg::block("auth2", &[Arg::string("username"), Arg::string("password")])
                .token("AUTH2")
                .since("6.0.0"),
        ],
    )
    .optional(),
    Arg::key("keys", 1).token("KEYS").shown("key").since("3.0.6").optional().multiple(),
];

const NOT_IN_TRANSACTION: CommandError =
    CommandError::new("ERR MIGRATE can't run within a transaction or script: it waits for another server");
const HAS_CHANGED: CommandError = CommandError::new(
    "ERR The keys have changed while writes were paused. The target has their former values, and this server keeps them",
);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.session.unfinished = None;
    // A transaction does not continue one: it can't wait.
    let begun = ctx.session.migration.take().filter(|migration| migration.is_of(args) && ctx.may_block());
    let options = Options::parse(args)?;
    let Some(mut migration) = begun else { return begin(ctx, options, reply) };
    match migration.transfer.take_step() {
        Some(TransferStep::Connected) => send(ctx, &options, migration, reply),
        Some(TransferStep::NotConnected(error)) => Err(CommandError::owned(error)),
        Some(TransferStep::Sent { confirmed, error }) => {
            finish(ctx, &options, *migration, &confirmed, error, reply)
        }
        None => Ok(wait(ctx, migration, false, reply)),
    }
}

/// The first run.
fn begin(ctx: &mut Ctx<'_>, options: Options, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if !ctx.keys().any(|key| ctx.data.find(key).is_some()) {
        return Ok(reply.simple("NOKEY"));
    }
    if !ctx.may_block() {
        return Err(NOT_IN_TRANSACTION);
    }
    let transfer = ctx.host.begin_transfer(options.target, ctx.session)?;
    let migration = Box::new(Migration::new(ctx.args, transfer));
    Ok(wait(ctx, migration, false, reply))
}

/// The second run.
fn send(
    ctx: &mut Ctx<'_>,
    options: &Options,
    mut migration: Box<Migration>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let mut requests = Vec::new();
    for planned in ctx.planned {
        let key = planned.key(ctx.args, ctx.session.db);
        if write_restore(ctx, key, options.replaces, &mut requests) {
            migration.sent.push(planned.arg);
        }
    }
    if migration.sent.is_empty() {
        return Ok(reply.simple("NOKEY"));
    }
    if !options.copies {
        let mut watching = Watching::default();
        let mut keys = ctx.walk();
        while let Some(key) = keys.next(ctx.data) {
            ctx.data.watch(key, &mut watching);
        }
        migration.watching = Some(watching);
    }
    migration.transfer.send(requests, migration.sent.len());
    Ok(wait(ctx, migration, !options.copies, reply))
}

/// The third run.
fn finish(
    ctx: &mut Ctx<'_>,
    options: &Options,
    migration: Migration,
    confirmed: &[bool],
    error: Option<String>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let Migration { sent, watching, .. } = migration;
    let has_changed = watching.as_ref().is_some_and(|watching| ctx.data.has_changed(watching));
    if let Some(watching) = watching {
        ctx.data.unwatch(watching);
    }
    if !options.copies && !has_changed {
        let moved = sent.iter().zip(confirmed).filter(|(_, is_confirmed)| **is_confirmed);
        delete(ctx, moved.map(|(arg, _)| *arg));
    }
    match error {
        Some(error) => Err(CommandError::owned(error)),
        None if has_changed => Err(HAS_CHANGED),
        None => Ok(reply.ok()),
    }
}

/// Deletes the keys in these arguments.
fn delete(ctx: &mut Ctx<'_>, moved: impl Iterator<Item = u32>) {
    let (args, db) = (ctx.args, ctx.session.db);
    let mut effect: Vec<EffectArg<'_>> = vec!["DEL".into()];
    for arg in moved {
        let Some(planned) = ctx.planned.iter().find(|planned| planned.arg == arg) else { continue };
        // Found anew: an earlier deletion may have moved it.
        let key = Key::with_hash(args.at(arg as usize), planned.hash, db);
        if ctx.remove(key) {
            ctx.changed(EventClass::Generic, "del", key);
            effect.push(key.bytes.into());
        }
    }
    if effect.len() > 1 {
        ctx.record_effect(&effect);
    }
}

/// Makes the connection wait for the end of the step under way.
fn wait(ctx: &mut Ctx<'_>, migration: Box<Migration>, keeps_latches: bool, reply: Reply<'_>) -> Replied {
    ctx.session.migration = Some(migration);
    // The request runs again.
    ctx.session.unfinished = Some(0);
    ctx.block(None, BlockReason::Transfer { keeps_latches });
    reply.nothing()
}

/// Writes the request that restores a key. `false`: there is no such key.
fn write_restore(ctx: &Ctx<'_>, key: Key<'_>, replaces: bool, requests: &mut Vec<u8>) -> bool {
    let Some(entry) = ctx.data.find(key) else { return false };
    let ttl = entry.expiry().map_or(0, |at| (at - ctx.now().0).max(1));
    let payload = dump::payload(ctx.config.rdbcompression, ctx.alloc_context(key), entry.value());
    let ttl = ttl.to_string();
    let mut args = vec![b"RESTORE".as_slice(), key.bytes, ttl.as_bytes(), &payload];
    if replaces {
        args.push(b"REPLACE");
    }
    // Writing to memory does not fail.
    let _ = write!(requests, "*{}\r\n", args.len());
    for arg in args {
        let _ = write!(requests, "${}\r\n", arg.len());
        requests.extend_from_slice(arg);
        requests.extend_from_slice(b"\r\n");
    }
    true
}
