//! A replay: at the end of a run with many loads, another server starts with the append-only file of the first one, and
//! must have the same data.

use std::net::SocketAddr;
use std::sync::Arc;

use server::simulated::{CrashingDisk, Failing, Server};
use sync::simulation;
use trials::reply::Reply;

use crate::connection::Connection;

/// Directives of a server with an append-only file.
pub const CONFIG: &str =
    "appendonly yes\nappendfsync everysec\nsnapshot-cpu-percent 100\nenable-debug-command yes\n";

/// The file at the end of the loads, and the digest of the data.
pub struct Recording {
    disk: CrashingDisk,
    digest: String,
}

/// The disk of the servers that the calling simulation starts from now on.
pub fn use_disk(disk: &CrashingDisk) {
    let scheduler = simulation::current().expect("the caller is simulated");
    scheduler.set_extension(Arc::new(disk.clone()));
}

/// Creates a disk that does not fail, for the server that the calling simulation starts next.
#[must_use]
pub fn create_disk(seed: u64) -> CrashingDisk {
    let disk = CrashingDisk::new(seed, Failing::Nothing);
    use_disk(&disk);
    disk
}

/// Records the data of a server without other clients.
///
/// # Panics
/// If the file does not become durable.
pub fn record(admin: &mut Connection, disk: &CrashingDisk) -> Recording {
    await_rewrite(admin);
    make_persistent(admin);
    // WAITAOF waits for the changes of its own connection.
    admin.expect_ok(&["SET", "marker", "end"]);
    let reply = admin.call(&["WAITAOF", "1", "0", "60000"]);
    assert_eq!(reply, Reply::List(b'*', vec![Reply::Integer(1), Reply::Integer(0)]), "WAITAOF");
    Recording { digest: admin.text(&["DEBUG", "DIGEST"]), disk: disk.crash() }
}

/// Starts a server with the recorded file, and compares its data.
///
/// # Panics
/// If they differ.
pub fn check(recording: &Recording, address: SocketAddr) {
    use_disk(&recording.disk);
    let config = format!("bind 127.0.0.1\nport {}\nsave \"\"\n{CONFIG}", address.port());
    let server = Server::start(&config).unwrap_or_else(|error| panic!("the replay does not start: {error}"));
    let mut admin = Connection::open(address, "replay");
    let digest = admin.text(&["DEBUG", "DIGEST"]);
    assert_eq!(digest, recording.digest, "the replayed data differ: {}", admin.text(&["INFO", "keyspace"]));
    end(&server, admin);
}

/// Ends a server by `SHUTDOWN NOSAVE`.
///
/// # Panics
/// If the connection has ended before.
pub fn end(server: &Server, mut admin: Connection) {
    admin.send(&[vec!["SHUTDOWN".to_owned(), "NOSAVE".to_owned()]]).expect("the server is running");
    assert!(admin.receive().is_err(), "SHUTDOWN has no reply");
    drop(admin);
    server.wait();
}

/// Waits until the file can be written and no rewrite of it is in progress or scheduled.
///
/// # Panics
/// If that takes too long.
pub fn await_file(admin: &mut Connection) {
    for _ in 0..10_000 {
        if admin.text(&["INFO", "persistence"]).contains("aof_last_write_status:ok\r\n") {
            return await_rewrite(admin);
        }
        simulation::sleep_us(10_000);
    }
    panic!("the file can't be written");
}

/// Waits until no rewrite of the file is in progress or scheduled.
fn await_rewrite(admin: &mut Connection) {
    for _ in 0..10_000 {
        let text = admin.text(&["INFO", "persistence"]);
        let is_zero = |field: &str| text.contains(&format!("{field}:0\r\n"));
        if is_zero("aof_rewrite_in_progress") && is_zero("aof_rewrite_scheduled") {
            return;
        }
        simulation::sleep_us(10_000);
    }
    panic!("the rewrite does not end");
}

/// Removes the expiry of all keys, because those that expire meanwhile would differ.
fn make_persistent(admin: &mut Connection) {
    loop {
        let Reply::List(_, keys) = admin.call(&["KEYS", "*"]) else { panic!("KEYS replies a list") };
        for key in &keys {
            let Reply::Bulk(key) = key else { panic!("{key:?}") };
            admin.call(&["PERSIST", &String::from_utf8_lossy(key)]);
        }
        // The digest includes expired keys that are not deleted yet.
        if admin.call(&["DBSIZE"]) == Reply::Integer(keys.len() as i64) {
            return;
        }
        simulation::sleep_us(10_000);
    }
}
