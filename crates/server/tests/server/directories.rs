//! Working directories: not writable, shared with another server, changed or removed while the server runs; and addresses
//! that a former server still holds.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::directory::Directory;
use crate::support::{Client, Server, run, wait_for};

/// A directory in which nobody can create files, not even the superuser.
const UNWRITABLE: &str = "/proc";

/// The arguments of a server that has a socket in a directory, in which it also works.
fn arguments<'a>(directory: &'a str, socket: &'a str) -> Vec<&'a str> {
    vec!["--dir", directory, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "yes"]
}

fn await_rewrite(server: &Server, client: &mut Client) {
    wait_for(|| (server.info(client, "aof_rewrite_in_progress") == "0").then_some(()));
    assert_eq!(server.info(client, "aof_last_bgrewrite_status"), "ok");
}

/// Kills a server, and starts another one in this directory.
fn restart_in(mut server: Server, directory: &Directory) -> (Server, Client) {
    server.signal("KILL");
    server.wait();
    let server = Server::start(&["--dir", &directory.path(""), "--appendonly", "yes"]);
    let client = server.client();
    (server, client)
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let own = Directory::new("unwritable");
    let socket = own.path("socket");
    let (text, succeeded) = run(&arguments(UNWRITABLE, &socket), "");
    assert!(!succeeded && text.contains("can't create /proc/appendonlydir: "), "{text}");

    let mut server = Server::start(&["--dir", UNWRITABLE, "--save", "3600 1"]);
    assert!(server.log_line("WARNING: no file can be written").contains("directory /proc: "));
    assert_eq!(server.client().text(&["SET", "a", "1"]), "OK");
    server.signal("TERM");
    server.log_line("can't exit");
    server.log_line("Another SIGTERM or SIGINT ends the server");
    assert_eq!(server.client().text(&["SET", "b", "1"]), "OK");
    server.signal("TERM");
    assert!(!server.wait(), "its status says that it lost data");
    server.log_line("The 2 changes since dump.rdb was saved at Unix time");
}

#[test]
fn a_second_interrupt_ends_a_server_that_saves() {
    let mut server = Server::start(&["--save", "3600 1", "--rdb-key-save-delay", "10000000"]);
    server.client().text(&["SET", "a", "1"]);
    server.signal("INT");
    server.log_line("Saving the final RDB snapshot before exiting.");
    server.signal("INT");
    assert!(!server.wait());
    server.log_line("You insist... exiting now.");
    server.log_line("The 1 changes since dump.rdb was saved");
    assert!(!server.has_logged("can't exit"));
}

