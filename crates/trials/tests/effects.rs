//! The append-only file has only commands that Redis 7.2 and Valkey 8.0 know, and those of hash fields with an expiry of
//! their successors: each form of each write command is run, and its effects give the same data in every peer and here.
//!
//! A form that uses a new command or option belongs into [`forms::FORMS`]. A write command that is missing there fails the test,
//! and so does an option of it.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

#[path = "effects/forms.rs"]
mod forms;
#[path = "effects/indirect.rs"]
mod indirect;
#[path = "effects/running.rs"]
mod running;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use forms::FORMS;
use running::run_forms;
use trials::connection::Connection;
use trials::effects::data::{self, Data, Place, bulk, call, differing};
use trials::effects::requests::{Request, load, logged, refusals, rewritten};
use trials::effects::subset::{is_known, is_known_to_successors};
use trials::reply::Reply;
use trials::server::{Program, Server, peers_or_skip};

/// Write commands that are not in the table, with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("flushall", "removes what the other forms have left: see `indirect`"),
    ("migrate", "needs another server: see `indirect`"),
];

/// Options that are not in the table, with the reason.
const OTHER_OPTIONS: &[(&str, &str, &str)] = &[];

const DB_COUNT: usize = 4;
const WAIT_TIME_MAX: Duration = Duration::from_secs(20);
const LOGGING: &[&str] = &["--appendonly", "yes", "--appendfsync", "always", "--rdb-version", "11"];

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_TIME_MAX;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited until {what}");
        thread::yield_now();
    }
}

/// Panics with the differing keys and their forms. Keys for which `is_left_out` holds are not compared.
fn assert_same(expected: &Data, found: &Data, server: &str, is_left_out: impl Fn(&Place) -> bool) {
    let mut differing = differing(expected, found);
    differing.retain(|place| !is_left_out(place));
    for place in &differing {
        let form = number_of_form(&place.1).map_or("", |number| FORMS[number]);
        println!("{server}, db {} {}: {form}", place.0, place.1.escape_ascii());
        println!("  expected {:?}\n  found    {:?}", expected.get(*place), found.get(*place));
    }
    assert!(differing.is_empty(), "{} keys differ in {server}", differing.len());
}

/// The number of the form that has used a key.
fn number_of_form(key: &[u8]) -> Option<usize> {
    std::str::from_utf8(key).ok()?.strip_prefix('k')?.split_once(':')?.0.parse().ok()
}

fn assert_known(requests: &[Request]) {
    let is_unknown = |request: &&Request| !is_known(request) && !is_known_to_successors(request);
    let unknown: Vec<String> = requests.iter().filter(is_unknown).map(shown).collect();
    assert!(unknown.is_empty(), "older servers do not know {unknown:#?}");
}

