//! `MODULE`: modules cannot be loaded; the list is empty.

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};

/// `MODULE subcommand ...`
pub const COMMAND: Command = Command::container(
    "module",
    Doc::new(Group::Server, "4.0.0", "Subcommands for server modules.").complexity("Depends on subcommand."),
    &[
        help::command(Group::Server, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        Command::keyless(
            "list",
            2,
            Flags::ADMIN.union(Flags::NOSCRIPT),
            Doc::new(Group::Server, "4.0.0", "Returns the loaded modules. The list is always empty."),
            |_, _, reply| Ok(reply.array(0).done()),
        )
        .tips(&["nondeterministic_output_order"]),
        changing("load", -3, "4.0.0", "Not supported: modules cannot be loaded.", LOAD_ARGS),
        changing("loadex", -3, "7.0.0", "Not supported: modules cannot be loaded.", LOAD_ARGS),
        changing("unload", 3, "4.0.0", "Not supported: no modules are loaded.", &[Arg::string("name")]),
    ],
);

const LOAD_ARGS: &[Arg] = &[Arg::string("path"), Arg::string("arg").optional().multiple()];

const NOT_ALLOWED: CommandError = CommandError::new(
    "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a \
     local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

const fn changing(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    args: &'static [Arg],
) -> Command {
    let flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING);
    Command::keyless(name, arity, flags, Doc::new(Group::Server, since, summary).args(args), refuse)
}

/// Replies with the error for a file that is not a module: no module can be loaded.
fn refuse(ctx: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    let is_local = ctx.session.endpoints.is_local || ctx.session.endpoints.is_unix;
    if !ctx.config.enable_module_command.allows(is_local) {
        return Err(NOT_ALLOWED);
    }
    Err(CommandError::new(match ctx.command.name {
        "unload" => "ERR Error unloading module: no such module with that name",
        _ => "ERR Error loading the extension. Please check the server logs.",
    }))
}
