//! The command table: the one list of all commands, and lookup by name. `COMMAND` is here because it describes
//! the table.
//!
//! Invariants: sorted by name, names are unique. Subcommands are in their container. Start reading at
//! [`COMMANDS`].

mod command;
pub mod index;

use std::sync::LazyLock;

use wire::request::Args;

pub use self::index::{CommandId, Index, Names, ResolvedCommand};
use crate::acl::{self, Catalogue};
use crate::bitmap::*;
use crate::command::Command;
use crate::connection::*;
use crate::generic::*;
use crate::geo::*;
use crate::hash::*;
use crate::hyperloglog::*;
use crate::list::*;
use crate::pubsub::*;
use crate::scripting::*;
use crate::serialization::*;
use crate::server::*;
use crate::set::*;
use crate::sorted_set::*;
use crate::stream::*;
use crate::string::*;
use crate::transaction::*;

/// Every command, sorted by name.
#[rustfmt::skip] // A line each, so that the table reads as one and merges by itself.
pub static COMMANDS: &[&Command] = &[
    &acl::COMMAND,
    &append::COMMAND,
    &cluster::ASKING,
    &auth::COMMAND,
    &saving::BGREWRITEAOF,
    &saving::BGSAVE,
    &bitcount::COMMAND,
    &bitfield::BITFIELD,
    &bitfield::BITFIELD_RO,
    &bitop::COMMAND,
    &bitpos::COMMAND,
    &lmove::BLMOVE,
    &lmpop::BLMPOP,
    &blocking_pop::BLPOP,
    &blocking_pop::BRPOP,
    &lmove::BRPOPLPUSH,
    &bzpop::BZMPOP,
    &bzpop::BZPOPMAX,
    &bzpop::BZPOPMIN,
    &client::COMMAND,
    &cluster::COMMAND,
    &cluster::CLUSTERSCAN,
    &command::COMMAND,
    &command_log::COMMANDLOG,
    &config::COMMAND,
    &copy::COMMAND,
    &dbsize::COMMAND,
    &debug::COMMAND,
    &incr::DECR,
    &incr::DECRBY,
    &del::DEL,
    &delex::COMMAND,
    &delifeq::COMMAND,
    &digest::COMMAND,
    &multi::DISCARD,
    &dump::COMMAND,
    &echo::COMMAND,
    &eval::EVAL,
    &eval::EVAL_RO,
    &eval::EVALSHA,
    &eval::EVALSHA_RO,
    &exec::COMMAND,
    &exists::EXISTS,
    &expire::EXPIRE,
    &expire::EXPIREAT,
    &ttl::EXPIRETIME,
    &replication::FAILOVER,
    &fcall::FCALL,
    &fcall::FCALL_RO,
    &flush::FLUSHALL,
    &flush::FLUSHDB,
    &function::COMMAND,
    &geoadd::COMMAND,
    &geopos::GEODIST,
    &geopos::GEOHASH,
    &geopos::GEOPOS,
    &georadius::GEORADIUS,
    &georadius::GEORADIUS_RO,
    &georadius::GEORADIUSBYMEMBER,
    &georadius::GEORADIUSBYMEMBER_RO,
    &geosearch::GEOSEARCH,
    &geosearch::GEOSEARCHSTORE,
    &get::COMMAND,
    &setbit::GETBIT,
    &getdel::COMMAND,
    &getex::COMMAND,
    &getrange::GETRANGE,
    &getset::COMMAND,
    &hdel::COMMAND,
    &hello::COMMAND,
    &hexists::COMMAND,
    &hexpire::HEXPIRE,
    &hexpire::HEXPIREAT,
    &httl::HEXPIRETIME,
    &hget::COMMAND,
    &hgetall::HGETALL,
    &hgetdel::COMMAND,
    &hgetex::COMMAND,
    &hincrby::COMMAND,
    &hincrbyfloat::COMMAND,
    &hgetall::HKEYS,
    &hlen::COMMAND,
    &hmget::COMMAND,
    &hset::HMSET,
    &hpersist::COMMAND,
    &hexpire::HPEXPIRE,
    &hexpire::HPEXPIREAT,
    &httl::HPEXPIRETIME,
    &httl::HPTTL,
    &hrandfield::COMMAND,
    &hscan::COMMAND,
    &hset::HSET,
    &hsetex::COMMAND,
    &hsetnx::COMMAND,
    &hstrlen::COMMAND,
    &httl::HTTL,
    &hgetall::HVALS,
    &incr::INCR,
    &incr::INCRBY,
    &incrbyfloat::COMMAND,
    &info::COMMAND,
    &keys::COMMAND,
    &saving::LASTSAVE,
    &latency::COMMAND,
    &lcs::COMMAND,
    &lindex::COMMAND,
    &linsert::COMMAND,
    &llen::COMMAND,
    &lmove::LMOVE,
    &lmpop::LMPOP,
    &lolwut::COMMAND,
    &lpop::LPOP,
    &lpos::COMMAND,
    &lpush::LPUSH,
    &lpush::LPUSHX,
    &lrange::COMMAND,
    &lrem::COMMAND,
    &lset::COMMAND,
    &ltrim::COMMAND,
    &memory::COMMAND,
    &mget::COMMAND,
    &migrate::COMMAND,
    &module::COMMAND,
    &monitor::COMMAND,
    &move_key::COMMAND,
    &mset::MSET,
    &msetex::COMMAND,
    &mset::MSETNX,
    &multi::MULTI,
    &object::COMMAND,
    &persist::COMMAND,
    &expire::PEXPIRE,
    &expire::PEXPIREAT,
    &ttl::PEXPIRETIME,
    &pfadd::COMMAND,
    &pfcount::COMMAND,
    &pfdebug::COMMAND,
    &pfmerge::COMMAND,
    &pfselftest::COMMAND,
    &ping::COMMAND,
    &setex::PSETEX,
    &subscribe::PSUBSCRIBE,
    &sync::PSYNC,
    &ttl::PTTL,
    &publish::PUBLISH,
    &introspection::COMMAND,
    &subscribe::PUNSUBSCRIBE,
    &quit::COMMAND,
    &randomkey::COMMAND,
    &cluster::READONLY,
    &cluster::READWRITE,
    &rename::RENAME,
    &rename::RENAMENX,
    &sync::REPLCONF,
    &replication::REPLICAOF,
    &reset::COMMAND,
    &restore::RESTORE,
    &restore::RESTORE_ASKING,
    &role::COMMAND,
    &lpop::RPOP,
    &lmove::RPOPLPUSH,
    &lpush::RPUSH,
    &lpush::RPUSHX,
    &sadd::COMMAND,
    &saving::SAVE,
    &scan::COMMAND,
    &scard::COMMAND,
    &script::COMMAND,
    &sdiff::SDIFF,
    &sdiff::SDIFFSTORE,
    &select::COMMAND,
    &set::COMMAND,
    &setbit::SETBIT,
    &setex::SETEX,
    &setnx::COMMAND,
    &setrange::COMMAND,
    &shutdown::COMMAND,
    &sinter::SINTER,
    &sinter::SINTERCARD,
    &sinter::SINTERSTORE,
    &sismember::SISMEMBER,
    &replication::SLAVEOF,
    &command_log::SLOWLOG,
    &smembers::COMMAND,
    &sismember::SMISMEMBER,
    &smove::COMMAND,
    &sort::SORT,
    &sort::SORT_RO,
    &spop::COMMAND,
    &publish::SPUBLISH,
    &srandmember::COMMAND,
    &srem::COMMAND,
    &sscan::COMMAND,
    &subscribe::SSUBSCRIBE,
    &strlen::COMMAND,
    &subscribe::SUBSCRIBE,
    &getrange::SUBSTR,
    &sunion::SUNION,
    &sunion::SUNIONSTORE,
    &subscribe::SUNSUBSCRIBE,
    &swapdb::COMMAND,
    &sync::SYNC,
    &time::COMMAND,
    &exists::TOUCH,
    &ttl::TTL,
    &type_of::COMMAND,
    &del::UNLINK,
    &subscribe::UNSUBSCRIBE,
    &watch::UNWATCH,
    &wait::WAIT,
    &wait::WAITAOF,
    &watch::WATCH,
    &xack::COMMAND,
    &xackdel::XACKDEL,
    &xadd::COMMAND,
    &xautoclaim::COMMAND,
    &xclaim::COMMAND,
    &xdel::COMMAND,
    &xackdel::XDELEX,
    &xgroup::COMMAND,
    &xinfo::COMMAND,
    &xlen::COMMAND,
    &xpending::COMMAND,
    &xrange::XRANGE,
    &xread::XREAD,
    &xread::XREADGROUP,
    &xrange::XREVRANGE,
    &xsetid::COMMAND,
    &xtrim::COMMAND,
    &zadd::ZADD,
    &zcount::ZCARD,
    &zcount::ZCOUNT,
    &zdiff::ZDIFF,
    &zdiff::ZDIFFSTORE,
    &zadd::ZINCRBY,
    &zinter::ZINTER,
    &zinter::ZINTERCARD,
    &zinter::ZINTERSTORE,
    &zcount::ZLEXCOUNT,
    &zpop::ZMPOP,
    &zscore::ZMSCORE,
    &zpop::ZPOPMAX,
    &zpop::ZPOPMIN,
    &zrandmember::COMMAND,
    &zrange::ZRANGE,
    &zrange::ZRANGEBYLEX,
    &zrange::ZRANGEBYSCORE,
    &zrange::ZRANGESTORE,
    &zrank::ZRANK,
    &zrem::COMMAND,
    &zremrange::ZREMRANGEBYLEX,
    &zremrange::ZREMRANGEBYRANK,
    &zremrange::ZREMRANGEBYSCORE,
    &zrange::ZREVRANGE,
    &zrange::ZREVRANGEBYLEX,
    &zrange::ZREVRANGEBYSCORE,
    &zrank::ZREVRANK,
    &zscan::COMMAND,
    &zscore::ZSCORE,
    &zunion::ZUNION,
    &zunion::ZUNIONSTORE,
];