fn shown(request: &Request) -> String {
    request.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// Loads the requests in a server after the base of the file, and sends them to another one. Neither refuses any, and both
/// have the data afterwards, as far as it is not left out.
fn check_in(
    peer: &Program,
    (server, requests): (&Server, &[Request]),
    expected: &Data,
    is_left_out: impl Fn(&Place) -> bool,
) {
    let loading = Server::start(peer).unwrap();
    let name = loading.name();
    assert_eq!(
        load(&loading, server.data_dir(), requests).unwrap(),
        0,
        "{name} refuses requests of the file"
    );
    let found = data::read(&mut loading.connect().unwrap(), DB_COUNT);
    assert_same(expected, &found, name, &is_left_out);
    drop(loading);
    let receiving = Server::start(peer).unwrap();
    let all: Vec<Request> =
        rewritten(server.data_dir()).unwrap().into_iter().chain(requests.iter().cloned()).collect();
    let refused = refusals(&mut receiving.connect().unwrap(), &all).unwrap();
    let refused: Vec<_> = refused.iter().map(|(request, reply)| (shown(request), reply)).collect();
    assert!(refused.is_empty(), "{name} refuses {refused:#?}");
    let found = data::read(&mut receiving.connect().unwrap(), DB_COUNT);
    assert_same(expected, &found, name, is_left_out);
}

/// Checks the effects in the newest peers and in the oldest ones, the latter without the requests that they do not know.
fn check_in_peers(server: &Server, peers: &[Program], expected: &Data) {
    let requests = logged(server.data_dir()).unwrap();
    assert_known(&requests);
    for peer in peers {
        check_in(peer, (server, &requests), expected, |_| false);
    }
    let (known, unknown): (Vec<Request>, Vec<Request>) =
        requests.into_iter().partition(|request| !is_known_to_successors(request));
    let keys: BTreeSet<&[u8]> = unknown.iter().map(|request| &request[1][..]).collect();
    let forms: BTreeSet<usize> = keys.iter().filter_map(|key| number_of_form(key)).collect();
    let has_field_expiries = |place: &Place| {
        keys.contains(&place.1[..]) || number_of_form(&place.1).is_some_and(|number| forms.contains(&number))
    };
    for peer in Program::oldest_peers() {
        check_in(&peer, (server, &known), expected, has_field_expiries);
    }
}

/// Checks that our server, killed and started again, has the same data.
fn check_after_kill(server: &mut Server, expected: &Data) {
    server.kill().unwrap();
    server.start_again().unwrap();
    let found = data::read(&mut server.connect().unwrap(), DB_COUNT);
    assert_same(expected, &found, "broadloom", |_| false);
}

#[test]
fn effects_give_the_same_data_everywhere() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let mut server = Server::start(&ours.with_arguments(LOGGING)).unwrap();
    run_forms(&mut server.connect().unwrap());
    let expected = data::read(&mut server.connect().unwrap(), DB_COUNT);
    check_in_peers(&server, &peers, &expected);

    check_after_kill(&mut server, &expected);
}

#[test]
fn a_base_of_requests_gives_the_same_data_everywhere() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let requests_only = ["--aof-use-rdb-preamble", "no", "--rdb-version", "auto"];
    let program = ours.with_arguments(LOGGING).with_arguments(&requests_only);
    let server = Server::start(&program).unwrap();
    let mut here = server.connect().unwrap();
    run_forms(&mut here);
    call(&mut here, &[b"BGREWRITEAOF"]);
    // A new base replaces the former one when it is complete.
    wait_until("the base is rewritten", || !rewritten(server.data_dir()).unwrap().is_empty());
    let expected = data::read(&mut here, DB_COUNT);
    let requests = rewritten(server.data_dir()).unwrap();
    assert!(requests.len() > FORMS.len(), "{requests:?}");
    assert_known(&requests);
    for peer in &peers {
        check_in(peer, (&server, &[]), &expected, |_| false);
    }
}

#[test]
fn renamed_commands_are_logged_under_their_own_names() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let renames = ["SET:put", "DEL:", "HSET:fields.set", "XGROUP:groups", "FLUSHDB:flush", "INCR:SET"];
    let renames =
        renames.iter().flat_map(|pair| pair.split_once(':').map(|(old, new)| ["--rename-command", old, new]));
    let arguments: Vec<&str> = LOGGING.iter().copied().chain(renames.flatten()).collect();
    let mut server = Server::start(&ours.with_arguments(&arguments)).unwrap();
    let mut here = server.connect().unwrap();
    let requests = "select 1; set x; flush; select 0; put a 1; put b 2 EX 1000; getdel b; set a; fields.set h f 1; \
        groups create s g 0 mkstream; groups create s h 0 entriesread 7; multi; set a; exec; eval redis.call('put','c','1') 0";
    for request in requests.split("; ") {
        let reply = here.call(&request.split(' ').collect::<Vec<_>>()).unwrap().reply;
        assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
    }
    let expected = data::read(&mut here, DB_COUNT);
    assert_eq!(expected.len(), 5);
    check_in_peers(&server, &peers, &expected);
    check_after_kill(&mut server, &expected);
}