#[test]
fn a_second_server_does_not_use_the_append_only_files_of_the_first() {
    let directory = Directory::new("locked");
    let path = directory.path("");
    let server = Server::start(&["--dir", &path, "--appendonly", "yes"]);
    assert_eq!(server.client().text(&["SET", "a", "1"]), "OK");
    let socket = directory.path("socket");
    let (text, succeeded) = run(&arguments(&path, &socket), "");
    let holder = format!("are in use by process {}, which has locked ", server.id());
    assert!(!succeeded && text.contains(&holder) && text.contains("appendonly.aof.lock"), "{text}");
    // Without the file, several servers may share a directory; the lock ends with the file and with the process.
    let other = Server::start(&["--dir", &path]);
    let refusal = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs.";
    assert_eq!(other.client().text(&["CONFIG", "SET", "appendonly", "yes"]), refusal);
    assert_eq!(server.client().text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    wait_for(|| (other.client().text(&["CONFIG", "SET", "appendonly", "yes"]) == "OK").then_some(()));
    let mut client = other.client();
    client.text(&["SET", "b", "1"]);
    await_rewrite(&other, &mut client);
    let (_server, mut client) = restart_in(other, &directory);
    assert_eq!(client.text(&["EXISTS", "b"]), "1");
}

#[test]
fn a_removed_directory_is_made_anew_by_a_rewrite() {
    let directory = Directory::new("removed");
    let server = Server::start(&["--dir", &directory.path(""), "--appendonly", "yes"]);
    let mut client = server.client();
    client.text(&["SET", "a", "1"]);
    std::fs::remove_dir_all(directory.path("appendonlydir")).unwrap();
    client.text(&["SET", "b", "1"]);
    client.text(&["BGREWRITEAOF"]);
    server.log_line("Background AOF rewrite finished successfully");
    client.text(&["SET", "c", "1"]);
    wait_for(|| (client.text(&["WAITAOF", "1", "0", "1000"]).starts_with('1')).then_some(()));
    let (_server, mut client) = restart_in(server, &directory);
    assert_eq!(client.text(&["EXISTS", "a", "b", "c"]), "3");
}

#[test]
fn a_rewrite_moves_the_files_to_another_directory() {
    let (first, second) = (Directory::new("first"), Directory::new("second"));
    let options = ["--dir", &first.path(""), "--appendonly", "yes", "--enable-protected-configs", "yes"];
    let server = Server::start(&options);
    let mut client = server.client();
    client.text(&["SET", "a", "1"]);
    assert_eq!(client.text(&["CONFIG", "SET", "dir", &second.path("")]), "OK");
    // The files stay where they are until the rewrite.
    client.text(&["SET", "b", "1"]);
    client.text(&["WAITAOF", "1", "0", "0"]);
    assert!(
        std::fs::read_to_string(first.path("appendonlydir/appendonly.aof.1.incr.aof"))
            .unwrap()
            .contains("b\r\n")
    );
    client.text(&["BGREWRITEAOF"]);
    server.log_line("Background AOF rewrite finished successfully");
    client.text(&["SET", "c", "1"]);
    client.text(&["WAITAOF", "1", "0", "0"]);
    let (server, mut client) = restart_in(server, &second);
    assert_eq!(client.text(&["EXISTS", "a", "b", "c"]), "3");
    // The next rewrite there is an ordinary one.
    client.text(&["BGREWRITEAOF"]);
    server.log_line("Background AOF rewrite finished successfully");
}

#[test]
fn the_files_do_not_move_into_those_of_another_data_set() {
    let (own, other) = (Directory::new("own-set"), Directory::new("other-set"));
    let theirs = Server::start(&["--dir", &other.path(""), "--appendonly", "yes"]);
    let mut their_client = theirs.client();
    their_client.text(&["SET", "theirs", "1"]);
    // It waits for the changes of its own connection.
    assert_eq!(their_client.text(&["WAITAOF", "1", "0", "0"]), "1\n0");
    drop(theirs);
    let options = ["--dir", &own.path(""), "--appendonly", "yes", "--enable-protected-configs", "yes"];
    let server = Server::start(&options);
    let mut client = server.client();
    client.text(&["SET", "ours", "1"]);
    let refusal = client.text(&["CONFIG", "SET", "dir", &other.path("")]);
    assert!(
        refusal.starts_with("ERR CONFIG SET failed (possibly related to argument 'dir') - "),
        "{refusal}"
    );
    assert!(refusal.contains("has append-only files that are not this server's present ones"), "{refusal}");
    assert!(own.path("").starts_with(&client.text(&["CONFIG", "GET", "dir"]).replace("dir\n", "")));
    // The present directory is not another one, and without the file nothing would be overwritten.
    assert_eq!(client.text(&["CONFIG", "SET", "dir", &own.path("")]), "OK");
    client.text(&["BGREWRITEAOF"]);
    server.log_line("Background AOF rewrite finished successfully");
    let (_server, mut client) = restart_in(server, &other);
    assert_eq!(client.text(&["EXISTS", "theirs", "ours"]), "1");
    let without = Server::start(&["--enable-protected-configs", "yes"]);
    assert_eq!(without.client().text(&["CONFIG", "SET", "dir", &other.path("")]), "OK");
}

#[test]
fn a_forced_end_before_the_first_base_shows_that_data_is_lost() {
    let directory = Directory::new("first-base");
    let mut server = Server::start(&["--dir", &directory.path(""), "--save", ""]);
    let mut client = server.client();
    client.text(&["SET", "a", "1"]);
    client.text(&["CONFIG", "SET", "rdb-key-save-delay", "10000000"]);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    server.signal("TERM");
    server.log_line("Writing initial AOF, can't exit.");
    server.log_line("Another SIGTERM or SIGINT ends the server");
    server.signal("TERM");
    assert!(!server.wait(), "its status says that it lost data");
    server.log_line("Writing initial AOF. Exit anyway.");
    server.log_line("The append-only file has no base yet");
}

#[test]
fn after_flushall_a_crash_does_not_bring_the_data_back() {
    let directory = Directory::new("flushed");
    let options = ["--dir", &directory.path(""), "--save", "3600 1"];
    let mut server = Server::start(&options);
    let mut client = server.client();
    for is_saving in [false, true] {
        client.text(&["SET", "a", "1"]);
        assert_eq!(client.text(&["SAVE"]), "OK");
        if is_saving {
            // Its save is cancelled, and another one follows.
            client.text(&["CONFIG", "SET", "rdb-key-save-delay", "10000000"]);
            client.text(&["BGSAVE"]);
        }
        assert_eq!(client.text(&["FLUSHALL", "ASYNC"]), "OK");
        server.signal("KILL");
        server.wait();
        server = Server::start(&options);
        client = server.client();
        assert_eq!(client.text(&["DBSIZE"]), "0", "{is_saving}");
    }
}

#[test]
fn an_address_that_is_in_use_is_tried_again() {
    let hold = || {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port().to_string();
        (holder, port)
    };
    let (holder, port) = hold();
    let options = ["--bind", "127.0.0.1", "--save", "", "--port", &port];
    let directory = Directory::new("in-use");
    let mut child = Command::new(env!("CARGO_BIN_EXE_broadloom"))
        .current_dir(&directory.0)
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("Another socket still listens on ")));
    drop(holder);
    assert!(lines.any(|line| line.contains("Ready to accept connections")));
    child.kill().unwrap();
    child.wait().unwrap();

    let (_holder, port) = hold();
    let (text, succeeded) = run(&["--bind", "127.0.0.1", "--save", "", "--port", &port], "");
    assert!(!succeeded && text.contains("Failed listening on port"), "{text}");
}
