//! The grammar of ACL rules: every user can be written as rules and parsed back.

use std::sync::Arc;

use commands::acl::{Grammar, MissingPermission, User, Users};
use commands::table::CATALOGUE;
use wire::request::ArgsBuf;

const GRAMMAR: fn(bool) -> Grammar =
    |all_channels_by_default| Grammar { catalogue: &CATALOGUE, all_channels_by_default };

/// Pieces of rules for the random users.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">secret",
    ">other",
    "<secret",
    "reset",
    "clearselectors",
    "sanitize-payload",
    "~app:*",
    "~*",
    "%R~read:*",
    "%W~write:?",
    "%RW~[a-c]*",
    "%R~*",
    "~",
    "allkeys",
    "resetkeys",
    "&news",
    "&n*",
    "&*",
    "allchannels",
    "resetchannels",
    "db=0",
    "db=3,1,3",
    "alldbs",
    "resetdbs",
    "+@all",
    "-@all",
    "allcommands",
    "nocommands",
    "+@read",
    "-@read",
    "+@write",
    "-@dangerous",
    "+@SLOW",
    "-@fast",
    "+get",
    "-get",
    "+SET",
    "+config",
    "-config",
    "+config|get",
    "-config|set",
    "+client|list",
    "-client",
    "+select|0",
    "+select|A",
    "-select",
    "+debug|object",
    "+select",
    "+@connection",
    "-@connection",
    "+@keyspace",
    "-psync",
    "+PSYNC",
    "-cluster",
    "+cluster|syncslots",
    "+replconf|ack",
    "-hotkeys|get",
    "+json.get",
    "-@search",
];

/// A generator of numbers from a seed: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn with_rules(users: &Users, rules: &str, all_channels: bool) -> Result<Users, String> {
    let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let changed = users.with_rules(b"alice", &rules, GRAMMAR(all_channels));
    changed.map_err(|error| String::from_utf8_lossy(error.text()).into_owned())
}

fn alice(rules: &str) -> Arc<User> {
    let users = with_rules(&Users::new(&CATALOGUE), rules, false).expect(rules);
    Arc::clone(users.find(b"alice").expect("the user exists"))
}

/// The result of `check` for a request in database 2 of 16, in a form for comparisons.
fn checked(user: &User, request: &str) -> Result<(), (MissingPermission, usize)> {
    let args: ArgsBuf = request.split(' ').map(str::as_bytes).collect();
    let args = args.args();
    let subcommand = || CATALOGUE.find(&[args.name(), b"|", args.get(1)?].concat());
    let id = subcommand().or_else(|| CATALOGUE.find(args.name())).expect("a command");
    user.check(id, args, base::DbIndex(2), 16).map_err(|denial| (denial.missing, denial.argument))
}

#[test]
fn random_rules_round_trip_through_the_acl_file() {
    for seed in 1..=2_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut users = with_rules(&Users::new(&CATALOGUE), "on", false).expect("valid");
        for _ in 0..12 {
            let rule = RULES[random.below(RULES.len())];
            let rule = match random.below(6) {
                0 => format!("({rule} {})", RULES[random.below(RULES.len())]),
                _ => rule.to_owned(),
            };
            // An invalid rule changes nothing.
            if let Ok(changed) = with_rules(&users, &rule, random.below(2) == 0) {
                assert_eq!(changed.version(), users.version() + 1);
                users = changed;
            }
        }
        let user = users.find(b"alice").expect("the user exists");
        let text = String::from_utf8(user.rules()).expect("these rules are text");
        for all_channels in [false, true] {
            let again = with_rules(&Users::new(&CATALOGUE), &text, all_channels);
            let again = again.unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
            let again = again.find(b"alice").expect("the user exists");
            assert_eq!(again.rules(), user.rules(), "seed {seed}");
            assert_eq!(again.selectors(), user.selectors(), "seed {seed}: {text}");
            assert_eq!(again.passwords(), user.passwords(), "seed {seed}: {text}");
            assert_eq!(
                (again.flags(), again.is_restricted()),
                (user.flags(), user.is_restricted()),
                "seed {seed}"
            );
        }
        // These rules, as a line of an ACL file, give an equal user.
        let file = format!("user alice {text}\n");
        let loaded = users.loaded(file.as_bytes(), "users.acl", GRAMMAR(false)).expect("a valid file");
        assert_eq!(loaded.lines()[0], users.lines()[0], "seed {seed}");
    }
}

#[test]
fn a_request_needs_one_selector_that_allows_all_of_it() {
    let user = alice("on nopass +get +mget ~key (+mget ~key ~other) (+set %W~w* db=1)");
    assert_eq!(checked(&user, "GET key"), Ok(()));
    assert_eq!(checked(&user, "MGET key other"), Ok(()));
    assert_eq!(checked(&user, "GET other"), Err((MissingPermission::Key, 1)));
    assert_eq!(checked(&user, "MGET key other third"), Err((MissingPermission::Key, 3)));
    assert_eq!(checked(&user, "DEL key"), Err((MissingPermission::Command, 0)));
    // The selector that would allow the command does not allow the database.
    assert_eq!(checked(&user, "SET w 1"), Err((MissingPermission::Command, 0)));
    assert_eq!(checked(&alice("+@all ~* &* db=1"), "SET w 1"), Err((MissingPermission::Database, 0)));
}

