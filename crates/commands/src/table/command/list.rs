//! `COMMAND LIST`

use wire::request::Args;

use super::{FLAGS, ORDER};
use crate::command::{Categories, Command};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};
use crate::table::NUMBERED;
use crate::word::Word;

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
pub const LIST: Command = Command::keyless(
    "list",
    -2,
    FLAGS,
    Doc::new(Group::Server, "7.0.0", "Returns the names of all commands, or of those that match a filter.")
        .complexity("O(N) where N is the number of commands")
        .args(&[Arg::one_of(
            "filterby",
            &[
                Arg::string("module-name").token("MODULE"),
                Arg::string("category").token("ACLCAT"),
                Arg::new("pattern", ArgType::Pattern).token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()]),
    run,
)
.add_categories(Categories::CONNECTION)
.tips(ORDER);

fn run(_: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let names: Vec<&str> = match args.len() {
        2 => NUMBERED.iter().map(|(name, _)| name.as_str()).collect(),
        5 if args.at(2).eq_token("filterby") => filtered(args.at(3), args.at(4))?,
        _ => return Err(CommandError::SYNTAX),
    };
    let mut out = reply.array(names.len());
    names.iter().for_each(|name| out.bulk(name.as_bytes()));
    Ok(out.done())
}

/// Returns the commands and subcommands that match the filter.
fn filtered(filter: &[u8], value: &[u8]) -> Result<Vec<&'static str>, CommandError> {
    let all = NUMBERED.iter();
    Ok(match up_to_nul(filter).to_ascii_lowercase().as_slice() {
        // There are no modules, so no command belongs to one.
        b"module" => Vec::new(),
        b"aclcat" => {
            let category = Categories::all()
                .iter_names()
                .find(|(name, _)| value.eq_token(name))
                .map_or(Categories::empty(), |(_, category)| category);
            all.filter(|(_, command)| command.categories().intersects(category))
                .map(|(name, _)| name.as_str())
                .collect()
        }
        b"pattern" => all
            .filter(|(name, _)| base::glob::matches_ignoring_case(value, name.as_bytes()))
            .map(|(name, _)| name.as_str())
            .collect(),
        _ => return Err(CommandError::SYNTAX),
    })
}
