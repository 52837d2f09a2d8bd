//! The commands that the audit must contain: those whose documented cost depends on their arguments.

use std::collections::BTreeSet;
use std::io;

use super::cases;
use crate::reply::Reply;
use crate::server::Server;

/// Commands without a case, with the reason.
const NOT_AUDITED: &[(&str, &str)] = &[
    ("auth", "one password"),
    ("cluster", "cluster nodes are not implemented yet"),
    ("clusterscan", "refused outside of a cluster"),
    ("commandlog", "its list has a maximum"),
    ("latency", "its lists have a maximum"),
    ("migrate", "its cost is that of `DUMP`, `RESTORE` and the network"),
    ("module", "modules are not supported"),
    ("restore", "its payloads are bytes that `DUMP` makes"),
    ("restore-asking", "as `restore`"),
    ("save", "writes a file, see the measurements of snapshots"),
    ("shutdown", "ends the server"),
    ("slowlog", "its list has a maximum"),
    ("spublish", "as `publish`"),
];

/// Returns the errors in the audit's table, one per line: commands that are in neither the table nor the list
/// of exceptions, and needless exceptions.
pub fn complaints(server: &Server) -> io::Result<Vec<String>> {
    let audited: BTreeSet<String> = cases::all().flat_map(|case| case.commands()).collect();
    let mut scalable = BTreeSet::new();
    let Reply::List(_, docs) = server.connect()?.call(&["COMMAND", "DOCS"])?.reply else {
        return Err(io::Error::other("COMMAND DOCS returns no list"));
    };
    for pair in docs.chunks_exact(2) {
        if let [Reply::Bulk(name), Reply::List(_, doc)] = pair
            && is_scalable(doc)
        {
            scalable.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    let is_excepted = |name: &str| NOT_AUDITED.iter().any(|(excepted, _)| *excepted == name);
    let missing = scalable.iter().filter(|name| !audited.contains(*name) && !is_excepted(name));
    let needless =
        NOT_AUDITED.iter().filter(|(name, _)| audited.contains(*name) || !scalable.contains(*name));
    let missing = missing.map(|name| format!("{name} has no case"));
    Ok(missing.chain(needless.map(|(name, _)| format!("{name} needs no exception"))).collect())
}

/// Whether the cost may depend on a count, a range or the number of arguments.
fn is_scalable(doc: &[Reply]) -> bool {
    let part = |name: &str| doc.chunks_exact(2).find(|pair| is_text(&pair[0], name)).map(|pair| &pair[1]);
    let is_constant = |complexity: &Reply| is_text(complexity, "O(1)") || is_text(complexity, "N/A");
    part("complexity").is_some_and(|complexity| !is_constant(complexity))
        || part("arguments").is_some_and(has_repeated)
}

fn is_text(reply: &Reply, expected: &str) -> bool {
    matches!(reply, Reply::Bulk(text) | Reply::Simple(text) if text == expected.as_bytes())
}

/// Whether an argument, at any depth, may be repeated.
fn has_repeated(arguments: &Reply) -> bool {
    match arguments {
        Reply::List(_, parts) => parts.iter().any(has_repeated),
        text => is_text(text, "multiple"),
    }
}
