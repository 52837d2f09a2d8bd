//! `XADD`

use collections::stream::{AppendError, NodeLimits, Stream, StreamId};
use config::Config;
use keyspace::Key;
use wire::request::Args;

use super::entries::write_id;
use super::ids::{NewId, parse_new_id};
use super::references;
use super::trimming::{self, Trimmed, Trimming, TrimmingOptions};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value ...`
pub const COMMAND: Command = Command {
    name: "xadd",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec {
        notes: Some("it may also trim the stream"),
        ..KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))
    }],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Stream, "5.0.0", "Appends an entry to a stream. A missing key is created.")
        .complexity("O(1) to append, O(N) to trim N entries.")
        .history(&[
            ("6.2.0", "Added `NOMKSTREAM`, `MINID` and `LIMIT`."),
            ("7.0.0", "Added IDs of the form `<ms>-*`."),
            ("8.2.0", "Added `KEEPREF`, `DELREF` and `ACKED`."),
        ])
        .args(&[
            Arg::key("key", 0),
            Arg::word("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
            references::ARG.since("8.2.0"),
            Arg::block("trim", trimming::ARGS).optional(),
            Arg::one_of("id-selector", &[Arg::word("auto-id", "*"), Arg::string("id")]),
            Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple(),
        ]),
    subcommands: &[],
    run,
};

const ZERO_ID: CommandError = CommandError::new("ERR The ID specified in XADD must be greater than 0-0");
const NOT_ABOVE_LAST: CommandError =
    CommandError::new("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: CommandError =
    CommandError::new("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: CommandError = CommandError::new("ERR Elements are too large to be stored");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = AddOptions::parse(ctx.config, args)?;
    let key = ctx.key(0);
    if ctx.find_for_write::<Stream>(key)?.is_none() && !options.makes_stream {
        return Ok(reply.null());
    }
    let now = ctx.now().0.max(0) as u64;
    let limits = node_limits(ctx.config);
    let added = ctx.edit_or_new(key, |stream: &mut Stream, _| {
        let id = id_for(stream, options.id, now)?;
        let fields = args.tail(options.fields_at);
        let pairs = (0..fields.len() / 2).map(|pair| (fields.at(2 * pair), fields.at(2 * pair + 1)));
        stream.append(id, pairs, limits).map_err(|error| match error {
            AppendError::NotAboveLast => NOT_ABOVE_LAST,
            AppendError::TooLarge => TOO_LARGE,
        })?;
        Ok((id, options.trimming.map(|trimming| trimming.apply(stream))))
    })?;
    let (id, trimmed) = added?;
    ctx.changed(EventClass::Stream, "xadd", key);
    if trimmed.as_ref().is_some_and(|trimmed| trimmed.count > 0) {
        ctx.announce(EventClass::Stream, "xtrim", key);
    }
    if ctx.records_effects() {
        record_effects(ctx, key, id, trimmed.as_ref(), args.tail(options.fields_at));
    }
    let mut out = reply.parts();
    write_id(&mut out, id);
    Ok(out.done())
}

/// Records the entry with its ID, and an exact trim.
fn record_effects(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    id: StreamId,
    trimmed: Option<&Trimmed>,
    fields: Args<'_>,
) {
    let id = id.to_string();
    let mut args = vec![EffectArg::from("XADD"), key.bytes.into()];
    if let Some(len) = trimmed.and_then(Trimmed::exact_len) {
        args.extend([EffectArg::from("MAXLEN"), "=".into(), len.into()]);
    }
    args.push(id.as_str().into());
    args.extend(fields.iter().map(EffectArg::from));
    ctx.record_effect(&args);
    if let Some(trimmed) = trimmed {
        trimmed.log_rest(ctx, key);
    }
}

/// Returns the ID of the entry to append.
fn id_for(stream: &Stream, id: NewId, now: u64) -> Result<StreamId, CommandError> {
    let last = stream.last_id;
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    match id {
        NewId::Given(id) => Ok(id),
        NewId::Auto if now > last.ms => Ok(StreamId::new(now, 0)),
        NewId::Auto => last.next().ok_or(NOT_ABOVE_LAST),
        NewId::InMillis(ms) if ms == last.ms => match last.seq.checked_add(1) {
            Some(seq) => Ok(StreamId::new(ms, seq)),
            None => Err(NOT_ABOVE_LAST),
        },
        NewId::InMillis(ms) => Ok(StreamId::new(ms, 0)),
    }
}

/// Returns the configured limits of a node.
pub fn node_limits(config: &Config) -> NodeLimits {
    NodeLimits {
        entry_count_max: u32::try_from(config.stream_node_max_entries).unwrap_or(u32::MAX),
        size_max: config.stream_node_max_bytes as usize,
    }
}

struct AddOptions {
    makes_stream: bool,
    trimming: Option<Trimming>,
    id: NewId,
    /// Argument index of the first field.
    fields_at: usize,
}

impl AddOptions {
    fn parse(config: &Config, args: Args<'_>) -> Result<Self, CommandError> {
        let mut makes_stream = true;
        let mut trimming = TrimmingOptions::default();
        let mut at = 2;
        let id = loop {
            let Some(word) = args.get(at) else { return Err(CommandError::wrong_arity("xadd")) };
            if word.eq_token("*") {
                break NewId::Auto;
            }
            let words: Vec<&[u8]> = args.tail(at).iter().take(3).collect();
            if let Some(count) = trimming.parse(&words)? {
                at += count;
            } else if word.eq_token("nomkstream") {
                makes_stream = false;
                at += 1;
            } else {
                break parse_new_id(word)?;
            }
        };
        let trimming = trimming.finish(config.stream_node_max_entries, None)?;
        let field_count = args.len() - (at + 1);
        if field_count < 2 || field_count % 2 == 1 {
            return Err(CommandError::wrong_arity("xadd"));
        }
        if id == NewId::Given(StreamId::MIN) {
            return Err(ZERO_ID);
        }
        Ok(Self { makes_stream, trimming, id, fields_at: at + 1 })
    }
}
