//! Rights of a user are taken and given while its connections run commands, transactions, scripts and blocking commands.
//! After the reply of `ACL SETUSER` or `ACL DELUSER`:
//!
//! 1. The keys that only the user's commands change stay as they are, if the right to change them was taken.
//! 2. A request that begins and ends before the next change is allowed or denied as the rights say.
//! 3. An old password is refused. Connections of a deleted user are closed, and no others.
//! 4. A subscriber receives no message that is published after its channel was taken.

use sync::simulation;
use trials::random::Random;
use trials::reply::Reply;

use super::{Client, words};
use crate::connection::{Connection, text_of};
use crate::world::{Rights, World, lock};

const USER: &str = "right";
/// The largest number of checks whether the connections of a deleted user are closed.
const CLOSED_CHECKS_MAX: usize = 1_000;
/// Rounds of a loop in which a script may pause several times.
const LOOP_COUNT: usize = 250_000;

pub(super) fn clients(world: &World) -> Vec<Client> {
    let client = |number: usize| {
        Client::new(format!("user {number}"), move |world, name, random| act(world, name, number, random))
    };
    let others = [("rights", change as fn(&World, &str, Random)), ("listener", listen), ("feeder", feed)];
    let others = others.map(|(name, body)| Client::new(name.to_owned(), body));
    (0..world.plan.client_count).map(client).chain(others).collect()
}

fn password(number: u64) -> String {
    format!("p{number}")
}

// ---- The changes

/// Changes the rights, and checks what must hold after each reply.
fn change(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    for round in 0..4 + world.plan.request_count / 3 {
        give_all(world, &mut connection, round as u64);
        expect_publish(&mut connection, "allowed");
        simulation::sleep_us(random.below(8_000) as u64);
        // Stalls a worker, possibly in the middle of a batch: the change must wait for it.
        let thread = 1 + random.below(world.plan.thread_count as usize);
        simulation::stall(thread, random.below(10_000) as u64);
        let taken = *random.pick(&["-@write", "resetkeys", "resetchannels", "-@all", "on", ""]);
        take(world, &mut connection, taken, random.chance(25));
        let rights = *lock(&world.rights);
        if !rights.channels {
            expect_publish(&mut connection, "forbidden");
        }
        let first = (!rights.writes).then(|| owned(world, &mut connection));
        if !rights.exists {
            await_closed(&mut connection, name);
        }
        // For requests that wait since before the change.
        connection.number(&["RPUSH", &format!("{USER}:in"), "x"]);
        simulation::sleep_us(random.below(10_000) as u64);
        if let Some(first) = first {
            assert_eq!(first, owned(world, &mut connection), "{name}: a write happened without its right");
        }
    }
    take(world, &mut connection, "", false);
    lock(&world.rights).is_over = true;
}

/// Makes the user one with all rights and a new password.
fn give_all(world: &World, connection: &mut Connection, number: u64) {
    lock(&world.rights).epoch += 1;
    let (rule, keys) = (format!(">{}", password(number)), format!("~{USER}:*"));
    // One command, as a line of an ACL file.
    connection.expect_ok(&[
        "ACL",
        "SETUSER",
        USER,
        "resetpass",
        "on",
        &rule,
        "+@all",
        "-@admin",
        &keys,
        "allchannels",
    ]);
    let mut rights = lock(&world.rights);
    let epoch = rights.epoch + 1;
    *rights = Rights { epoch, exists: true, password: number, writes: true, channels: true, ..*rights };
}

/// Takes a right by a rule; without one deletes the user.
fn take(world: &World, connection: &mut Connection, rule: &str, in_transaction: bool) {
    let mut changed = *lock(&world.rights);
    match rule {
        "" => (changed.exists, changed.writes, changed.channels) = (false, false, false),
        "resetchannels" => changed.channels = false,
        "on" => {}
        // A subscription needs no right to run commands once it exists.
        _ => changed.writes = false,
    }
    changed.deletion_count += u64::from(!changed.exists);
    changed.removal_count += u64::from(!changed.channels);
    {
        let mut rights = lock(&world.rights);
        rights.epoch += 1;
        rights.deletion_count = changed.deletion_count;
        rights.removal_count = changed.removal_count;
    }
    let request = match rule {
        "" => words(&format!("ACL DELUSER {USER}")),
        rule => words(&format!("ACL SETUSER {USER} {rule}")),
    };
    let requests = if in_transaction { vec![words("MULTI"), request, words("EXEC")] } else { vec![request] };
    connection.send(&requests).expect("this connection is never closed");
    for _ in requests {
        let reply = connection.receive().expect("this connection is never closed");
        assert!(!matches!(reply, Reply::Error(_)), "ACL: {reply:?}");
    }
    let mut rights = lock(&world.rights);
    *rights = Rights { epoch: rights.epoch + 1, ..changed };
}

