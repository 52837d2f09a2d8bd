//! Loading of append-only files, and loading while the server runs: `DEBUG LOADAOF` and `DEBUG RELOAD`.

use crate::support::directory::Directory;
use crate::support::rdb_file::RdbFile;
use crate::support::{self, Client, Server, wait_for};
use rdb::Version;

const LAST: &str = "appendonlydir/appendonly.aof.1.incr.aof";
const MANIFEST: &str = "appendonlydir/appendonly.aof.manifest";

/// Requests as they are in a file: one a line, words separated by spaces.
fn requests(lines: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            bytes.extend(format!("{line}\r\n").into_bytes());
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
        }
    }
    bytes
}

/// A directory with one increment.
fn with_increment(directory: &Directory, bytes: &[u8]) {
    directory.write(MANIFEST, "file appendonly.aof.1.incr.aof seq 1 type i\n");
    directory.write(LAST, bytes);
}

fn server_in(directory: &Directory, options: &[&str]) -> Server {
    let path = directory.path("");
    let own = ["--dir", &path, "--enable-debug-command", "yes"];
    Server::start(&[own.as_slice(), options].concat())
}

const NOT_LOADED: &str = "ERR Error trying to load the AOF files, check server logs.";

#[test]
fn a_dump_that_is_not_loaded_is_named() {
    let directory = Directory::new("unread-dump");
    let dir = directory.path("");
    let mut server = Server::start(&["--dir", &dir]);
    let mut client = server.client();
    client.text(&["SET", "key", "value"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    server.signal("KILL");
    server.wait();
    let warning = "The dump dump.rdb is not loaded";
    let mut server = Server::start(&["--dir", &dir, "--appendonly", "yes", "--save", ""]);
    server.log_line(warning);
    assert_eq!(server.client().text(&["DBSIZE"]), "0");
    server.signal("KILL");
    server.wait();
    // Now there is an append-only file.
    let server = Server::start(&["--dir", &dir, "--appendonly", "yes", "--save", ""]);
    assert!(!server.has_logged(warning));
}

#[test]
fn requests_are_run_in_order() {
    let directory = Directory::new("aof-order");
    let lines = "#TS:1628217470
        SELECT 0
        SET a 1
        INCR a
        #TS:1628217472
        RPUSH list x y z
        LPOP list
        PEXPIREAT list 1000
        RPUSH list w
        SADD set one
        MULTI
        SET b 2
        SELECT 3
        SET c 3
        EXEC
        SET d 4 PXAT 4102444800000
        SET gone 1 PXAT 1000
        APPEND gone 2
        #TS:1628217474";
    with_increment(&directory, &requests(lines));
    let server = server_in(&directory, &["--notify-keyspace-events", "KEA"]);
    let mut client = server.client();
    let mut listener = server.client();
    assert!(listener.text(&["PSUBSCRIBE", "*"]).starts_with("psubscribe"));
    assert_eq!(client.text(&["SET", "stale", "value"]), "OK");
    assert!(shown_next(&mut listener).contains("stale"));
    assert!(shown_next(&mut listener).contains("set"));
    let before = server.info(&mut client, "total_commands_processed");
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    server.log_line("DB loaded from incr file appendonly.aof.1.incr.aof: ");
    let count = |text: String| text.parse::<u64>().unwrap();
    // At most INFO itself, and the load.
    assert!(count(server.info(&mut client, "total_commands_processed")) <= count(before) + 2);
    assert_eq!(server.info(&mut client, "loading"), "0");
    for (request, expected) in [
        (&["GET", "a"][..], "2"),
        (&["EXISTS", "stale"], "0"),
        (&["LLEN", "list"], "0"),
        (&["SMEMBERS", "set"], "one"),
        (&["GET", "b"], "2"),
        (&["EXISTS", "gone"], "0"),
        (&["SELECT", "3"], "OK"),
        (&["GET", "c"], "3"),
        (&["PEXPIRETIME", "d"], "4102444800000"),
    ] {
        assert_eq!(client.text(request), expected, "{request:?}");
    }
    // Keys that are expired are kept until the end; they are deleted, and their events sent, afterwards.
    assert!(shown_next(&mut listener).contains("expired"));
}

fn shown_next(client: &mut Client) -> String {
    support::shown(&client.receive().unwrap())
}

#[test]
fn all_files_of_the_manifest_are_loaded_in_order() {
    let directory = Directory::new("aof-files");
    let source = server_in(&directory, &[]);
    let mut client = source.client();
    for request in [&["SET", "a", "1"][..], &["SADD", "b", "x"], &["SET", "old", "1"]] {
        client.text(request);
    }
    let base = RdbFile::new(Version::V11).property("aof-base", "1").all_keys(&mut client);
    // The log is about this key: it is loaded, although it is expired.
    let base = base.key("volatile", Some(1), &[0, 1, b'5', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    directory.write("appendonlydir/appendonly.aof.2.base.rdb", base.finish());
    directory.write(
        "appendonlydir/appendonly.aof.3.incr.aof",
        requests("SELECT 0\nINCR a\nINCR volatile\nPERSIST volatile"),
    );
    directory.write("appendonlydir/appendonly.aof.4.incr.aof", "");
    directory.write("appendonlydir/appendonly.aof.5.incr.aof", requests("SELECT 0\nINCR a\nDEL old"));
    directory.write(
        MANIFEST,
        "file appendonly.aof.2.base.rdb seq 2 type b\n\
         file appendonly.aof.3.incr.aof seq 3 type i\n\
         file appendonly.aof.4.incr.aof seq 4 type i\n\
         file appendonly.aof.5.incr.aof seq 5 type i\n",
    );
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    source.log_line("Reading RDB base file on AOF loading...");
    source.log_line("RDB is base AOF");
    source.log_line("DB loaded from base file appendonly.aof.2.base.rdb: ");
    source.log_line("DB loaded from incr file appendonly.aof.5.incr.aof: ");
    assert_eq!(client.text(&["MGET", "a", "volatile", "old"]), "3\n6\n");
    assert_eq!(client.text(&["SCARD", "b"]), "1");
    // A file that is not the last one may not be cut.
    directory.write("appendonlydir/appendonly.aof.3.incr.aof", "*1\r\n$4\r\nPI");
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), NOT_LOADED);
    source.log_line("Fatal error: the truncated file is not the last file");
}

#[test]
fn a_single_file_of_an_old_version_moves_into_the_directory() {
    let directory = Directory::new("aof-single");
    let payload = [0, 1, b'5', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let preamble = RdbFile::new(Version::V9).property("aof-preamble", "1").select(0).key("a", None, &payload);
    directory.write("appendonly.aof", [preamble.finish(), requests("SELECT 0\nINCR a")].concat());
    let server = server_in(&directory, &[]);
    let mut client = server.client();
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    server.log_line("Reading RDB preamble from AOF file...");
    server.log_line("Reading the remaining AOF tail...");
    assert_eq!(client.text(&["GET", "a"]), "6");
    assert!(directory.0.join("appendonlydir/appendonly.aof").exists());
}

#[test]
fn an_incomplete_end_is_truncated_or_refused() {
    let directory = Directory::new("aof-truncated");
    let server = server_in(&directory, &[]);
    let mut client = server.client();
    let whole = requests("SET a 1\nSET b 2\nMULTI\nSET a 7\nSET c 3\nEXEC");
    let multi_at = requests("SET a 1\nSET b 2").len();
    let second_at = requests("SET a 1").len();
    for cut in 1..whole.len() {
        with_increment(&directory, &whole[..cut]);
        let valid = match cut {
            _ if cut < second_at => 0,
            _ if cut < multi_at => second_at,
            _ => multi_at,
        };
        let is_complete = cut == valid;
        assert_eq!(client.text(&["CONFIG", "SET", "aof-load-truncated", "no"]), "OK");
        let reply = client.text(&["DEBUG", "LOADAOF"]);
        assert_eq!(reply, if is_complete { "OK" } else { NOT_LOADED }, "cut at {cut}");
        assert_eq!(std::fs::read(directory.path(LAST)).unwrap().len(), cut);
        assert_eq!(client.text(&["CONFIG", "SET", "aof-load-truncated", "yes"]), "OK");
        assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK", "cut at {cut}");
        assert_eq!(std::fs::read(directory.path(LAST)).unwrap().len(), valid, "cut at {cut}");
        let expected = match valid {
            0 => "\n\n",
            _ if valid == second_at => "1\n\n",
            _ => "1\n2\n",
        };
        assert_eq!(client.text(&["MGET", "a", "b", "c"]), expected, "cut at {cut}");
    }
    server.log_line("Unexpected end of file reading the append only file appendonly.aof.1.incr.aof");
    server.log_line("Revert incomplete MULTI/EXEC transaction in AOF file");
    server.log_line("!!! Truncating the AOF appendonly.aof.1.incr.aof at offset");
    server.log_line("loaded anyway because aof-load-truncated is enabled");
}

#[test]
fn damage_is_refused_except_a_truncated_end() {
    let directory = Directory::new("aof-damaged");
    let server = server_in(&directory, &[]);
    let mut client = server.client();
    let valid = requests("SET a 1");
    with_increment(&directory, &[&valid[..], b"!!!", &valid].concat());
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), NOT_LOADED);
    server.log_line("Bad file format reading the append only file appendonly.aof.1.incr.aof: 0x1b");
    assert_eq!(client.text(&["CONFIG", "SET", "aof-load-corrupt-tail-max-size", "1000"]), "OK");
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(std::fs::read(directory.path(LAST)).unwrap(), valid);
    assert_eq!(client.text(&["GET", "a"]), "1");
    assert_eq!(client.text(&["CONFIG", "SET", "aof-load-corrupt-tail-max-size", "0"]), "OK");
    // With any damaged byte, the server continues.
    let whole = requests("SELECT 1\nRPUSH list 1 2 3\nMULTI\nINCR a\nEXEC");
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x15;
        with_increment(&directory, &damaged);
        let reply = client.text(&["DEBUG", "LOADAOF"]);
        assert!(reply == "OK" || reply == NOT_LOADED, "{place}: {reply}");
    }
    with_increment(&directory, &requests("SET a 1\nBLA a 1\nSET b 1"));
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), NOT_LOADED);
    server.log_line("unknown command 'BLA'");
    directory.write(MANIFEST, "file appendonly.aof.9.incr.aof seq 9 type i\n");
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), NOT_LOADED);
    server.log_line("appendonly.aof.9.incr.aof");
    assert_eq!(client.text(&["PING"]), "PONG");
}

