//! Filters of `CLIENT LIST` and `CLIENT KILL`.
//!
//! Each criterion has two forms, `NAME x` and `NOT-NAME x`: a connection matches if it meets all of the first
//! form and none of the second. If a criterion is repeated, the last one counts.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::acl::Users;
use crate::doc::Arg;
use crate::error::{CommandError, up_to_nul};
use crate::host::{ClientFilter, ClientKind, Criteria};

/// All flag letters, including letters of features that do not exist yet.
const FLAG_LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIiENC";

/// The value of `SKIPME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipMe {
    /// Excludes the calling connection.
    Yes,
    /// Excludes none.
    No,
}

/// The server state that is needed to parse a filter.
#[derive(Clone, Copy)]
pub struct FilterContext<'a> {
    /// The calling connection.
    pub own_id: u64,
    /// The number of databases.
    pub db_count: u32,
    /// The users.
    pub users: &'a Users,
}

/// Parses a filter from the arguments from `at` on.
pub fn parse(
    args: Args<'_>,
    mut at: usize,
    default: SkipMe,
    context: FilterContext<'_>,
) -> Result<ClientFilter, CommandError> {
    let mut filter = ClientFilter::default();
    let mut skip = default;
    while let Some(word) = args.get(at) {
        let word = up_to_nul(word).to_ascii_lowercase();
        let (criterion, criteria, inverted) = match word.strip_prefix(b"not-") {
            Some(rest) => (rest, &mut filter.drop, true),
            None => (word.as_slice(), &mut filter.keep, false),
        };
        if criterion == b"id" {
            at += 1 + parse_ids(args, at + 1, criteria.ids.get_or_insert_default())?;
            continue;
        }
        let value = args.get(at + 1).ok_or(CommandError::SYNTAX)?;
        match (criterion, inverted) {
            (b"maxage", false) => filter.age_seconds_min = Some(positive("maxage", value)?),
            (b"idle", false) => filter.idle_seconds_min = Some(positive("idle", value)?),
            (b"skipme", false) => {
                skip = match up_to_nul(value).to_ascii_lowercase().as_slice() {
                    b"yes" => SkipMe::Yes,
                    b"no" => SkipMe::No,
                    _ => return Err(CommandError::SYNTAX),
                };
            }
            _ => parse_criterion(criteria, criterion, inverted, value, context)?,
        }
        at += 2;
    }
    filter.skip_id = (skip == SkipMe::Yes).then_some(context.own_id);
    Ok(filter)
}

/// Parses the IDs at `at`; returns the number of arguments.
fn parse_ids(args: Args<'_>, at: usize, ids: &mut Vec<u64>) -> Result<usize, CommandError> {
    let mut count = 0;
    while let Some(id) = args.get(at + count).and_then(parse_i64_strict) {
        let id = u64::try_from(id).ok().filter(|id| *id > 0);
        ids.push(id.ok_or(CommandError::new("ERR client-id should be greater than 0"))?);
        count += 1;
    }
    Ok(count)
}

fn positive(what: &str, value: &[u8]) -> Result<u64, CommandError> {
    let number = parse_i64_strict(value)
        .ok_or_else(|| CommandError::owned(format!("ERR {what} is not an integer or out of range")))?;
    u64::try_from(number)
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| CommandError::owned(format!("ERR {what} should be greater than 0")))
}

fn parse_criterion(
    criteria: &mut Criteria,
    criterion: &[u8],
    inverted: bool,
    value: &[u8],
    context: FilterContext<'_>,
) -> Result<(), CommandError> {
    // Valkey compares most of them as C strings.
    let value = match criterion {
        b"db" | b"lib-name" | b"lib-ver" | b"user" => value,
        _ => up_to_nul(value),
    };
    let text = Some(value.to_vec());
    match criterion {
        b"type" => {
            criteria.kind = Some(
                ClientKind::from_name(value)
                    .ok_or_else(|| CommandError::quote("ERR Unknown client type '", value, "'"))?,
            );
        }
        b"addr" => criteria.address = text,
        b"laddr" => criteria.local_address = text,
        b"ip" => criteria.ip = text,
        b"name" => criteria.name = text,
        b"lib-name" => criteria.lib_name = text,
        b"lib-ver" => criteria.lib_version = text,
        b"user" => {
            if context.users.find(value).is_none() {
                return Err(CommandError::quote("ERR No such user '", value, "'"));
            }
            criteria.user = text;
        }
        b"db" => criteria.db = Some(parse_db(inverted, value, context.db_count)?),
        b"flags" => {
            check_letters("flags", if inverted { "NOT-FLAGS" } else { "provided" }, FLAG_LETTERS, value)?;
            criteria.flags = text;
        }
        b"capa" => {
            check_letters("capa", if inverted { "NOT-CAPA" } else { "provided" }, b"r", value)?;
            criteria.capa = text;
        }
        _ => return Err(CommandError::SYNTAX),
    }
    Ok(())
}

