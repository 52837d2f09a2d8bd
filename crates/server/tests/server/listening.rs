//! Publishing to connections on several threads, on both I/O backends: no message is lost, doubled or out of
//! order while connections are opened, closed, moved or killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Client, Server, on_each_backend, shown, wait_for};
use wire::response::Reply;

/// The parts of a message or of another reply with several parts.
fn parts(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Array(items) | Reply::Push(items) => items.iter().map(shown).collect(),
        other => vec![shown(other)],
    }
}

fn next(client: &mut Client) -> Vec<String> {
    parts(&client.receive().expect("the server stays"))
}

#[test]
fn subscribers_get_each_message_once_in_publishing_order() {
    const LISTENERS: usize = 12;
    const PUBLISHERS: usize = 3;
    const MESSAGES: usize = 300;
    let test = |server: Server| {
        let mut listeners: Vec<Client> = (0..LISTENERS)
            .map(|index| {
                let mut client = server.client();
                let words = if index % 2 == 0 { ["SUBSCRIBE", "news"] } else { ["PSUBSCRIBE", "n*s"] };
                client.text(&words);
                client
            })
            .collect();
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    for number in 0..MESSAGES {
                        let count = client.text(&["PUBLISH", "news", &format!("{publisher}:{number}")]);
                        assert_eq!(count, LISTENERS.to_string());
                    }
                })
            })
            .collect();
        for client in &mut listeners {
            let mut seen = [0; PUBLISHERS];
            for _ in 0..PUBLISHERS * MESSAGES {
                let text = next(client).pop().unwrap();
                let (publisher, number) = text.split_once(':').unwrap();
                let publisher: usize = publisher.parse().unwrap();
                assert_eq!(number, seen[publisher].to_string());
                seen[publisher] += 1;
            }
        }
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
    };
    // On one thread there are enough subscribers for their messages to wait for each other.
    on_each_backend(&["--io-threads", "1"], test);
    on_each_backend(&["--io-threads", "4"], test);
}

#[test]
fn publish_counts_are_exact_while_subscribers_change() {
    on_each_backend(&["--io-threads", "3"], |server| {
        let stop = Arc::new(AtomicBool::new(false));
        let counted = Arc::new(AtomicU64::new(0));
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let (stop, counted, mut client) = (Arc::clone(&stop), Arc::clone(&counted), server.client());
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let count: u64 = client.text(&["PUBLISH", "c", "x"]).parse().unwrap();
                        counted.fetch_add(count, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let listeners: Vec<_> = (0..4)
            .map(|index| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    let (begin, end) = match index % 2 {
                        0 => (["SUBSCRIBE", "c"], ["UNSUBSCRIBE", "c"]),
                        _ => (["PSUBSCRIBE", "?"], ["PUNSUBSCRIBE", "?"]),
                    };
                    let mut received = 0;
                    for round in 0..60 {
                        client.send(&begin);
                        assert_eq!(next(&mut client)[0], begin[0].to_lowercase());
                        let wanted = received + round % 5;
                        while received < wanted {
                            assert!(next(&mut client)[0].ends_with("message"));
                            received += 1;
                        }
                        client.send(&end);
                        // Earlier messages precede the reply, and none follows it.
                        while next(&mut client)[0].ends_with("message") {
                            received += 1;
                        }
                        assert_eq!(client.text(&["ECHO", "nothing in between"]), "nothing in between");
                    }
                    received
                })
            })
            .collect();
        let mut admin = server.client();
        for count in ["1", "3", "2", "1", "3"].iter().cycle().take(15) {
            assert_eq!(admin.text(&["CONFIG", "SET", "io-threads", count]), "OK");
        }
        let received: u64 = listeners.into_iter().map(|listener| listener.join().unwrap()).sum();
        stop.store(true, Ordering::Relaxed);
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        assert_eq!(counted.load(Ordering::Relaxed), received);
        assert_eq!(server.info(&mut admin, "pubsub_channels"), "0");
        assert_eq!(server.info(&mut admin, "pubsub_patterns"), "0");
    });
}

