//! Changes that no request of the table causes: of many elements, for blocked clients, of what has expired, by eviction, by
//! `MIGRATE`, and the deletion of everything.

use trials::connection::{Connection, encode};
use trials::effects::data::{self, bulk, call};
use trials::effects::requests::logged;
use trials::reply::Reply;
use trials::server::{Server, peers_or_skip};

use crate::{DB_COUNT, LOGGING, assert_known, check_in_peers, shown, wait_until};

fn run(connection: &mut Connection, requests: &str) {
    for request in requests.split("; ") {
        let reply = connection.call(&request.split(' ').collect::<Vec<_>>()).unwrap().reply;
        assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
    }
}

/// The logged requests of a command.
fn requests_of(server: &Server, name: &str) -> Vec<String> {
    let requests = logged(server.data_dir()).unwrap();
    requests.iter().map(shown).filter(|request| request.starts_with(name)).collect()
}

#[test]
fn effects_in_several_requests_give_the_same_data_everywhere() {
    const COUNT: i64 = 2500;
    const FILLING: &[u8] = b"for number = 1, ARGV[1] do
            redis.call('sadd', 's1', number) redis.call('sadd', 's2', number) redis.call('rpush', 'l', number)
            redis.call('geoadd', 'g', number / 100, number / 100, number) redis.call('zadd', 'z', number, number)
            redis.call('hset', 'h', number, number) redis.call('xadd', 'x', number, 'f', 'v')
        end";
    let Some((ours, peers)) = peers_or_skip() else { return };
    let server = Server::start(&ours.with_arguments(LOGGING)).unwrap();
    let mut here = server.connect().unwrap();
    let count = COUNT.to_string();
    let reply = call(&mut here, &[b"EVAL", FILLING, b"0", count.as_bytes()]);
    assert_eq!(reply, Reply::Null);
    let ids = (1..=COUNT - 100).map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
    run(
        &mut here,
        "SPOP s1 1500; SPOP s2 2490; SORT l DESC STORE l2; GEOSEARCHSTORE g2 g FROMLONLAT 0 0 BYRADIUS 9000 km",
    );
    run(
        &mut here,
        "ZRANGESTORE z2 z - + BYLEX; ZREMRANGEBYLEX z - (9; XGROUP CREATE x g 0; XGROUP CREATE x h 0",
    );
    run(
        &mut here,
        "XREADGROUP GROUP g c STREAMS x >; XREADGROUP GROUP h c STREAMS x >; XAUTOCLAIM x g d 0 0 COUNT 2000",
    );
    run(&mut here, &format!("HEXPIRE h 1000 FIELDS {} {ids}", COUNT - 100));
    run(&mut here, &format!("XACKDEL x g DELREF IDS {} {ids}; XADD x MAXLEN 5 DELREF 9999 f v", COUNT - 100));
    let payload = bulk(call(&mut here, &[b"DUMP", b"h"]));
    call(&mut here, &[b"RESTORE", b"h2", b"0", &payload]);
    let expected = data::read(&mut here, DB_COUNT);
    assert!(expected.len() > 10, "{expected:?}");
    check_in_peers(&server, &peers, &expected);
}

#[test]
fn what_blocked_clients_take_is_logged_without_the_wait() {
    const SERVED: &[(&str, &str)] = &[
        ("BLPOP l1 0", "RPUSH l1 a b"),
        ("BRPOP x l2 0", "MULTI; RPUSH l2 a b; EXEC"),
        ("BLMOVE l3 m3 LEFT RIGHT 0", "EVAL redis.call('rpush',KEYS[1],'a','b') 1 l3"),
        ("BRPOPLPUSH l4 m4 0", "LPUSH l4 a b"),
        ("BLMPOP 0 2 x l5 RIGHT COUNT 2", "RPUSH l5 a b c"),
        ("BLPOP l6 0", "RPUSH x6 a b; RENAME x6 l6"),
        ("BZPOPMIN z1 0", "ZADD z1 1 a 2 b"),
        ("BZPOPMAX x z2 0", "ZADD z2 1 a 2 b"),
        ("BZMPOP 0 1 z3 MAX COUNT 2", "ZADD z3 1 a 2 b 3 c"),
        ("XREADGROUP GROUP g c BLOCK 0 STREAMS s1 >", "XADD s1 1-1 f v"),
        ("XREAD BLOCK 0 STREAMS s1 $", "XADD s1 2-1 f v"),
    ];
    let Some((ours, peers)) = peers_or_skip() else { return };
    let server = Server::start(&ours.with_arguments(LOGGING)).unwrap();
    let mut here = server.connect().unwrap();
    run(&mut here, "XGROUP CREATE s1 g 0 MKSTREAM");
    for (waiting, serving) in SERVED {
        let mut waiter = server.connect().unwrap();
        waiter.send(&encode(&waiting.split(' ').collect::<Vec<_>>())).unwrap();
        wait_until("the client is blocked", || {
            let info = here.call(&["INFO", "clients"]).unwrap().bytes;
            String::from_utf8(info).unwrap().contains("blocked_clients:1")
        });
        run(&mut here, serving);
        let reply = waiter.receive().unwrap().reply;
        assert!(matches!(reply, Reply::List(..) | Reply::Bulk(_)), "{waiting}: {reply:?}");
    }
    let expected = data::read(&mut here, DB_COUNT);
    check_in_peers(&server, &peers, &expected);
}

