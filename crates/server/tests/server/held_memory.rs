//! Memory that clients hold: input that waits stays with its client, and whatever the server keeps for a client is
//! registered, counted and limited until the connection is closed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use wire::response::Reply;

use crate::support::{self, Client, PATIENCE, Server, on_each_backend, shown, wait_for};

const LARGE_SIZE: usize = 20_000_000;

/// More than the kernel's buffers of a connection can take.
const FLOOD_SIZE: usize = 64 << 20;

fn number(server: &Server, client: &mut Client, field: &str) -> usize {
    server.info(client, field).parse().unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Writes `request` again and again on a thread of its own, until this many bytes are written or the connection ends.
fn flood(mut stream: impl Write + Send + 'static, request: &[u8], size: usize) -> JoinHandle<bool> {
    let piece = request.repeat((64 << 10) / request.len() + 1);
    let count = size / piece.len() + 1;
    std::thread::spawn(move || (0..count).all(|_| stream.write_all(&piece).is_ok()))
}

/// The values of these fields of a client's line in `CLIENT LIST`.
fn of_client(admin: &mut Client, id: &str, fields: &[&str]) -> Option<Vec<String>> {
    let line = admin.text(&["CLIENT", "LIST", "ID", id]);
    let value = |field: &&str| line.split(' ').find_map(|one| one.strip_prefix(*field)?.strip_prefix('='));
    fields.iter().map(|field| value(field).map(str::to_owned)).collect()
}

/// Waits until the server has received so much that it receives no more, and checks that it holds little.
fn expect_little_input(server: &Server, admin: &mut Client, flooding: &JoinHandle<bool>) {
    wait_for(|| (number(server, admin, "total_net_input_bytes") > 60_000).then_some(()));
    for _ in 0..100 {
        assert!(!flooding.is_finished(), "all input was received");
        let (held, received) =
            (number(server, admin, "mem_clients_normal"), number(server, admin, "total_net_input_bytes"));
        assert!(held < 16 << 20 && received < FLOOD_SIZE / 2, "{held} bytes are held of {received}");
    }
}

#[test]
fn input_of_a_blocked_client_waits_with_the_client() {
    let options = ["--io-threads", "1", "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    on_each_backend(&options, |server| {
        let mut admin = server.client();
        let value = "v".repeat(10_000);
        for key in 0..500 {
            assert_eq!(admin.text(&["SET", &key.to_string(), &value]), "OK");
        }
        let mut blocked = connect(&server);
        blocked.write_all(b"BLPOP queue 0\r\n").unwrap();
        let request = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", "e".repeat(1000));
        let flooding = flood(blocked.try_clone().unwrap(), request.as_bytes(), FLOOD_SIZE);
        expect_little_input(&server, &mut admin, &flooding);
        assert_eq!(number(&server, &mut admin, "evicted_keys"), 0);
        assert_eq!(admin.text(&["RPUSH", "queue", "element"]), "1");
        // All requests are executed in order.
        let mut reply = [0; 28];
        blocked.read_exact(&mut reply).unwrap();
        assert!(reply.starts_with(b"*2\r\n$5\r\nqueue\r\n$7\r\nelement\r\n"));
        let count = (64 << 10) / request.len() + 1;
        let total = (FLOOD_SIZE / (count * request.len()) + 1) * count;
        let mut echo = vec![0; 1009];
        for _ in 0..total {
            blocked.read_exact(&mut echo[..1009 - 2]).unwrap();
            assert!(echo.starts_with(b"$1000\r\ne"));
            blocked.read_exact(&mut echo[..2]).unwrap();
        }
        assert!(flooding.join().unwrap());
    });
}

#[test]
fn a_flood_of_slow_requests_waits_with_the_client() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut admin = server.client();
        admin.text(&["SETRANGE", "bits", "400000", "x"]);
        let mut fast = connect(&server);
        let request = b"*2\r\n$8\r\nBITCOUNT\r\n$4\r\nbits\r\n";
        let flooding = flood(fast.try_clone().unwrap(), request, FLOOD_SIZE);
        fast.read_exact(&mut [0; 4]).unwrap();
        expect_little_input(&server, &mut admin, &flooding);
        assert_eq!(number(&server, &mut admin, "client_query_buffer_limit_disconnections"), 0);
        drop(fast);
        server.signal("KILL");
        assert!(!flooding.join().unwrap());
    });
}