#[test]
fn subscriber_mode_compares_whole_command_names() {
    let server = Server::start(&[]);
    let mut listener = server.client();
    listener.text(&["SUBSCRIBE", "news"]);
    for container in ["LATENCY", "SLOWLOG", "COMMANDLOG"] {
        let words = [container, "RESET", "slow"];
        let answer = listener.text(&words[..if container == "SLOWLOG" { 2 } else { 3 }]);
        let name = container.to_lowercase();
        assert!(answer.contains(&format!("Can't execute '{name}|reset'")), "{answer}");
    }
    assert_eq!(listener.text(&["RESET"]), "RESET");
}

#[test]
fn moved_subscribers_miss_no_message() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let mut listeners: Vec<Client> = (0..6).map(|_| server.client()).collect();
        for client in &mut listeners {
            client.text(&["SSUBSCRIBE", "shard"]);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut publisher) = (Arc::clone(&stop), server.client());
        let publishing = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                assert_eq!(publisher.text(&["SPUBLISH", "shard", &count.to_string()]), "6");
                count += 1;
            }
            count
        });
        let mut admin = server.client();
        for count in [4, 2, 3, 1, 4, 1, 2] {
            admin.set_thread_count(count);
        }
        stop.store(true, Ordering::Relaxed);
        let count = publishing.join().unwrap();
        for client in &mut listeners {
            for number in 0..count {
                assert_eq!(next(client), ["smessage", "shard", &number.to_string()]);
            }
        }
    });
}

#[test]
fn own_messages_follow_the_reply_of_their_publish() {
    on_each_backend(&["--io-threads", "2"], |server| {
        let mut client = server.client();
        client.text(&["HELLO", "3"]);
        client.text(&["SUBSCRIBE", "c"]);
        for words in [&["PUBLISH", "c", "1"][..], &["GET", "k"], &["PUBLISH", "c", "2"], &["PING"]] {
            client.send(words);
        }
        let expected = [&["1"][..], &["message", "c", "1"], &[""], &["1"], &["message", "c", "2"], &["PONG"]];
        for parts in expected {
            assert_eq!(next(&mut client), parts);
        }
    });
}

#[test]
fn closed_subscribers_leave_no_subscriptions() {
    on_each_backend(&["--io-threads", "3"], |server| {
        let mut admin = server.client();
        let mut listeners: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for client in &mut listeners {
            client.text(&["SUBSCRIBE", "a"]);
            client.text(&["PSUBSCRIBE", "b*"]);
            client.text(&["SSUBSCRIBE", "c"]);
        }
        let lines = admin.text(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        assert_eq!(lines.matches("flags=P ").count(), 4);
        assert_eq!(lines.matches(" sub=1 psub=1 ssub=1 ").count(), 4);
        assert_eq!(server.info(&mut admin, "pubsub_clients"), "4");
        assert_eq!(server.info(&mut admin, "pubsubshard_channels"), "1");
        listeners.truncate(2);
        wait_for(|| (server.info(&mut admin, "pubsub_clients") == "2").then_some(()));
        assert_eq!(admin.text(&["CLIENT", "KILL", "TYPE", "pubsub"]), "2");
        wait_for(|| (admin.text(&["PUBLISH", "a", ""]) == "0").then_some(()));
        for field in ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels", "pubsub_clients"] {
            wait_for(|| (server.info(&mut admin, field) == "0").then_some(()));
        }
    });
}

#[test]
fn killed_subscribers_are_not_counted() {
    on_each_backend(&["--io-threads", "1"], |server| {
        let (mut admin, mut listener) = (server.client(), server.client());
        listener.text(&["SUBSCRIBE", "c"]);
        assert_eq!(admin.text(&["CLIENT", "KILL", "TYPE", "pubsub"]), "1");
        assert_eq!(admin.text(&["PUBLISH", "c", ""]), "0");
    });
}

#[test]
fn a_slow_subscriber_is_closed_without_affecting_others() {
    let options = ["--io-threads", "2", "--client-output-buffer-limit", "pubsub 4mb 0 0"];
    on_each_backend(&options, |server| {
        let (mut slow, mut quick, mut publisher) = (server.client(), server.client(), server.client());
        slow.text(&["SUBSCRIBE", "c"]);
        quick.text(&["SUBSCRIBE", "c"]);
        let text = "x".repeat(100_000);
        let mut count = 0;
        // The kernel's buffers take some megabytes before the server has to keep output.
        while publisher.text(&["PUBLISH", "c", &text]) == "2" {
            assert_eq!(next(&mut quick)[2].len(), text.len());
            count += 1;
            assert!(count < 10_000, "the slow one is still there");
        }
        assert_eq!(next(&mut quick)[2].len(), text.len());
        assert_eq!(server.info(&mut publisher, "client_output_buffer_limit_disconnections"), "1");
        assert_eq!(publisher.text(&["PUBLISH", "c", "end"]), "1");
        assert_eq!(next(&mut quick)[2], "end");
    });
}

