//! `GEOADD`: `ZADD` with coordinates instead of scores.

use wire::request::Args;

use super::arguments::parse_point;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::sorted_set::zadd::{AddOptions, add_elements};
use crate::word::Word;

/// `GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]`
pub const COMMAND: Command = Command {
    name: "geoadd",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::GEO,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::Geo,
        "3.2.0",
        "Adds members with coordinates to a geospatial index, or moves existing ones.",
    )
    .complexity("O(log(N)) for each place, where N is the number of places.")
    .history(&[("6.2.0", "Added `CH`, `NX` and `XX`.")])
    .args(&[
        Arg::key("key", 0),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional().since("6.2.0"),
        Arg::word("change", "CH").optional().since("6.2.0"),
        Arg::block(
            "data",
            &[
                Arg::new("longitude", ArgType::Double),
                Arg::new("latitude", ArgType::Double),
                Arg::string("member"),
            ],
        )
        .multiple(),
    ]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut options = AddOptions::default();
    let mut places = args.tail(2);
    while let Some(word) = places.get(0) {
        match () {
            () if word.eq_token("nx") => options.only_new = true,
            () if word.eq_token("xx") => options.only_old = true,
            () if word.eq_token("ch") => options.counts_changes = true,
            () => break,
        }
        places = places.tail(1);
    }
    let is_whole = places.len().is_multiple_of(3) && !places.is_empty();
    if !is_whole || options.only_new && options.only_old {
        return Err(CommandError::SYNTAX);
    }
    let mut elements = Vec::with_capacity(places.len() / 3);
    for index in (0..places.len()).step_by(3) {
        let point = parse_point(places.at(index), places.at(index + 1))?;
        elements.push((places.at(index + 2), point.score()));
    }
    add_elements(ctx, &elements, options, reply)
}