#[test]
fn small_requests_are_served_between_those_of_a_flood() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut small = server.client();
        let fast = connect(&server);
        let mut reader = fast.try_clone().unwrap();
        let flooding = flood(fast, b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n", FLOOD_SIZE);
        let reading = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while reader.read(&mut buffer).is_ok_and(|size| size > 0) {}
        });
        let mut before: usize = wait_for(|| small.text(&["GET", "n"]).parse().ok());
        let mut counts = Vec::new();
        for _ in 0..500 {
            let now: usize = small.text(&["GET", "n"]).parse().unwrap();
            counts.push(now - before);
            before = now;
        }
        counts.sort_unstable();
        // A few turns of some thousand requests each, except where this thread did not run in between.
        assert!(counts[450] < 100_000, "requests that were executed before a small one: {counts:?}");
        server.signal("KILL");
        flooding.join().unwrap();
        reading.join().unwrap();
    });
}

#[test]
fn pipelines_longer_than_the_query_limit_are_served() {
    const COUNT: usize = 400_000;
    on_each_backend(&["--io-threads", "1", "--client-query-buffer-limit", "1mb"], |server| {
        let mut stream = connect(&server);
        let mut writer = stream.try_clone().unwrap();
        let writing =
            std::thread::spawn(move || writer.write_all(&b"INCR counter\r\n".repeat(COUNT)).is_ok());
        let mut replies = Vec::new();
        let mut piece = vec![0; 1 << 20];
        let last = format!(":{COUNT}\r\n");
        while !replies.ends_with(last.as_bytes()) {
            let size = stream.read(&mut piece).unwrap();
            assert!(size > 0, "the pipeline was cut after {} bytes of replies", replies.len());
            replies.extend_from_slice(&piece[..size]);
        }
        assert!(writing.join().unwrap());
        // The queue of a transaction and an incomplete request still have the limit.
        let mut greedy = server.client();
        greedy.send(&["MULTI"]);
        greedy.send_raw_if_open(&b"INCR counter\r\n".repeat(COUNT));
        let replies = std::iter::from_fn(|| greedy.receive()).count();
        assert!(replies < COUNT, "{replies} commands were queued");
    });
}

#[test]
fn a_blocked_client_that_leaves_is_noticed_behind_much_input() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut admin = server.client();
        for is_half in [false, true] {
            let mut blocked = connect(&server);
            blocked.write_all(b"BLPOP queue 0\r\n").unwrap();
            wait_for(|| (number(&server, &mut admin, "blocked_clients") == 1).then_some(()));
            // Little more than is received: the end of the connection is not behind a full buffer of the kernel.
            blocked.write_all(&b"PING\r\n".repeat(((1 << 20) + 60_000) / 6)).unwrap();
            let kept = match is_half {
                true => {
                    blocked.shutdown(Shutdown::Write).unwrap();
                    Some(blocked)
                }
                false => {
                    drop(blocked);
                    None
                }
            };
            wait_for(|| (number(&server, &mut admin, "blocked_clients") == 0).then_some(()));
            wait_for(|| (number(&server, &mut admin, "connected_clients") == 1).then_some(()));
            drop(kept);
        }
        // Nothing was taken for them.
        assert_eq!(admin.text(&["RPUSH", "queue", "element"]), "1");
    });
}

#[test]
fn input_of_a_unix_socket_waits_with_its_client() {
    let path = std::env::temp_dir().join(format!("held-memory-{}.sock", std::process::id()));
    on_each_backend(&["--io-threads", "1", "--unixsocket", path.to_str().unwrap()], |server| {
        let mut admin = server.client();
        let mut blocked = UnixStream::connect(&path).unwrap();
        blocked.write_all(b"BLPOP queue 0\r\n").unwrap();
        let flooding = flood(blocked.try_clone().unwrap(), b"PING\r\n", FLOOD_SIZE);
        expect_little_input(&server, &mut admin, &flooding);
        blocked.shutdown(Shutdown::Both).unwrap();
        assert!(!flooding.join().unwrap());
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 1).then_some(()));
    });
}