fn expect_publish(connection: &mut Connection, message: &str) {
    connection.number(&["PUBLISH", &format!("{USER}:news"), message]);
}

/// Everything that only commands of the user change, read at once.
fn owned(world: &World, connection: &mut Connection) -> Reply {
    let mut read = words("MGET");
    for client in 0..world.plan.client_count {
        read.extend([format!("{USER}:count:{client}"), format!("{USER}:second:{client}")]);
    }
    let requests = [words("MULTI"), read, words(&format!("LLEN {USER}:out")), words("EXEC")];
    connection.send(&requests).expect("this connection is never closed");
    let replies = requests.iter().map(|_| connection.receive().expect("this connection is never closed"));
    replies.last().expect("EXEC has a reply")
}

/// Waits until no connection of the deleted user is left.
fn await_closed(connection: &mut Connection, name: &str) {
    for _ in 0..CLOSED_CHECKS_MAX {
        if !connection.text(&["CLIENT", "LIST"]).contains(&format!("name={USER}")) {
            return;
        }
        simulation::sleep_us(1_000);
    }
    panic!("{name}: connections of a deleted user are open");
}

// ---- The user's connections

/// A connection of the user, with the rights when it was opened.
struct Own {
    connection: Connection,
    rights: Rights,
}

impl Own {
    /// Opens a connection and authenticates. `None`: the user has another password, or is deleted.
    fn open(world: &World, name: &str, random: &mut Random) -> Option<Self> {
        let mut connection = Connection::open(world.address, name);
        let rights = *lock(&world.rights);
        let is_old = rights.password > 0 && random.chance(20);
        let number = rights.password - u64::from(is_old);
        let reply = connection.try_call(&["AUTH", USER, &password(number)]);
        let later = *lock(&world.rights);
        let is_in = matches!(reply, Ok(Reply::Simple(_)));
        if rights.lasts(&later) {
            let expected = rights.exists && !is_old;
            assert_eq!(is_in, expected, "{name}: AUTH with {rights:?} gives {reply:?}");
        }
        if !is_in || connection.try_call(&["CLIENT", "SETNAME", USER]).is_err() {
            return None;
        }
        Some(Self { connection, rights })
    }

    /// Checks that the server had a reason to close the connection.
    fn assert_closable(&self, world: &World, name: &str, is_subscriber: bool) {
        let (then, now) = (self.rights, *lock(&world.rights));
        let is_closable = if is_subscriber {
            then.removal_count < now.removal_count
        } else {
            then.deletion_count < now.deletion_count
        };
        // A change that was under way when the connection was opened is in the counts already.
        let is_closable = is_closable || !then.epoch.is_multiple_of(2);
        assert!(is_closable, "{name}: a connection was closed without a reason: {then:?}, {now:?}");
    }
}

fn act(world: &World, name: &str, number: usize, mut random: Random) {
    let mut open: Option<Own> = None;
    while !lock(&world.rights).is_over {
        if random.chance(10) {
            open = None;
        }
        if open.is_none() {
            open = Own::open(world, name, &mut random);
        }
        let Some(own) = &mut open else {
            simulation::sleep_us(random.below(1_000) as u64);
            continue;
        };
        let requests = choose(number, &mut random);
        let before = *lock(&world.rights);
        let replies = exchange(&mut own.connection, &requests, &mut random);
        let after = *lock(&world.rights);
        let Some(replies) = replies else {
            own.assert_closable(world, name, false);
            open = None;
            continue;
        };
        if before.lasts(&after) {
            for reply in &replies {
                let is_right = is_denied(reply).is_none_or(|is_denied| is_denied != before.writes);
                assert!(is_right, "{name}: {requests:?} with {before:?} gives {reply:?}");
            }
        }
    }
}

