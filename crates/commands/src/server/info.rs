//! `INFO`

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `INFO [section ...]`
pub const COMMAND: Command = Command::keyless(
    "info",
    -1,
    Flags::LOADING.union(Flags::STALE),
    Doc::new(Group::Server, "1.0.0", "Returns information and statistics of the server, by section.")
        .history(&[("7.0.0", "Takes several sections.")])
        .args(&[Arg::string("section").optional().multiple()]),
    run,
)
.add_categories(Categories::DANGEROUS)
.tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]);

/// The names of sections with the number of keys or functions. Other sections are shown while the disk hangs.
const SHOWING_DATA: &[&str] = &["default", "all", "everything", "keyspace", "keysizes", "memory"];

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let sections: Vec<&[u8]> = args.tail(1).iter().collect();
    let text = ctx.host.info(&sections);
    let shows_data = |section: &&[u8]| SHOWING_DATA.iter().any(|name| section.eq_token(name));
    if sections.is_empty() || sections.iter().any(shows_data) {
        ctx.note_all_figures();
    }
    Ok(reply.verbatim(b"txt", text.as_bytes()))
}