/// Clients that request large replies and the end of their connection, and read nothing.
fn closing_clients(server: &Server, count: usize) -> Vec<TcpStream> {
    let leave = |_| {
        let mut stream = connect(server);
        stream.write_all(b"CLIENT SETNAME leaving\r\nGET large\r\nMONITOR\r\nQUIT\r\nPING\r\n").unwrap();
        stream
    };
    (0..count).map(leave).collect()
}

#[test]
fn a_closing_client_is_registered_until_its_output_is_sent() {
    let options = ["--io-threads", "2", "--maxclients", "6"];
    on_each_backend(&options, |server| {
        let mut admin = server.client();
        assert_eq!(admin.text(&["SET", "large", &"v".repeat(LARGE_SIZE)]), "OK");
        let mut closing = closing_clients(&server, 5);
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 6).then_some(()));
        let list = wait_for(|| {
            let list = admin.text(&["CLIENT", "LIST"]);
            let is_waiting = |line: &&str| line.contains(" name=leaving ") && !line.contains(" omem=0 ");
            (list.lines().filter(is_waiting).count() == 5).then_some(list)
        });
        assert_eq!(
            server.client().receive().map(|reply| shown(&reply)),
            Some("ERR max number of clients reached".to_owned())
        );
        // They get no lines of MONITOR: their output does not grow.
        let ids: Vec<&str> = list
            .lines()
            .filter(|line| line.contains(" name=leaving "))
            .filter_map(|line| line.split(' ').next()?.strip_prefix("id="))
            .collect();
        let outputs = |admin: &mut Client| -> Vec<_> {
            ids.iter().map(|id| of_client(admin, id, &["omem", "flags"]).unwrap()).collect()
        };
        let before = outputs(&mut admin);
        for _ in 0..100 {
            assert_eq!(admin.text(&["EXISTS", "none"]), "0");
        }
        assert_eq!(outputs(&mut admin), before);
        assert!(before.iter().all(|fields| !fields[1].contains('O')), "{before:?}");
        // One reads, one is killed.
        let mut output = Vec::new();
        closing[0].read_to_end(&mut output).unwrap();
        assert!(output.len() > LARGE_SIZE && output.starts_with(b"+OK\r\n$20000000\r\n"));
        let first = closing[1].local_addr().unwrap().to_string();
        assert_eq!(admin.text(&["CLIENT", "KILL", "ADDR", &first]), "1");
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 4).then_some(()));
        // A closing connection without room for its last reply is registered, too.
        let mut full = connect(&server);
        full.write_all(b"GET large\r\n").unwrap();
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 5).then_some(()));
        full.write_all(b"QUIT\r\n").unwrap();
        let address = full.local_addr().unwrap().to_string();
        wait_for(|| {
            let list = admin.text(&["CLIENT", "LIST"]);
            let line = list.lines().find(|line| line.contains(&format!(" addr={address} ")))?;
            line.contains("cmd=quit").then_some(())
        });
        assert_eq!(admin.text(&["CLIENT", "KILL", "ADDR", &address]), "1");
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 4).then_some(()));
    });
}

#[test]
fn a_closing_client_that_reads_nothing_is_closed_in_time() {
    on_each_backend(&["--io-threads", "1", "--timeout", "1"], |server| {
        let mut admin = server.client();
        assert_eq!(admin.text(&["SET", "large", &"v".repeat(LARGE_SIZE)]), "OK");
        let _closing = closing_clients(&server, 3);
        // Each look has its own connection: one that waits between two requests could be closed, too.
        drop(admin);
        let have_left = |stats: String| stats.contains("cmdstat_quit:calls=3,");
        wait_for(|| have_left(server.client().text(&["INFO", "commandstats"])).then_some(()));
        wait_for(|| (number(&server, &mut server.client(), "connected_clients") == 1).then_some(()));
    });
}