#[test]
fn what_expires_is_deleted_in_the_file() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    for lazy in ["yes", "no"] {
        let program = ours.clone().with_arguments(LOGGING).with_arguments(&["--lazyfree-lazy-expire", lazy]);
        let server = Server::start(&program).unwrap();
        let mut here = server.connect().unwrap();
        run(
            &mut here,
            "SET a 1 PX 1; SET kept 1 EX 1000; HSET h f 1 g 2 kept 3; HPEXPIRE h 1 FIELDS 2 f g; SELECT 1; SET b 1 PX 2",
        );
        run(&mut here, "HSET all f 1; HPEXPIRE all 1 FIELDS 1 f");
        let name = if lazy == "yes" { "UNLINK" } else { "DEL" };
        wait_until("all have expired", || {
            requests_of(&server, name).len() == 2 && requests_of(&server, "HDEL").len() == 2
        });
        let expected = data::read(&mut here, DB_COUNT);
        assert_eq!(expected.len(), 3);
        check_in_peers(&server, &peers, &expected);
    }
}

#[test]
fn what_is_evicted_is_deleted_in_the_file() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let limits = ["--maxmemory-policy", "allkeys-random", "--maxmemory", "12mb"];
    let server = Server::start(&ours.with_arguments(LOGGING).with_arguments(&limits)).unwrap();
    let mut here = server.connect().unwrap();
    for number in 0..1000 {
        run(&mut here, &format!("SETRANGE k{number} 20000 x"));
    }
    run(&mut here, "CONFIG SET maxmemory 0");
    let deleted = requests_of(&server, "DEL").len() + requests_of(&server, "UNLINK").len();
    assert!(deleted > 10, "{deleted} keys were evicted");
    let expected = data::read(&mut here, DB_COUNT);
    check_in_peers(&server, &peers, &expected);
}

#[test]
fn what_is_moved_to_another_server_is_deleted_in_the_file() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let target = Server::start(&ours.clone()).unwrap();
    let server = Server::start(&ours.with_arguments(LOGGING)).unwrap();
    let mut here = server.connect().unwrap();
    let port = target.address().port();
    run(&mut here, "SET a 1; SET b 2 EX 1000; SET c 3; SET d 4");
    run(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 5000; MIGRATE 127.0.0.1 {port} d 0 5000 COPY"));
    let several = [
        b"MIGRATE",
        &b"127.0.0.1"[..],
        port.to_string().as_bytes(),
        b"",
        b"0",
        b"5000",
        b"REPLACE",
        b"KEYS",
        b"b",
        b"x",
    ]
    .map(<[u8]>::to_vec);
    assert_eq!(here.call(&several).unwrap().reply, Reply::Simple(b"OK".to_vec()));
    assert_eq!(requests_of(&server, "DEL"), ["DEL a", "DEL b"]);
    let expected = data::read(&mut here, DB_COUNT);
    assert_eq!(expected.len(), 3);
    check_in_peers(&server, &peers, &expected);
}

#[test]
fn the_deletion_of_all_keys_is_in_the_file() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let server = Server::start(&ours.with_arguments(LOGGING)).unwrap();
    let mut here = server.connect().unwrap();
    for request in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHALL SYNC"] {
        run(&mut here, "SET a 1; SELECT 1; SET b 1");
        run(&mut here, request);
        run(&mut here, "SELECT 0; SET c 1");
        let expected = data::read(&mut here, DB_COUNT);
        assert_eq!(expected.len(), 2);
        check_in_peers(&server, &peers, &expected);
    }
    assert_eq!(requests_of(&server, "FLUSHALL").len(), 3);
    assert_known(&logged(server.data_dir()).unwrap());
}
