//! `COMMAND DOCS`: the documentation of commands.

use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::rendered::Rendered;
use super::{FLAGS, ORDER};
use crate::command::{Categories, Command};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::table::{COMMANDS, find_by_full_name};

/// `COMMAND DOCS [command-name ...]`
pub const DOCS: Command = Command::keyless(
    "docs",
    -2,
    FLAGS,
    Doc::new(Group::Server, "7.0.0", "Returns the documentation of the given commands, or of all.")
        .complexity("O(N) where N is the number of commands given")
        .args(&[Arg::string("command-name").optional().multiple()]),
    run,
)
.add_categories(Categories::CONNECTION)
.tips(ORDER);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    static RENDERED: Rendered = Rendered::new(|out| {
        out.map(COMMANDS.len());
        for command in COMMANDS {
            out.bulk(command.name.as_bytes());
            write(out, command.name, command);
        }
    });
    if args.len() == 2 {
        return Ok(RENDERED.answer(ctx, reply));
    }
    let wanted: Vec<(String, &Command)> = args.tail(2).iter().filter_map(find_by_full_name).collect();
    let mut out = reply.map(wanted.len());
    for (name, command) in wanted {
        out.bulk(name.as_bytes());
        write(&mut out, &name, command);
    }
    Ok(out.done())
}

fn write(out: &mut ReplyBuffer<'_>, full_name: &str, command: &Command) {
    let doc = &command.doc;
    let map = out.deferred_map();
    let doc_flag = match (doc.deprecated, doc.is_internal) {
        (Some(_), _) => Some("deprecated"),
        (None, true) => Some("syscmd"),
        (None, false) => None,
    };
    let mut count = usize::from(doc_flag.is_some());
    let mut text = |out: &mut ReplyBuffer<'_>, name: &str, value: &str| {
        if !value.is_empty() {
            out.bulk(name.as_bytes());
            out.bulk(value.as_bytes());
            count += 1;
        }
    };
    text(out, "summary", doc.summary);
    text(out, "since", doc.since);
    text(out, "group", doc.group.name());
    text(out, "complexity", doc.complexity);
    if let Some(flag) = doc_flag {
        out.bulk(b"doc_flags");
        out.set(1);
        out.simple(flag);
    }
    if let Some((since, instead)) = doc.deprecated {
        text(out, "deprecated_since", since);
        text(out, "replaced_by", instead);
    }
    if !doc.history.is_empty() {
        out.bulk(b"history");
        out.set(doc.history.len());
        for (since, change) in doc.history {
            out.array(2);
            out.bulk(since.as_bytes());
            out.bulk(change.as_bytes());
        }
        count += 1;
    }
    if !doc.args.is_empty() {
        out.bulk(b"arguments");
        write_args(out, doc.args);
        count += 1;
    }
    if !command.public_subcommands().is_empty() {
        out.bulk(b"subcommands");
        out.map(command.public_subcommands().len());
        for sub in command.public_subcommands() {
            let name = format!("{full_name}|{}", sub.name);
            out.bulk(name.as_bytes());
            write(out, &name, sub);
        }
        count += 1;
    }
    out.set_len(map, count);
}

fn write_args(out: &mut ReplyBuffer<'_>, args: &[Arg]) {
    out.array(args.len());
    for arg in args {
        write_arg(out, arg);
    }
}

fn write_arg(out: &mut ReplyBuffer<'_>, arg: &Arg) {
    let is_container = matches!(arg.kind, ArgType::OneOf | ArgType::Block);
    let mut texts = vec![("name", arg.name), ("type", arg.kind.name())];
    if !is_container {
        texts.push(("display_text", arg.shown.unwrap_or(arg.name)));
    }
    texts.extend(arg.token.map(|token| ("token", token)));
    texts.extend(arg.since.map(|since| ("since", since)));
    texts.extend(arg.deprecated.map(|since| ("deprecated_since", since)));
    let flags: Vec<&str> =
        [(arg.optional, "optional"), (arg.multiple, "multiple"), (arg.multiple_token, "multiple_token")]
            .into_iter()
            .filter_map(|(is_set, name)| is_set.then_some(name))
            .collect();
    out.map(
        texts.len()
            + usize::from(arg.key_spec.is_some())
            + usize::from(!flags.is_empty())
            + usize::from(is_container),
    );
    for (name, text) in texts {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    if let Some(spec) = arg.key_spec {
        out.bulk(b"key_spec_index");
        out.integer(spec.into());
    }
    if !flags.is_empty() {
        out.bulk(b"flags");
        out.set(flags.len());
        flags.iter().for_each(|flag| out.simple(flag));
    }
    if is_container {
        out.bulk(b"arguments");
        write_args(out, arg.children);
    }
}