#[test]
fn what_changes_no_data_is_not_logged() {
    let Some((ours, _)) = peers_or_skip() else { return };
    let server = Server::start(&ours.with_arguments(LOGGING)).unwrap();
    let mut here = server.connect().unwrap();
    call(&mut here, &[b"SET", b"a", b"1"]);
    let requests = "PUBLISH c m; SPUBLISH c m; SCRIPT LOAD return; SCRIPT FLUSH; EVAL return{redis.call('get','a')} 1 a; \
        EVAL_RO return 0; GETEX a; GET a; SORT_RO l; SORT l; CONFIG SET hz 20; ACL SETUSER u; CLIENT SETNAME n; FUNCTION STATS; \
        BITFIELD a GET u8 0; GEORADIUS g 0 0 1 m; SET a 2 NX; SET a 2 IFEQ 3; HGETEX h FIELDS 1 f; XREAD STREAMS s 0; TOUCH a; \
        EVAL redis.call('publish','c','m') 0; EXPIRE x 10; DEL x; LMPOP 1 l LEFT; MULTI; GET a; EXEC; PFCOUNT p; SELECT 1; \
        EVAL redis.set_repl(redis.REPL_NONE);redis.call('set','b','1') 0; EVAL redis.set_repl(redis.REPL_REPLICA);redis.call('set','c','1') 0";
    for request in requests.split("; ") {
        let reply = here.call(&request.split(' ').collect::<Vec<_>>()).unwrap().reply;
        assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
    }
    let logged_texts = || logged(server.data_dir()).unwrap().iter().map(shown).collect::<Vec<_>>();
    assert_eq!(logged_texts(), ["SELECT 0", "SET a 1"]);
    let script = b"redis.set_repl(redis.REPL_AOF) redis.call('set','d','1') redis.set_repl(redis.REPL_ALL) redis.call('incr','d')";
    call(&mut here, &[b"EVAL", script, b"0"]);
    assert_eq!(logged_texts()[2..], ["SELECT 1", "MULTI", "set d 1", "incr d", "EXEC"]);
}

/// The names of the write commands of a server.
fn write_commands(connection: &mut Connection) -> BTreeSet<String> {
    let Reply::List(_, commands) = call(connection, &[b"COMMAND"]) else { panic!("no list") };
    let is_write = |command: &Reply| {
        let Reply::List(_, facts) = command else { panic!("{command:?}") };
        let Reply::List(_, flags) = &facts[2] else { panic!("{command:?}") };
        let name = String::from_utf8(bulk(facts[0].clone())).unwrap();
        flags.contains(&Reply::Simple(b"write".to_vec())).then_some(name)
    };
    commands.iter().filter_map(is_write).collect()
}

/// Adds the tokens in the documentation of a command.
fn add_tokens(doc: &Reply, tokens: &mut BTreeSet<String>) {
    let Reply::List(_, items) = doc else { return };
    for pair in items.windows(2) {
        if pair[0] == Reply::Bulk(b"token".to_vec()) {
            tokens.insert(String::from_utf8(bulk(pair[1].clone())).unwrap().to_lowercase());
        }
    }
    items.iter().for_each(|item| add_tokens(item, tokens));
}

#[test]
fn the_table_has_every_write_command_and_option() {
    let Some((ours, _)) = peers_or_skip() else { return };
    let server = Server::start(&ours).unwrap();
    let mut connection = server.connect().unwrap();
    let requests = FORMS.iter().flat_map(|form| form.split("; "));
    let requests: Vec<Vec<String>> =
        requests.map(|request| request.split(' ').map(str::to_lowercase).collect()).collect();
    let mut missing = Vec::new();
    for name in write_commands(&mut connection) {
        let forms: Vec<_> = requests.iter().filter(|words| words[0] == name).collect();
        let is_other = OTHERS.iter().any(|(other, _)| *other == name);
        assert!(!is_other || forms.is_empty(), "{name} is in the table, so it is no exception");
        if is_other {
            continue;
        }
        if forms.is_empty() {
            missing.push(name.clone());
        }
        let mut tokens = BTreeSet::new();
        add_tokens(&call(&mut connection, &[b"COMMAND", b"DOCS", name.as_bytes()]), &mut tokens);
        for token in tokens {
            let is_other = OTHER_OPTIONS.iter().any(|(of, other, _)| *of == name && *other == token);
            if !is_other && !forms.iter().any(|words| words.contains(&token)) {
                missing.push(format!("{name} {token}"));
            }
        }
    }
    assert!(missing.is_empty(), "no form of {missing:#?}");
}