/// All commands and subcommands with their full names, by number.
pub static NUMBERED: LazyLock<Vec<(String, &'static Command)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for command in COMMANDS {
        all.push((command.name.to_owned(), *command));
        all.extend(
            command.public_subcommands().iter().map(|sub| (format!("{}|{}", command.name, sub.name), sub)),
        );
    }
    all
});

/// The commands that ACL rules can name.
pub static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::new(&NUMBERED));

/// Returns the command or subcommand with this full name (`config|get`), in any case, and its full name.
#[must_use]
pub fn find_by_full_name(name: &[u8]) -> Option<(String, &'static Command)> {
    let name = String::from_utf8(name.to_ascii_lowercase()).ok()?;
    let (first, sub) = name.split_once('|').map_or((name.as_str(), None), |(first, sub)| (first, Some(sub)));
    let place = COMMANDS.binary_search_by_key(&first, |command| command.name).ok()?;
    let command = match sub {
        None => COMMANDS[place],
        Some(sub) => COMMANDS[place].subcommands.iter().find(|command| command.name == sub)?,
    };
    Some((name, command))
}

/// Returns the command or subcommand of a request.
#[must_use]
pub fn find(request: Args<'_>) -> Option<&'static Command> {
    let (_, command) = find_by_full_name(request.get(0)?).filter(|(name, _)| !name.contains('|'))?;
    let sub =
        |word: &[u8]| command.subcommands.iter().find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(word));
    if command.public_subcommands().is_empty() {
        Some(command)
    } else {
        request.get(1).map_or(Some(command), sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Access, Begin, Find, Flags, KeyFlags};
    use crate::doc::{Arg, ArgType};

    #[test]
    fn sorted_and_unique() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
    }

    /// Checks every line of the table, subcommands included, with its full name; all complaints are reported
    /// together.
    fn assert_each(complain: impl Fn(&Command, &mut Vec<String>)) {
        let mut complaints = Vec::new();
        for (full_name, command) in NUMBERED.iter() {
            let mut own = Vec::new();
            complain(command, &mut own);
            complaints.extend(own.into_iter().map(|complaint| format!("{full_name}: {complaint}")));
        }
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }

    #[test]
    fn subcommands_are_unique_and_not_nested() {
        assert_each(|command, complaints| {
            for (index, sub) in command.subcommands.iter().enumerate() {
                if command.subcommands[..index].iter().any(|earlier| earlier.name == sub.name) {
                    complaints.push(format!("two subcommands {}", sub.name));
                }
                if !sub.subcommands.is_empty() {
                    complaints.push(format!("{} has subcommands", sub.name));
                }
            }
        });
    }

    #[test]
    fn names_are_words_in_lower_case() {
        assert_each(|command, complaints| {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
            if command.name.is_empty() || !command.name.bytes().all(fits) {
                complaints.push("odd name".to_owned());
            }
        });
    }

    #[test]
    fn arity_covers_the_key_positions() {
        assert_each(|command, complaints| {
            let argc_min = command.arity.unsigned_abs();
            for spec in command.keys {
                let Begin::Index(begin) = spec.begin else { continue };
                // Names of channels are optional.
                if spec.flags.contains(KeyFlags::NOT_KEY) && begin >= argc_min {
                    continue;
                }
                let last = match spec.find {
                    Find::Range { last, .. } => begin + last.max(0) as u32,
                    Find::KeyNum { count_at, .. } => begin + count_at,
                    Find::Unknown => begin,
                };
                // An open range of keys may be empty.
                let is_open = matches!(spec.find, Find::Range { last, .. } if last < 0);
                if last >= argc_min && !(is_open && begin == argc_min) {
                    complaints.push(format!("key position {last} with {argc_min} arguments"));
                }
            }
        });
    }

    #[test]
    fn each_flag_has_a_bit_of_its_own() {
        assert_eq!(<Flags as bitflags::Flags>::FLAGS.len(), Flags::all().bits().count_ones() as usize);
    }

    #[test]
    fn the_subcommands_of_client_and_debug_are_flagged() {
        for (name, command) in NUMBERED.iter() {
            assert_eq!(command.flags.contains(Flags::KEEPS_CACHING), name.starts_with("client|"), "{name}");
            let mut of_debug = command.subcommands.iter().chain([*command]).filter(|_| name == "debug");
            assert!(of_debug.all(|one| one.flags.contains(Flags::FOR_DEBUGGING)), "{name}");
            assert!(name == "debug" || !command.flags.contains(Flags::FOR_DEBUGGING), "{name}");
        }
    }

    #[test]
    fn flags_and_access_agree() {
        assert_each(|command, complaints| {
            let writes = matches!(
                command.access,
                Access::Write | Access::WriteAll | Access::WriteAllIf(_) | Access::Libraries
            );
            let (write, readonly) = (Flags::WRITE, Flags::READONLY);
            if command.flags.contains(write) && !writes && command.access != Access::Queued {
                complaints.push("a write without write access".to_owned());
            }
            let effects = [Flags::LOG_VERBATIM, Flags::LOG_INSTEAD];
            let effect_count = effects.iter().filter(|flag| command.flags.contains(**flag)).count();
            if effect_count != usize::from(command.flags.contains(write) || command.name == "pfcount") {
                complaints.push("not exactly one of LOG_VERBATIM and LOG_INSTEAD for a write".to_owned());
            }
            // A command that may store its result is flagged as such.
            let may_store = command.flags.contains(Flags::MAY_REPLICATE);
            if command.flags.contains(readonly) && writes && !may_store {
                complaints.push("read-only with write access".to_owned());
            }
            if command.flags.contains(write.union(readonly)) {
                complaints.push("both write and read-only".to_owned());
            }
            if command.flags.contains(Flags::DENYOOM) && !command.flags.contains(write) {
                complaints.push("needs memory but does not write".to_owned());
            }
            let by_keys = matches!(command.access, Access::Read | Access::Write);
            if by_keys && command.keys.is_empty() {
                complaints.push("latches the slots of its keys, and has none".to_owned());
            }
        });
    }

    #[test]
    fn key_flags_match_the_effects() {
        let (kinds, effects) = (
            KeyFlags::RW.union(KeyFlags::RO).union(KeyFlags::OW).union(KeyFlags::RM),
            KeyFlags::UPDATE.union(KeyFlags::INSERT).union(KeyFlags::DELETE),
        );
        assert_each(|command, complaints| {
            for (index, spec) in command.keys.iter().enumerate() {
                let is_key = !spec.flags.contains(KeyFlags::NOT_KEY);
                if is_key && spec.flags.intersection(kinds).bits().count_ones() != 1 {
                    complaints.push(format!("key spec {index} is not exactly one of RW, RO, OW, RM"));
                }
                let changes = spec.flags.intersects(effects);
                if spec.flags.contains(KeyFlags::RO) && changes {
                    complaints.push(format!("key spec {index} changes what it only reads"));
                }
                if changes && matches!(command.access, Access::Read | Access::ReadAll | Access::ReadAllIf(_))
                {
                    complaints.push(format!("key spec {index} changes keys under read latches"));
                }
            }
        });
    }

    #[test]
    fn documentation_is_complete() {
        assert_each(|command, complaints| {
            let doc = &command.doc;
            let is_sentence = doc.summary.ends_with('.') && doc.summary.starts_with(char::is_uppercase);
            if !is_sentence {
                complaints.push("summary is no sentence".to_owned());
            }
            let versions = [doc.since].into_iter().chain(doc.history.iter().map(|(version, _)| *version));
            for version in versions.chain(doc.deprecated.map(|(version, _)| version)) {
                if !is_version(version) {
                    complaints.push(format!("version {version:?}"));
                }
            }
            if !doc.history.is_sorted_by_key(|(version, _)| version_parts(version)) {
                complaints.push("history out of order".to_owned());
            }
            if doc.complexity.is_empty() {
                complaints.push("no complexity".to_owned());
            }
            for arg in doc.args {
                check_arg(arg, command, complaints);
            }
        });
    }

    fn check_arg(arg: &Arg, command: &Command, complaints: &mut Vec<String>) {
        let mut complain = |what: &str| complaints.push(format!("argument {}: {what}", arg.name));
        // Redis spells the argument name of stream IDs in capitals.
        let is_entry_id = arg.name == "ID";
        if arg.name.is_empty() || (!is_entry_id && arg.name.chars().any(char::is_uppercase)) {
            complain("odd name");
        }
        match (arg.kind, arg.key_spec) {
            (ArgType::Key, None) => complain("key without key spec"),
            (ArgType::Key | ArgType::Pattern, Some(spec)) if usize::from(spec) >= command.keys.len() => {
                complain("no such key spec");
            }
            // A pattern may have a key spec, and Valkey gives the number of fields one.
            (ArgType::Key | ArgType::Pattern, _) | (_, None) => {}
            (ArgType::Integer, Some(0)) if arg.name == "numfields" => {}
            (_, Some(_)) => complain("key spec, but no key"),
        }
        let has_parts = matches!(arg.kind, ArgType::OneOf | ArgType::Block);
        if has_parts == arg.children.is_empty() {
            complain("parts where there should be none, or none where there should be");
        }
        if arg.kind == ArgType::PureToken && arg.token.is_none() {
            complain("no word");
        }
        if arg.since.is_some_and(|version| !is_version(version)) {
            complain("odd version");
        }
        for child in arg.children {
            check_arg(child, command, complaints);
        }
    }

    fn version_parts(version: &str) -> Vec<u32> {
        version.split('.').map_while(|part| part.parse().ok()).collect()
    }

    fn is_version(version: &str) -> bool {
        version.split('.').count() == 3 && version_parts(version).len() == 3
    }
}