#[test]
fn reading_and_writing_are_separate() {
    let user = alice("+@all %R~r* %W~w* ~rw*");
    for allowed in [
        "GET r1",
        "LPUSH w1 x",
        "COPY r1 w1",
        "SET w1 x",
        "SET rw1 x GET",
        "BITFIELD r1 GET u4 0",
        "EXISTS w1 r1",
        "SUNIONSTORE w1 r1 r2",
        "SORT r1 STORE w1",
        "XREAD STREAMS r1 r2 0 0",
        "GEORADIUS r1 0 0 1 m STORE w1",
    ] {
        assert_eq!(checked(&user, allowed), Ok(()), "{allowed}");
    }
    for (denied, argument) in [
        ("GET w1", 1),
        ("LPUSH r1 x", 1),
        ("COPY w1 w2", 1),
        ("SET w1 x GET", 1),
        ("SET r1 x", 1),
        ("BITFIELD r1 SET u4 0 1", 1),
        ("SUNIONSTORE w1 r1 x1", 3),
        ("SORT r1 STORE r2", 3),
        ("XREAD STREAMS r1 w2 0 0", 3),
        ("EXISTS r1 x1", 2),
        ("GEORADIUS r1 0 0 1 m STORE r2", 7),
    ] {
        assert_eq!(checked(&user, denied), Err((MissingPermission::Key, argument)), "{denied}");
    }
}

#[test]
fn databases_are_checked_where_a_request_names_them() {
    let user = alice("+@all ~* &* db=1,2");
    for allowed in
        ["GET k", "SELECT 1", "SELECT x", "SELECT 99", "MOVE k 1", "COPY a b DB 1", "SWAPDB 1 2", "PING"]
    {
        assert_eq!(checked(&user, allowed), Ok(()), "{allowed}");
    }
    for (denied, argument) in [
        ("SELECT 0", 1),
        ("MOVE k 3", 2),
        ("COPY a b DB 1 DB 3", 6),
        ("COPY a b DB 3 REPLACE DB 1", 4),
        ("SWAPDB 3 1", 1),
        ("SWAPDB 1 3", 2),
        ("FLUSHALL", 0),
    ] {
        assert_eq!(checked(&user, denied), Err((MissingPermission::Database, argument)), "{denied}");
    }
    // The keys of these requests are in the current database, number 2.
    let other = alice("+@all ~* &* db=1");
    for denied in ["GET k", "MOVE k 1", "COPY a b DB 1", "FLUSHDB", "DBSIZE", "SCAN 0"] {
        assert_eq!(checked(&other, denied), Err((MissingPermission::Database, 0)), "{denied}");
    }
    assert_eq!(checked(&other, "SELECT 1"), Ok(()));
}

#[test]
fn channels_are_checked_for_publishing_and_subscribing() {
    let user = alice("+@all &news &p*");
    for allowed in
        ["PUBLISH news x", "SUBSCRIBE news px", "PSUBSCRIBE p*", "UNSUBSCRIBE other", "SPUBLISH p1 x"]
    {
        assert_eq!(checked(&user, allowed), Ok(()), "{allowed}");
    }
    for (denied, argument) in [
        ("PUBLISH other x", 1),
        ("SUBSCRIBE news other", 2),
        // A pattern must be one of the rules, even if another rule covers it.
        ("PSUBSCRIBE p*", 0),
        ("PSUBSCRIBE p1*", 1),
        ("SSUBSCRIBE other", 1),
    ] {
        let expected = if argument == 0 { Ok(()) } else { Err((MissingPermission::Channel, argument)) };
        assert_eq!(checked(&user, denied), expected, "{denied}");
    }
}

#[test]
fn sorting_by_other_keys_needs_all_keys() {
    let args: ArgsBuf = ["SORT", "l", "BY", "w_*"].iter().map(|word| word.as_bytes()).collect();
    let id = CATALOGUE.find(b"sort").expect("a command");
    let may = |user: &User| user.may_read_all_keys(id, args.args(), base::DbIndex(0), 16);
    assert!(may(&alice("+@all ~*")) && may(&alice("+@all %R~*")));
    assert!(!may(&alice("+@all ~l ~w_*")) && !may(&alice("+@all %W~* ~l")));
    // One selector must have both permissions.
    assert!(!may(&alice("+sort ~l (%R~* +get)")));
}

#[test]
fn recreated_users_differ_from_deleted_ones() {
    let first = with_rules(&Users::new(&CATALOGUE), "on", false).expect("valid");
    let old = Arc::clone(first.find(b"alice").expect("the user exists"));
    let changed = with_rules(&first, "+get", false).expect("valid");
    assert!(changed.current(&old).is_some());
    let (deleted, count) = changed.without(&[b"alice", b"bob"]).expect("not the default user");
    assert_eq!((count, deleted.current(&old).is_none()), (1, true));
    let again = with_rules(&deleted, "on", false).expect("valid");
    assert!(again.find(b"alice").is_some() && again.current(&old).is_none());
    // A user in the ACL file keeps its identity.
    let loaded = changed.loaded(b"user alice on +set", "file", GRAMMAR(false)).expect("valid");
    assert!(loaded.current(&old).is_some_and(|user| user.rules() == b"on resetchannels -@all +set"));
}