#[test]
fn failing_requests_are_logged_and_the_others_run() {
    let directory = Directory::new("aof-errors");
    with_increment(&directory, &requests("SET a x\nINCR a\nSET b 1\nSELECT 99\nBLPOP none 0\nSET c 1"));
    let options = ["--maxmemory", "1", "--maxmemory-policy", "noeviction", "--slowlog-log-slower-than", "0"];
    let server = server_in(&directory, &options);
    let mut client = server.client();
    client.text(&["SLOWLOG", "RESET"]);
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    server.log_line("AOF-loading-client: 'ERR value is not an integer or out of range' after processing the command 'incr'");
    server.log_line("after processing the command 'select'");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    assert_eq!(client.text(&["MGET", "a", "b", "c"]), "x\n1\n1");
    assert!(!client.text(&["SLOWLOG", "GET", "-1"]).contains("incr"));
}

#[test]
fn clients_get_an_error_while_a_large_file_loads() {
    let directory = Directory::new("aof-large");
    let mut bytes = Vec::new();
    for number in 0..50_000 {
        bytes.extend(requests(&format!(
            "SET key:{} {number}\nRPUSH list:{} {number}",
            number % 20_000,
            number % 100
        )));
    }
    let long = "v".repeat(3_000_000);
    bytes.extend(requests(&format!("SET long {long}")));
    with_increment(&directory, &bytes);
    let server = server_in(&directory, &["--io-threads", "3"]);
    let mut client = server.client();
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(client.text(&["DBSIZE"]), "20101");
    assert_eq!(client.text(&["GET", "key:9999"]), "49999");
    assert_eq!(client.text(&["LLEN", "list:99"]), "500");
    assert_eq!(client.text(&["STRLEN", "long"]), "3000000");
    assert_eq!(client.text(&["CONFIG", "SET", "key-load-delay", "1000"]), "OK");
    let mut others = server.six_clients();
    client.send(&["DEBUG", "LOADAOF"]);
    for other in &mut others {
        wait_for(|| other.text(&["GET", "a"]).starts_with("LOADING").then_some(()));
    }
    assert_eq!(others[0].text(&["DEBUG", "RELOAD", "NOSAVE"]), "ERR The data are being loaded already");
    assert_eq!(server.info(&mut others[0], "loading"), "1");
    assert_eq!(others[0].text(&["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    assert_eq!(support::shown(&client.receive().unwrap()), "OK");
    assert_eq!(client.text(&["DBSIZE"]), "20101");
}

#[test]
fn a_running_server_loads_its_dump_file_again() {
    let directory = Directory::new("reload");
    let server = server_in(&directory, &[]);
    let mut client = server.client();
    let no_dump = "ERR Error trying to load the RDB dump, check server logs.";
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH"]), no_dump);
    for number in 0..100 {
        client.text(&["SET", &format!("key:{number}"), "1"]);
    }
    let digest = client.text(&["DEBUG", "DIGEST"]);
    directory.write("dump.rdb", RdbFile::new(Version::V11).all_keys(&mut client).finish());
    assert_eq!(client.text(&["SELECT", "0"]), "OK");
    assert_eq!(client.text(&["SET", "key:7", "changed"]), "OK");
    assert_eq!(client.text(&["SET", "other", "1"]), "OK");
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE"]), "OK");
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    server.log_line("DB reloaded by DEBUG RELOAD");
    // With the data that are there, keys are there twice.
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH"]), no_dump);
    server.log_line("Duplicated key found in RDB file");
    assert_eq!(client.text(&["SET", "key:7", "changed"]), "OK");
    assert_eq!(client.text(&["SET", "other", "1"]), "OK");
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE"]), "OK");
    assert_eq!(client.text(&["MGET", "key:7", "other"]), "1\n1");
    assert_eq!(client.text(&["DBSIZE"]), "101");
    let digest = client.text(&["DEBUG", "DIGEST"]);
    assert_eq!(client.text(&["DEBUG", "RELOAD"]), "OK");
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(server.info(&mut client, "rdb_changes_since_last_save"), "0");
    let error = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
    assert_eq!(client.text(&["DEBUG", "RELOAD", "OTHER"]), error);
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE"]), "QUEUED");
    assert_eq!(client.text(&["EXEC"]), "ERR The data can't be loaded within a transaction");
}

#[test]
fn files_are_loaded_as_other_servers_load_them() {
    let directory = Directory::new("aof-foreign");
    let lines = "SET a 1
        EXEC
        MULTI
        INCR b
        MULTI
        INCR b
        WATCH a
        EXEC
        SUBSCRIBE channel
        SHUTDOWN NOSAVE
        CONFIG SET maxmemory 1
        CLIENT REPLY OFF
        MONITOR
        AUTH nobody nothing
        DISCARD
        SET c 1";
    with_increment(&directory, &requests(lines));
    let server = server_in(&directory, &["--appendonly", "yes"]);
    let mut client = server.client();
    assert_eq!(client.text(&["MGET", "a", "b", "c"]), "1\n2\n1");
    assert_eq!(client.text(&["CONFIG", "GET", "maxmemory"]), "maxmemory\n0");
    assert_eq!(client.text(&["PUBLISH", "channel", "x"]), "0");
    let skipped = "has at offset 27 a EXEC without MULTI, which has no effect: it is skipped";
    assert!(server.log_line("EXEC without MULTI").ends_with(skipped));
    server.log_line("a MULTI within a transaction, which goes on: it is skipped");
    for name in ["watch", "SUBSCRIBE", "SHUTDOWN", "CONFIG", "CLIENT", "MONITOR", "AUTH"] {
        server.log_line(&format!("a {}, which has no place in such a file", name.to_ascii_uppercase()));
    }
    drop(server);
    let mut checked = std::process::Command::new(env!("CARGO_BIN_EXE_broadloom"));
    assert!(checked.arg("check-aof").arg(directory.path(MANIFEST)).output().unwrap().status.success());
}

#[test]
fn a_wrong_number_of_arguments_refuses_the_file() {
    let directory = Directory::new("aof-arity");
    with_increment(&directory, &requests("SET a 1\nSET b"));
    let server = server_in(&directory, &[]);
    assert_eq!(server.client().text(&["DEBUG", "LOADAOF"]), NOT_LOADED);
    server.log_line("error: wrong number of arguments for 'set' command");
}
