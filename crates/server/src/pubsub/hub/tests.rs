//! Tests of the hub.

use keyspace::Clients;

use super::*;
use crate::connection::record::ClientRecord;
use crate::connection::token::Token;
use commands::session::{Endpoints, SessionFlags};
use commands::subscriptions::SUBSCRIPTION_KINDS;

fn begin(hub: &Hub, kind: SubscriptionKind, name: &[u8], thread: usize) -> (Name, u64) {
    hub.begin(kind, (hub.hash(name), name), thread)
}

fn end(hub: &Hub, kind: SubscriptionKind, name: &[u8], thread: usize) {
    hub.end(kind, (hub.hash(name), name), thread);
}

fn hub() -> Hub {
    Hub::new(Box::leak(Box::new(Workers::all_open())))
}

#[test]
fn names_exist_while_they_have_subscribers() {
    let hub = hub();
    begin(&hub, SubscriptionKind::Channel, b"news", 0);
    begin(&hub, SubscriptionKind::Channel, b"news", 3);
    begin(&hub, SubscriptionKind::Pattern, b"n*", 3);
    assert_eq!(
        (hub.name_count(SubscriptionKind::Channel), hub.subscriber_count(SubscriptionKind::Channel, b"news")),
        (1, 2)
    );
    assert_eq!(hub.publish(0, SubscriptionKind::Channel, b"news", b""), 3);
    assert_eq!(hub.publish(0, SubscriptionKind::Channel, b"nothing", b""), 1);
    assert_eq!(hub.publish(0, SubscriptionKind::ShardChannel, b"news", b""), 0);
    hub.begin_prefix(b"n", 3, || ());
    assert_eq!(
        (hub.name_count(SubscriptionKind::Prefix), hub.subscriber_count(SubscriptionKind::Prefix, b"n")),
        (1, 1)
    );
    hub.end_prefix(b"n", 3, || ());
    end(&hub, SubscriptionKind::Channel, b"news", 0);
    end(&hub, SubscriptionKind::Channel, b"news", 3);
    end(&hub, SubscriptionKind::Pattern, b"n*", 3);
    assert!(SUBSCRIPTION_KINDS.iter().all(|kind| hub.name_count(*kind) == 0 && hub.names(*kind).is_empty()));
}

#[test]
fn a_worker_gets_one_mail_for_any_number_of_subscribers() {
    let hub = hub();
    for _ in 0..5 {
        begin(&hub, SubscriptionKind::Channel, b"c", 1);
    }
    begin(&hub, SubscriptionKind::Pattern, b"?", 1);
    begin(&hub, SubscriptionKind::Channel, b"c", 2);
    assert_eq!(hub.publish(0, SubscriptionKind::Channel, b"c", b"x"), 7);
    let unread = |thread: usize| hub.workers.handle(thread).mailbox().unread_count();
    assert_eq!([0, 1, 2].map(unread), [0, 1, 1]);
}

#[test]
fn messages_reach_exactly_the_counted_subscribers() {
    let hub = hub();
    let posted = |thread: usize| {
        let mut mail = Vec::new();
        hub.workers.handle(thread).mailbox().drain(&mut mail);
        let stamps = mail.into_iter().map(|mail| match mail {
            Mail::Published(message) => message.heading.stamp,
            _ => panic!("a message"),
        });
        stamps.collect::<Vec<_>>()
    };
    let (_, first) = begin(&hub, SubscriptionKind::Channel, b"c", 1);
    hub.publish(0, SubscriptionKind::Channel, b"c", b"");
    let (name, second) = begin(&hub, SubscriptionKind::Channel, b"c", 1);
    hub.post(0, SubscriptionKind::Channel, b"c", b"");
    assert_eq!(posted(1), [first, second]);
    assert!(first < second);
    // Later messages go to the new worker, with a stamp from which on they are for the moved connection.
    let mut since = 0;
    let names = [(SubscriptionKind::Channel, name)];
    hub.change_thread((7, false), &names, (1, 2), |stamp| since = stamp);
    assert_eq!(hub.publish(0, SubscriptionKind::Channel, b"c", b""), 2);
    assert!(since > second && posted(2)[0] >= since && posted(1)[0] >= since);
}

#[test]
fn a_worker_with_a_backlog_delays_its_publishers() {
    let hub = hub();
    begin(&hub, SubscriptionKind::Channel, b"c", 1);
    begin(&hub, SubscriptionKind::Channel, b"d", 2);
    begin(&hub, SubscriptionKind::Pattern, b"c?", 1);
    let text = vec![b'x'; BACKLOG_SIZE_MAX as usize];
    let heading = Heading { kind: SubscriptionKind::Channel, stamp: 0, patterns: Vec::new() };
    let size = Message::new(heading, b"c", &text, usize::MAX).size();
    assert!(!hub.is_congested());
    hub.publish(3, SubscriptionKind::Channel, b"c", &text);
    hub.publish(3, SubscriptionKind::Channel, b"c", &text);
    hub.publish(4, SubscriptionKind::Channel, b"d", b"");
    assert!(hub.is_congested() && hub.is_thread_congested(1) && !hub.is_thread_congested(2));
    assert_eq!(
        (hub.take_congested_target(3), hub.take_congested_target(3), hub.take_congested_target(4)),
        (Some(1), None, None)
    );
    let waits =
        [&b"c"[..], b"cc", b"d", b"e"].map(|name| hub.is_audience_congested(SubscriptionKind::Channel, name));
    assert_eq!(waits, [true, true, false, false]);
    assert!(!hub.is_audience_congested(SubscriptionKind::ShardChannel, b"c"));
    hub.delivered(1, size);
    assert!(hub.is_congested());
    hub.delivered(1, size);
    assert!(!hub.is_congested());
}

#[test]
fn invalidations_follow_a_moved_connection() {
    let hub = hub();
    let clients: &'static Registry = Box::leak(Box::new(Registry::default()));
    hub.set_registry(clients);
    let record = Arc::new(ClientRecord::new(7, Endpoints::none("")));
    record.session.flags.set(u64::from(SessionFlags::TRACKING.bits()));
    record.token.set(Token::new(1, 0, 0).0);
    clients.insert(&record);
    let unread = |thread: usize| hub.workers.handle(thread).mailbox().unread_count();
    std::thread::scope(|scope| {
        hub.change_thread((7, true), &[], (1, 2), |_| {
            scope.spawn(|| hub.invalidate(0, b"key", &Clients::one(7), 9));
            // It waits for the end of the move, or has sent the message to the old worker.
            while hub.passage.step_count(0) == 0 && unread(1) == 0 {
                std::thread::yield_now();
            }
            record.token.set(Token::new(2, 0, 0).0);
        });
    });
    assert_eq!([1, 2].map(unread), [0, 1]);
}

#[test]
fn publishers_wait_only_for_the_move_of_a_connection_that_may_receive() {
    let hub = hub();
    let closes = |client: u64, is_tracking: bool, names: &[(SubscriptionKind, Name)]| {
        let mut is_closed = false;
        hub.change_thread((client, is_tracking), names, (1, 2), |_| is_closed = hub.passage.is_closed());
        is_closed
    };
    let (name, _) = begin(&hub, SubscriptionKind::Channel, b"c", 1);
    hub.set_redirection(8, Some(Redirection { target: 9, ..Redirection::default() }));
    assert!(!closes(7, false, &[]));
    assert!(closes(7, true, &[]) && closes(9, false, &[]));
    assert!(closes(7, false, &[(SubscriptionKind::Channel, name)]));
    hub.set_redirection(8, None);
    assert!(!closes(9, false, &[]));
}