fn parse_db(inverted: bool, value: &[u8], db_count: u32) -> Result<u16, CommandError> {
    let name = if inverted { "NOT-DB" } else { "DB" };
    let number = parse_i64_strict(value)
        .filter(|number| i32::try_from(*number).is_ok())
        .ok_or_else(|| CommandError::owned(format!("ERR {name} is not an integer or out of range")))?;
    u16::try_from(number).ok().filter(|db| u32::from(*db) < db_count).ok_or_else(|| {
        CommandError::owned(format!("ERR {name} number should be between 0 and {}", db_count - 1))
    })
}

fn check_letters(what: &str, filter: &str, context: &[u8], value: &[u8]) -> Result<(), CommandError> {
    if value.iter().all(|letter| context.contains(letter)) {
        return Ok(());
    }
    Err(CommandError::quote(&format!("ERR Unknown {what} found in the {filter} filter: "), value, ""))
}

const TYPES: &[Arg] = &[
    Arg::word("normal", "NORMAL"),
    Arg::word("master", "MASTER"),
    Arg::word("replica", "REPLICA"),
    Arg::word("pubsub", "PUBSUB"),
];

const KILL_TYPES: &[Arg] = &[
    Arg::word("normal", "NORMAL"),
    Arg::word("master", "MASTER").since("3.2.0"),
    Arg::word("primary", "PRIMARY").since("8.0.0"),
    Arg::word("slave", "SLAVE"),
    Arg::word("replica", "REPLICA").since("5.0.0"),
    Arg::word("pubsub", "PUBSUB"),
];

const NOT_KILL_TYPES: &[Arg] = &[
    Arg::word("normal", "NORMAL"),
    Arg::word("master", "MASTER"),
    Arg::word("primary", "PRIMARY"),
    Arg::word("slave", "SLAVE"),
    Arg::word("replica", "REPLICA"),
    Arg::word("pubsub", "PUBSUB"),
];

const ID: Arg = Arg::integer("client-id").token("ID").optional().multiple();
const TYPE: Arg = Arg::one_of("client-type", TYPES).token("TYPE").optional();
const KILL_TYPE: Arg = Arg::one_of("client-type", KILL_TYPES).token("TYPE").optional();
const USER: Arg = Arg::string("username").token("USER").optional();
const ADDR: Arg = Arg::string("addr").shown("ip:port").token("ADDR").optional();
const LADDR: Arg = Arg::string("laddr").shown("ip:port").token("LADDR").optional();
const SKIPME: Arg =
    Arg::one_of("skipme", &[Arg::word("yes", "YES"), Arg::word("no", "NO")]).token("SKIPME").optional();
const MAXAGE: Arg = Arg::integer("maxage").token("MAXAGE").optional();

/// Documentation of the criteria of `CLIENT LIST`.
pub const LIST_DOC: &[Arg] = &criteria(
    [
        TYPE.since("5.0.0"),
        ID.since("6.2.0"),
        USER.since("8.1.0"),
        ADDR.since("8.1.0"),
        LADDR.since("8.1.0"),
        SKIPME.since("8.1.0"),
        MAXAGE.since("8.1.0"),
    ],
    TYPES,
);

/// Documentation of the criteria of `CLIENT KILL`, with the versions that added them there.
pub const KILL_DOC: &[Arg] = &criteria(
    [
        ID.since("2.8.12"),
        KILL_TYPE.since("2.8.12"),
        USER,
        ADDR,
        LADDR.since("6.2.0"),
        SKIPME,
        MAXAGE.since("8.0.0"),
    ],
    NOT_KILL_TYPES,
);

