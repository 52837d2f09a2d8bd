//! How a request accesses its keys, where that depends on its options.

use wire::request::Args;

use crate::command::{Command, KeyFlags, KeySpec};
use crate::error::up_to_nul;
use crate::word::Word;

/// Returns how a request accesses the keys of a spec, depending on the options where necessary. `command` must have its
/// original name, not a renamed one.
#[must_use]
pub fn flags_of(command: &Command, spec: &KeySpec, request: Args<'_>) -> KeyFlags {
    let flags = spec.flags.difference(KeyFlags::VARIABLE_FLAGS | KeyFlags::INCOMPLETE);
    if !spec.flags.contains(KeyFlags::VARIABLE_FLAGS) {
        return flags;
    }
    let has = |word: &str| request.tail(3.min(request.len())).iter().any(|arg| arg.eq_token(word));
    match command.name {
        "set" if has("get") => flags,
        // A comparison does not return the value: it needs no permission to read. Valkey, which has only `IFEQ`, calls it an
        // overwriting.
        "set" if ["ifne", "ifdeq", "ifdne"].into_iter().any(has) => KeyFlags::RW | KeyFlags::UPDATE,
        "set" => KeyFlags::OW | KeyFlags::UPDATE,
        "bitfield" if only_gets(request) => KeyFlags::RO | KeyFlags::ACCESS,
        _ => flags,
    }
}

/// Whether a `BITFIELD` request only reads; an invalid operation counts as a change.
fn only_gets(request: Args<'_>) -> bool {
    let mut at = 2;
    while let Some(word) = request.get(at) {
        at += match up_to_nul(word).to_ascii_lowercase().as_slice() {
            b"get" => 3,
            b"overflow" => 2,
            _ => return false,
        };
    }
    at == request.len()
}
