//! `HELP` subcommands, generated from the table: for each subcommand one line with its syntax and one with
//! its summary.

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use wire::request::Args;

/// Maximum bytes of a word quoted in an error.
const QUOTE_SIZE_MAX: usize = 128;

/// Creates the `HELP` subcommand of a container: `run` calls [`answer`] with that container.
#[must_use]
pub const fn command(
    group: Group,
    since: &'static str,
    run: fn(&mut Ctx<'_>, Args<'_>, Reply<'_>) -> Result<Replied, CommandError>,
) -> Command {
    let doc = Doc::new(group, since, "Returns the help text of the subcommands.");
    let mut command = Command::keyless("help", 2, Flags::LOADING.union(Flags::STALE), doc, run);
    if matches!(group, Group::Connection) {
        command.categories = Categories::CONNECTION;
    }
    command
}

/// Replies with the help text of a container.
pub fn answer(container: &Command, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let lines = lines(container);
    let mut out = reply.array(lines.len());
    for line in lines {
        out.simple(line);
    }
    Ok(out.done())
}

/// Returns the error for a word that names no subcommand of a container.
#[must_use]
pub fn unknown_subcommand(container: &str, word: &[u8]) -> CommandError {
    pointing_to_help("ERR unknown subcommand '", container, word)
}

/// The error for a subcommand with invalid options; `word` is the subcommand as given.
#[must_use]
pub fn wrong_subcommand(container: &str, word: &[u8]) -> CommandError {
    pointing_to_help("ERR unknown subcommand or wrong number of arguments for '", container, word)
}

fn pointing_to_help(before: &str, container: &str, word: &[u8]) -> CommandError {
    let word = &word[..word.len().min(QUOTE_SIZE_MAX)];
    CommandError::quote(before, word, &format!("'. Try {} HELP.", container.to_uppercase()))
}

fn lines(container: &Command) -> Vec<String> {
    let name = container.name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for command in container.subcommands.iter().filter(|command| command.name != "help") {
        let mut form = command.name.to_ascii_uppercase();
        for arg in command.doc.args {
            form.push(' ');
            form.push_str(&form_of(arg));
        }
        lines.push(form);
        lines.push(format!("    {}", command.doc.summary));
    }
    lines.push("HELP".to_owned());
    lines.push("    Print this help.".to_owned());
    lines
}

/// Returns the syntax of an argument: `<name>`, `WORD <name>`, `(A|B)`, `[optional]`.
fn form_of(arg: &Arg) -> String {
    let all = |separator: &str| arg.children.iter().map(form_of).collect::<Vec<_>>().join(separator);
    let value = match arg.kind {
        ArgType::PureToken => String::new(),
        ArgType::OneOf => format!("({})", all("|")),
        ArgType::Block => all(" "),
        _ => format!("<{}>", arg.shown.unwrap_or(arg.name)),
    };
    let mut form = match (arg.token, value.is_empty()) {
        (Some(token), true) => token.to_owned(),
        (Some(token), false) => format!("{token} {value}"),
        (None, _) => value.clone(),
    };
    if arg.multiple {
        let repeated = if arg.multiple_token { &form } else { &value };
        form = format!("{form} [{repeated} ...]");
    }
    if arg.optional { format!("[{form}]") } else { form }
}