/// Requests that each change something that only this user changes.
fn choose(number: usize, random: &mut Random) -> Vec<Vec<String>> {
    let key = format!("{USER}:count:{number}");
    let second = format!("{USER}:second:{number}");
    match random.below(10) {
        0 => vec![words(&format!("INCR {key}"))],
        1 => vec![words(&format!("INCR {key}")); 2 + random.below(100)],
        2 => vec![
            words("MULTI"),
            words(&format!("INCR {key}")),
            words(&format!("INCR {second}")),
            words("EXEC"),
        ],
        3 => {
            let code = "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])";
            vec![vec!["EVAL".to_owned(), code.to_owned(), "2".to_owned(), key, second]]
        }
        4..7 => {
            // It may pause before its first write, and between its writes.
            let loops = if random.chance(50) { LOOP_COUNT } else { 0 };
            let code = "for _ = 1, tonumber(ARGV[3]) do end redis.call('INCR', ARGV[1]) \
                        for _ = 1, tonumber(ARGV[3]) do end return redis.call('INCR', ARGV[2])";
            let words = ["EVAL", code, "0", &key, &second, &loops.to_string()];
            vec![words.map(str::to_owned).to_vec()]
        }
        7 => {
            let code = "for _ = 1, tonumber(ARGV[2]) do end redis.call('INCR', ARGV[1])";
            let script = ["EVAL", code, "0", &key, &LOOP_COUNT.to_string()].map(str::to_owned).to_vec();
            vec![words("MULTI"), script.clone(), script, words("EXEC")]
        }
        _ => vec![words(&format!("BLMOVE {USER}:in {USER}:out LEFT RIGHT 0.02"))],
    }
}

/// Sends requests and returns their replies, that of `EXEC` alone for a transaction. `None`: the connection is closed.
fn exchange(
    connection: &mut Connection,
    requests: &[Vec<String>],
    random: &mut Random,
) -> Option<Vec<Reply>> {
    if requests[0][0] == "MULTI" && random.chance(70) {
        // The rights may change between the queued commands and EXEC.
        let (queued, exec) = requests.split_at(requests.len() - 1);
        connection.send(queued).ok()?;
        simulation::sleep_us(random.below(5_000) as u64);
        connection.send(exec).ok()?;
    } else {
        connection.send(requests).ok()?;
    }
    let mut replies = Vec::new();
    for _ in requests {
        replies.push(connection.receive().ok()?);
    }
    if requests[0][0] == "MULTI" {
        // A command that is denied when it is queued aborts the transaction; scripts are denied when they run.
        return replies.pop().map(|last| match last {
            Reply::List(_, replies) => replies,
            last => vec![last],
        });
    }
    Some(replies)
}

/// Whether a request was denied. `None`: it was refused for another reason.
fn is_denied(reply: &Reply) -> Option<bool> {
    let Reply::Error(text) = reply else { return Some(false) };
    let text = String::from_utf8_lossy(text);
    // Another load may kill scripts.
    if text.starts_with("BUSY") || text.contains("killed by user") {
        return None;
    }
    let is_denied = ["NOPERM", "EXECABORT", "NOAUTH"].iter().any(|code| text.starts_with(code))
        || text.contains("ACL failure");
    assert!(is_denied, "{text}");
    Some(true)
}

/// Subscribes whenever the user may, and reads until the connection is closed.
fn listen(world: &World, name: &str, mut random: Random) {
    'connections: while !lock(&world.rights).is_over {
        simulation::sleep_us(random.below(1_000) as u64);
        let Some(mut own) = Own::open(world, name, &mut random) else { continue };
        let subscribe = if random.chance(50) { "SUBSCRIBE" } else { "PSUBSCRIBE" };
        let requests = [words("HELLO 3"), words(&format!("{subscribe} {USER}:news")), words("PING")];
        let is_sent = own.connection.send(&requests).is_ok();
        // The reply to HELLO, and that to PING or an error of SUBSCRIBE.
        for _ in 0..if is_sent { 2 } else { 0 } {
            match own.connection.receive() {
                Ok(Reply::Error(_)) => continue 'connections,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        while let Ok(push) = own.connection.receive_push() {
            let message = push.last().and_then(text_of);
            assert_ne!(message.as_deref(), Some("forbidden"), "{name}: a message without the right to it");
        }
        own.assert_closable(world, name, true);
    }
}

/// Pushes elements for the blocked clients, as another user.
fn feed(world: &World, name: &str, mut random: Random) {
    let mut connection = Connection::open(world.address, name);
    while !lock(&world.rights).is_over {
        connection.number(&["RPUSH", &format!("{USER}:in"), "x"]);
        simulation::sleep_us(random.below(20_000) as u64);
    }
}
