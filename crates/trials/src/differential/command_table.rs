//! Compares COMMAND INFO of each command that both servers have: arity, flags, keys, categories, tips.

use std::collections::BTreeMap;
use std::io;

use crate::reply::Reply;
use crate::server::Server;

/// The parts of a COMMAND INFO entry after the name, in order. All parts except numbers are sets.
const PARTS: &[&str] =
    &["arity", "flags", "first key", "last key", "step", "categories", "hints", "key specifications"];

/// An accepted difference: command (or `*`), part, reason.
pub type Exception = (&'static str, &'static str, &'static str);

/// Returns one line for each part of a command's entry in which ours differs from the reference's.
pub fn compare(reference: &Server, ours: &Server, exceptions: &[Exception]) -> io::Result<Vec<String>> {
    let reference_entries = entries(reference)?;
    let mut lines = Vec::new();
    for (name, parts) in entries(ours)? {
        let Some(reference_parts) = reference_entries.get(&name) else { continue };
        for (index, part) in PARTS.iter().enumerate() {
            let is_excepted = exceptions.iter().any(|(of, on, _)| (*of == name || *of == "*") && on == part);
            let (compared, own) = (reference_parts.get(index), parts.get(index));
            if compared != own && !is_excepted {
                lines.push(format!(
                    "{name}: {part}: {} has {compared:?}, {} has {own:?}",
                    reference.name(),
                    ours.name()
                ));
            }
        }
    }
    Ok(lines)
}

/// Returns the entry of every command and subcommand, by name.
fn entries(server: &Server) -> io::Result<BTreeMap<String, Vec<Reply>>> {
    let mut found = BTreeMap::new();
    collect(server.connect()?.call(&["COMMAND"])?.reply, &mut found);
    match found.is_empty() {
        true => Err(io::Error::other(format!("COMMAND of {} lists nothing", server.name()))),
        false => Ok(found),
    }
}

fn collect(list: Reply, found: &mut BTreeMap<String, Vec<Reply>>) {
    let Reply::List(_, commands) = list else { return };
    for command in commands {
        let Reply::List(_, mut parts) = command else { continue };
        if parts.len() > PARTS.len() + 1 {
            collect(parts.swap_remove(PARTS.len() + 1), found);
        }
        parts.truncate(PARTS.len() + 1);
        if let Reply::Bulk(name) = parts.remove(0) {
            if let Some(Reply::List(_, specs)) = parts.get_mut(PARTS.len() - 1) {
                specs.iter_mut().for_each(remove_notes);
            }
            let parts = parts.into_iter().map(as_set).collect();
            found.insert(String::from_utf8_lossy(&name).to_ascii_lowercase(), parts);
        }
    }
}

/// Removes notes on keys: they are prose and differ between servers.
fn remove_notes(spec: &mut Reply) {
    let Reply::List(_, parts) = spec else { return };
    let is_notes = |part: &Reply| matches!(part, Reply::Bulk(text) | Reply::Simple(text) if text == b"notes");
    if let Some(at) = parts.iter().position(is_notes) {
        parts.drain(at..=at + 1);
    }
}

/// Sorts lists at all depths.
fn as_set(reply: Reply) -> Reply {
    match reply {
        Reply::List(_, items) => {
            let mut items: Vec<Reply> = items.into_iter().map(as_set).collect();
            items.sort();
            Reply::List(b'~', items)
        }
        Reply::Simple(text) => Reply::Bulk(text),
        other => other,
    }
}