#[test]
fn limits_apply_to_closing_clients() {
    on_each_backend(&["--io-threads", "2", "--maxmemory-clients", "50mb"], |server| {
        let mut admin = server.client();
        assert_eq!(admin.text(&["SET", "large", &"v".repeat(LARGE_SIZE)]), "OK");
        let _closing = closing_clients(&server, 5);
        wait_for(|| (number(&server, &mut admin, "evicted_clients") >= 3).then_some(()));
        wait_for(|| (number(&server, &mut admin, "connected_clients") <= 3).then_some(()));
    });
    on_each_backend(&["--client-output-buffer-limit", "normal 15mb 0 0"], |server| {
        let mut admin = server.client();
        assert_eq!(admin.text(&["SET", "large", &"v".repeat(LARGE_SIZE)]), "OK");
        let _closing = closing_clients(&server, 1);
        server.log_line("closed for overcoming of output buffer limits");
        wait_for(|| (number(&server, &mut admin, "connected_clients") == 1).then_some(()));
    });
}

/// The largest are closed, even if most of them grow while others are being closed.
#[test]
fn small_clients_outlive_a_flood_of_large_ones() {
    const FLOOD: usize = 300;
    for _ in 0..4 {
        let server = Server::start(&["--io-threads", "2", "--maxmemory-clients", "10mb"]);
        let mut small: Vec<Client> = (0..50).map(|_| server.client()).collect();
        small.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        let part = [&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$50000000\r\n"[..], &[b'x'; 20_000]].concat();
        let large: Vec<Client> = (0..FLOOD)
            .map(|_| {
                let mut client = server.client();
                client.send_raw_if_open(&part);
                client
            })
            .collect();
        wait_for(|| (number(&server, &mut small[0], "evicted_clients") >= 1).then_some(()));
        small.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        drop(large);
    }
}

#[test]
fn arguments_of_blocked_clients_count() {
    on_each_backend(&["--io-threads", "2", "--maxmemory-clients", "30mb"], |server| {
        let mut admin = server.client();
        let key = |index: usize| format!("{index}{}", "k".repeat(5_000_000));
        let mut first = server.client();
        let id = first.text(&["CLIENT", "ID"]);
        first.send(&["BLPOP", &key(0), "0"]);
        let memory = wait_for(|| {
            let fields = of_client(&mut admin, &id, &["cmd", "tot-mem"])?;
            (fields[0] == "blpop")
                .then(|| fields[1].parse::<usize>().unwrap())
                .filter(|size| *size > 5_000_000)
        });
        assert!(memory < 20_000_000, "{memory}");
        // The end of the wait ends the charge.
        assert_eq!(admin.text(&["CLIENT", "UNBLOCK", &id]), "1");
        first.receive().unwrap();
        wait_for(|| {
            let fields = of_client(&mut admin, &id, &["tot-mem"])?;
            (fields[0].parse::<usize>().unwrap() < 5_000_000).then_some(())
        });
        let mut blocked: Vec<Client> = (0..12).map(|_| server.client()).collect();
        for (index, client) in blocked.iter_mut().enumerate() {
            client.send_raw_if_open(
                format!("*3\r\n$5\r\nBLPOP\r\n${}\r\n{}\r\n$1\r\n0\r\n", key(index).len(), key(index))
                    .as_bytes(),
            );
        }
        wait_for(|| (number(&server, &mut admin, "evicted_clients") >= 6).then_some(()));
    });
}

#[test]
fn little_unread_output_is_counted() {
    const REPLY_SIZE: usize = "$7500\r\n".len() + 7_500 + 2;
    // The output is looked at 500 times a second.
    on_each_backend(&["--io-threads", "1", "--hz", "500"], |server| {
        let mut admin = server.client();
        admin.text(&["SET", "key", &"v".repeat(7_500)]);
        admin.text(&["SETRANGE", "large", &(LARGE_SIZE - 1).to_string(), "x"]);
        let mut of_silent = |id: &str| {
            let fields =
                of_client(&mut admin, id, &["omem", "tot-mem", "tot-cmds"]).expect("it is connected");
            fields.iter().map(|field| field.trim().parse().unwrap()).collect::<Vec<usize>>()
        };
        let mut first = server.client();
        let id = first.text(&["CLIENT", "ID"]);
        first.send(&["GET", "large"]);
        let mut taken = LARGE_SIZE - wait_for(|| Some(of_silent(&id)[0]).filter(|size| *size > 0));
        let unread = wait_for(|| {
            let mut silent = server.client();
            let id = silent.text(&["CLIENT", "ID"]);
            let before = of_silent(&id);
            // Most of what the kernel takes at once, and then reply by reply until it takes no more.
            taken = taken.saturating_sub(100_000);
            let count = taken / REPLY_SIZE;
            (0..count).for_each(|_| silent.send(&["GET", "key"]));
            wait_for(|| (of_silent(&id)[2] >= before[2] + count).then_some(()));
            let unread = wait_for(|| {
                let shown = Some(of_silent(&id)).filter(|sizes| sizes[0] > 0);
                if shown.is_none() {
                    silent.send(&["GET", "key"]);
                }
                shown
            });
            assert!(unread[1] >= before[1] + unread[0], "{unread:?}, before {before:?}");
            // On a busy machine there were several before the look.
            Some(unread[0]).filter(|size| *size < 16_000)
        });
        assert!(unread < 16_000);
    });
}

#[test]
fn subscribers_share_long_messages() {
    const READERS: usize = 10;
    const MESSAGES: usize = 300;
    on_each_backend(&["--io-threads", "2", "--maxmemory-clients", "20mb"], |server| {
        let mut admin = server.client();
        let mut readers: Vec<Client> = (0..READERS).map(|_| server.client()).collect();
        for (index, reader) in readers.iter_mut().enumerate() {
            if index % 2 == 0 {
                reader.text(&["HELLO", "3"]);
            }
            reader.text(&if index % 3 == 0 { ["PSUBSCRIBE", "n*s"] } else { ["SUBSCRIBE", "news"] });
        }
        let text = |number: usize| match number % 4 {
            0 => number.to_string(),
            _ => format!("{number}:{}", "m".repeat(100_000)),
        };
        for number in 0..MESSAGES {
            assert_eq!(admin.text(&["PUBLISH", "news", &text(number)]), READERS.to_string());
        }
        let used = number(&server, &mut admin, "used_memory");
        assert!(used < 80 << 20, "messages are copied: {used}");
        assert_eq!(number(&server, &mut admin, "evicted_clients"), 0);
        for reader in &mut readers {
            for number in 0..MESSAGES {
                let message = shown_parts(reader);
                assert!(message.last() == Some(&text(number)), "message {number}");
            }
            reader.send(&["PING", "still here"]);
            assert!(shown_parts(reader).contains(&"still here".to_owned()));
        }
        wait_for(|| (number(&server, &mut admin, "used_memory") < 30 << 20).then_some(()));
    });
}

fn shown_parts(client: &mut Client) -> Vec<String> {
    match client.receive().unwrap() {
        Reply::Array(items) | Reply::Push(items) => items.iter().map(shown).collect(),
        other => vec![shown(&other)],
    }
}

#[test]
fn a_lower_limit_on_tracked_keys_is_reached_step_by_step() {
    const KEYS: usize = 100_000;
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut admin = server.client();
        let mut reader = server.client();
        reader.text(&["HELLO", "3"]);
        assert_eq!(reader.text(&["CLIENT", "TRACKING", "ON", "NOLOOP"]), "OK");
        let names: Vec<String> = (0..KEYS).map(|number| number.to_string()).collect();
        for some in names.chunks(1000) {
            let words: Vec<&str> = ["MGET"].into_iter().chain(some.iter().map(String::as_str)).collect();
            reader.text(&words);
        }
        let tracked = |admin: &mut Client| number(&server, admin, "tracking_total_keys");
        assert_eq!(tracked(&mut admin), KEYS);
        assert_eq!(admin.text(&["CONFIG", "SET", "tracking-table-max-keys", "10"]), "OK");
        assert!(tracked(&mut admin) > KEYS / 2, "all were dropped at once");
        reader.send_raw(&b"GET one\r\n".repeat(150));
        wait_for(|| (tracked(&mut admin) <= 10).then_some(()));
    });
}

#[test]
fn names_to_listen_on_must_exist() {
    let (output, succeeded) =
        support::run(&["--port", "0", "--bind", "127.0.0.1", "-no-such-name.invalid", "--port", "1"], "");
    assert!(!succeeded && output.contains("no-such-name.invalid:1"), "{output}");
    // Only the address may be missing.
    let server = Server::start(&["--bind", "127.0.0.1", "-192.0.2.1"]);
    server.log_line("Not listening on the address 192.0.2.1");
    assert_eq!(server.client().text(&["PING"]), "PONG");
}