/// Returns the given criteria, followed by those that one version added to both commands.
const fn criteria([a, b, c, d, e, f, g]: [Arg; 7], types: &'static [Arg]) -> [Arg; 27] {
    [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        Arg::string("name").token("NAME").optional().since("9.0.0"),
        Arg::integer("idle").token("IDLE").optional().since("9.0.0"),
        Arg::string("flags").token("FLAGS").optional().since("9.0.0"),
        Arg::string("lib-name").token("LIB-NAME").optional().since("9.0.0"),
        Arg::string("lib-ver").token("LIB-VER").optional().since("9.0.0"),
        Arg::integer("db").token("DB").optional().since("9.0.0"),
        Arg::string("capa").token("CAPA").optional().since("9.0.0"),
        Arg::string("ip").token("IP").optional().since("9.0.0"),
        Arg::one_of("not-client-type", types).token("NOT-TYPE").optional().since("9.0.0"),
        Arg::integer("not-client-id").token("NOT-ID").optional().multiple().since("9.0.0"),
        Arg::string("not-username").token("NOT-USER").optional().since("9.0.0"),
        Arg::string("not-addr").shown("ip:port").token("NOT-ADDR").optional().since("9.0.0"),
        Arg::string("not-laddr").shown("ip:port").token("NOT-LADDR").optional().since("9.0.0"),
        Arg::string("not-name").token("NOT-NAME").optional().since("9.0.0"),
        Arg::string("not-flags").token("NOT-FLAGS").optional().since("9.0.0"),
        Arg::string("not-lib-name").token("NOT-LIB-NAME").optional().since("9.0.0"),
        Arg::string("not-lib-ver").token("NOT-LIB-VER").optional().since("9.0.0"),
        Arg::integer("not-db").token("NOT-DB").optional().since("9.0.0"),
        Arg::string("not-capa").token("NOT-CAPA").optional().since("9.0.0"),
        Arg::string("not-ip").token("NOT-IP").optional().since("9.0.0"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ClientFacts;
    use crate::table::CATALOGUE;

    fn facts() -> ClientFacts {
        ClientFacts {
            id: 7,
            kind: ClientKind::Normal,
            peer: "[::1]:5000".to_owned(),
            local: "[::1]:6379".to_owned(),
            user: b"default".to_vec(),
            name: b"worker".to_vec(),
            lib_name: b"lib".to_vec(),
            lib_version: b"1.0".to_vec(),
            db: 9,
            flags: "xU".to_owned(),
            capa: "r".to_owned(),
            idle_seconds: 5,
            age_seconds: 50,
        }
    }

    fn keeps(words: &str) -> Result<bool, String> {
        keeps_of(&facts(), words)
    }

    fn keeps_of(facts: &ClientFacts, words: &str) -> Result<bool, String> {
        let args: wire::request::ArgsBuf = words.split(' ').map(str::as_bytes).collect();
        let users = Users::new(&CATALOGUE);
        parse(args.args(), 0, SkipMe::No, FilterContext { own_id: 7, db_count: 16, users: &users })
            .map(|filter| filter.keeps(facts))
            .map_err(|error| String::from_utf8_lossy(error.text()).into_owned())
    }

    #[test]
    fn each_criterion_and_its_inverse() {
        let met = [
            "TYPE normal",
            "ADDR [::1]:5000",
            "LADDR [::1]:6379",
            "IP ::1",
            "USER default",
            "NAME worker",
            "LIB-NAME lib",
            "LIB-VER 1.0",
            "DB 9",
            "FLAGS U",
            "CAPA r",
            "ID 3 7",
        ];
        for words in met {
            assert_eq!(keeps(words), Ok(true), "{words}");
            assert_eq!(keeps(&format!("NOT-{words}")), Ok(false), "NOT-{words}");
        }
        for words in ["TYPE pubsub", "ADDR x", "IP ::", "NAME w", "DB 8", "FLAGS Ud", "ID 3", "FLAGS N"] {
            assert_eq!(keeps(words), Ok(false), "{words}");
            assert_eq!(keeps(&format!("NOT-{words}")), Ok(true), "NOT-{words}");
        }
        assert_eq!(keeps("MAXAGE 50 IDLE 5"), Ok(true));
        assert_eq!(keeps("MAXAGE 51"), Ok(false));
        assert_eq!(keeps("IDLE 6"), Ok(false));
        assert_eq!(keeps("SKIPME yes"), Ok(false));
        assert_eq!(keeps("NAME a NAME worker"), Ok(true));
        assert_eq!(keeps("TYPE normal\0 IP ::1\0x SKIPME no\0"), Ok(true));
        assert_eq!(keeps("LIB-NAME lib\0"), Ok(false));
    }

    #[test]
    fn an_empty_text_selects_no_connection() {
        let nameless =
            || ClientFacts { name: Vec::new(), lib_name: Vec::new(), lib_version: Vec::new(), ..facts() };
        for criterion in ["NAME", "LIB-NAME", "LIB-VER"] {
            for (facts, text) in [(facts(), ""), (nameless(), ""), (nameless(), "x")] {
                let words = format!("{criterion} {text}");
                assert_eq!(keeps_of(&facts, &words), Ok(false), "{words}");
                assert_eq!(keeps_of(&facts, &format!("NOT-{words}")), Ok(true), "NOT-{words}");
            }
        }
        assert_eq!(keeps("FLAGS "), Ok(true));
        assert_eq!(keeps("NOT-FLAGS "), Ok(false));
    }

    #[test]
    fn invalid_filters_are_refused() {
        for (words, error) in [
            ("ID 0", "ERR client-id should be greater than 0"),
            ("ID x", "ERR syntax error"),
            ("NAME", "ERR syntax error"),
            ("TYPE wrong", "ERR Unknown client type 'wrong'"),
            ("USER bob", "ERR No such user 'bob'"),
            ("USER default\0", "ERR No such user 'default'"),
            ("MAXAGE x", "ERR maxage is not an integer or out of range"),
            ("IDLE 0", "ERR idle should be greater than 0"),
            ("FLAGS Q", "ERR Unknown flags found in the provided filter: Q"),
            ("NOT-FLAGS Q", "ERR Unknown flags found in the NOT-FLAGS filter: Q"),
            ("DB 16", "ERR DB number should be between 0 and 15"),
            ("NOT-DB x", "ERR NOT-DB is not an integer or out of range"),
            ("NOT-MAXAGE 1", "ERR syntax error"),
        ] {
            assert_eq!(keeps(words), Err(error.to_owned()), "{words}");
        }
    }
}