/// Connections of a server with two threads, alternately on one and the other. The thread of the fourth one is
/// in a sleep that has begun when this returns.
fn beside_a_sleeping_thread(server: &Server, prepare: impl FnOnce(&mut [Client])) -> Vec<Client> {
    let mut clients = server.six_clients();
    prepare(&mut clients);
    let [_, _, _, sleeper, observer, _] = &mut clients[..] else { panic!("six") };
    assert_eq!(observer.text(&["SUBSCRIBE", "begun"]), "subscribe\nbegun\n1");
    for request in [&["MULTI"][..], &["PUBLISH", "begun", ""], &["DEBUG", "SLEEP", "3"], &["EXEC"]] {
        sleeper.send(request);
    }
    assert_eq!(shown(&observer.receive().unwrap()), "message\nbegun\n");
    clients
}

/// A text; two of them exceed the backlog limit of a thread.
fn much() -> String {
    "x".repeat(700_000)
}

#[test]
fn a_slow_worker_delays_only_its_publishers() {
    let server = Server::start(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let mut clients = beside_a_sleeping_thread(&server, |clients| {
        assert_eq!(clients[1].text(&["SUBSCRIBE", "news"]), "subscribe\nnews\n1");
    });
    let [publisher, _, writer, ..] = &mut clients[..] else { panic!("six") };
    assert_eq!(publisher.text(&["PUBLISH", "news", &much()]), "1");
    assert_eq!(publisher.text(&["PUBLISH", "news", &much()]), "1");
    publisher.send(&["PUBLISH", "news", "late"]);
    assert_eq!(writer.text(&["SET", "key", "value"]), "OK");
    assert_eq!(writer.text(&["PUBLISH", "elsewhere", ""]), "0");
    // The thread is still in its turn, so senders to it wait.
    publisher.expect_no_data(Duration::from_millis(1));
    assert_eq!(shown(&publisher.receive().unwrap()), "1");
}

#[test]
fn writers_wait_for_slow_subscribers_of_their_events() {
    let options = ["--io-threads", "2", "--enable-debug-command", "yes", "--notify-keyspace-events", "Eg$"];
    let server = Server::start(&options);
    let mut clients = beside_a_sleeping_thread(&server, |clients| {
        assert_eq!(clients[1].text(&["PSUBSCRIBE", "*:del"]), "psubscribe\n*:del\n1");
    });
    let [writer, _, other, ..] = &mut clients[..] else { panic!("six") };
    let keys = [much(), much().to_uppercase()];
    for key in &keys {
        assert_eq!(writer.text(&["SET", key, ""]), "OK");
    }
    assert_eq!(writer.text(&["DEL", &keys[0]]), "1");
    assert_eq!(writer.text(&["DEL", &keys[1]]), "1");
    writer.send(&["SET", "late", ""]);
    assert_eq!(other.text(&["SET", "key", "value"]), "OK");
    writer.expect_no_data(Duration::from_millis(1));
    assert_eq!(shown(&writer.receive().unwrap()), "OK");
}

#[test]
fn monitored_clients_wait_for_a_slow_monitor() {
    let server = Server::start(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let mut clients = beside_a_sleeping_thread(&server, |clients| {
        assert_eq!(clients[1].text(&["MONITOR"]), "OK");
    });
    let [writer, monitor, ..] = &mut clients[..] else { panic!("six") };
    assert_eq!(writer.text(&["SET", "key", &much()]), "OK");
    assert_eq!(writer.text(&["SET", "key", &much()]), "OK");
    writer.send(&["GET", "none"]);
    writer.expect_no_data(Duration::from_millis(1));
    assert_eq!(shown(&writer.receive().unwrap()), "");
    assert!((0..20).any(|_| shown(&monitor.receive().unwrap()).contains("\"GET\" \"none\"")));
}
