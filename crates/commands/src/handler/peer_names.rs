//! Names of commands that Redis (up to 8.10) or Valkey (up to 9.1) has and this server does not.
//!
//! ACL rules and `rename-command` may name them, as hardened configurations do. They allow and rename nothing: to
//! clients and in `COMMAND` these commands are unknown. Invariant: [`COMMANDS`] is sorted,
//! and no command of the table is listed.

/// Full names, subcommands included.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "arcount", "ardel", "ardelrange", "arget", "argetrange", "argrep", "arinfo", "arinsert", "arlastitems", "arlen",
    "armget", "armset", "arnext", "arop", "arring", "arscan", "arseek", "arset",
    "backup", "backup|abort", "backup|cleanup", "backup|help", "backup|list", "backup|seal", "backup|start",
    "backup|status",
    "blmovem",
    "cluster|migration", "cluster|syncslots",
    "himport", "himport|discard", "himport|discardall", "himport|help", "himport|prepare", "himport|set",
    "host:",
    "hotkeys", "hotkeys|get", "hotkeys|help", "hotkeys|reset", "hotkeys|start", "hotkeys|stop",
    "increx",
    "lmovem",
    "post",
    "sdiffcard",
    "sentinel", "sentinel|ckquorum", "sentinel|config", "sentinel|debug", "sentinel|failover", "sentinel|flushconfig",
    "sentinel|get-master-addr-by-name", "sentinel|get-primary-addr-by-name", "sentinel|help", "sentinel|info-cache",
    "sentinel|is-master-down-by-addr", "sentinel|is-primary-down-by-addr", "sentinel|master", "sentinel|masters",
    "sentinel|monitor", "sentinel|myid", "sentinel|pending-scripts", "sentinel|primaries", "sentinel|primary",
    "sentinel|remove", "sentinel|replicas", "sentinel|reset", "sentinel|sentinels", "sentinel|set",
    "sentinel|simulate-failure", "sentinel|slaves",
    "sflush",
    "stralgo",
    "sunioncard",
    "trimslots",
    "vadd", "vcard", "vdim", "vemb", "vgetattr", "vinfo", "vismember", "vlinks", "vrandmember", "vrange", "vrem",
    "vsetattr", "vsim",
    "xcfgset", "xidmprecord", "xnack",
];

/// What the names of the commands of modules that are shipped with Redis or Valkey begin with.
const MODULE_PREFIXES: &[&str] =
    &["_ft.", "bf.", "cf.", "cms.", "ft.", "json.", "search.", "tdigest.", "timeseries.", "topk.", "ts."];

/// The categories of commands that do not exist here.
const CATEGORIES: &[&str] =
    &["array", "bloom", "cms", "cuckoo", "json", "search", "tdigest", "timeseries", "topk"];

/// Whether this is the full name of such a command, in any case.
#[must_use]
pub fn is_command(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_of_module = |prefix: &&str| {
        name.strip_prefix(prefix.as_bytes()).is_some_and(|rest| {
            rest.first().is_some_and(u8::is_ascii_alphabetic)
                && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.|-".contains(byte))
        })
    };
    COMMANDS.binary_search_by_key(&&*name, |known| known.as_bytes()).is_ok()
        || MODULE_PREFIXES.iter().any(is_of_module)
}

/// Whether such a command has subcommands.
#[must_use]
pub fn is_container(name: &[u8]) -> bool {
    let prefix = [name.to_ascii_lowercase().as_slice(), b"|"].concat();
    COMMANDS.iter().any(|known| known.as_bytes().starts_with(&prefix))
}

/// Whether this is the name of a category that has no commands here, in any case.
#[must_use]
pub fn is_category(name: &[u8]) -> bool {
    CATEGORIES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Categories;
    use crate::table::CATALOGUE;

    #[test]
    fn names_are_sorted_and_not_implemented() {
        assert!(COMMANDS.is_sorted_by(|a, b| a < b));
        let implemented = COMMANDS.iter().find(|name| CATALOGUE.find(name.as_bytes()).is_some());
        assert_eq!(implemented, None, "the command is in the table now: remove its name here");
        assert!(CATEGORIES.iter().all(|name| Categories::by_name(name.as_bytes()).is_none()));
    }

    #[test]
    fn commands_of_modules_are_known_by_their_prefix() {
        for name in ["JSON.SET", "ft.search", "_FT.CONFIG", "ts.madd", "ft.config|get"] {
            assert!(is_command(name.as_bytes()), "{name}");
        }
        for name in ["json.", "json", "x.set", "ft. x", "ft.1"] {
            assert!(!is_command(name.as_bytes()), "{name}");
        }
    }
}
