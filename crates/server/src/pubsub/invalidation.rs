//! Client-side caching: telling connections what they may not keep any more.
//!
//! A change tells the readers of its key under the slot's latch ([`Hub::stale`]), so whoever reads the key afterwards reads
//! the new value, and the answer to an older read is in its connection's output already. Those who are told of all changes
//! get those of a turn together, before its replies leave ([`Hub::broadcast`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use commands::session::{Session, SessionFlags};
use commands::subscriptions::SubscriptionKind;
use keyspace::ChangedKey;
use wire::reply::{Protocol, ReplyBuffer};

use super::hub::{Caching, Hub};
use crate::connection::Token;
use crate::mail::Mail;

/// Bytes that one on its way is counted with besides its keys.
const OVERHEAD: usize = 256;

/// Keys that are not valid any more, on their way to one connection.
pub struct Invalidation {
    /// Where it was.
    pub to: Token,
    /// Who it is.
    pub client: u64,
    /// An array of the keys; `None`: all there are.
    pub keys: Option<Arc<[u8]>>,
    /// Somebody else has read them, and redirects them there.
    pub is_redirected: bool,
    /// It changed them itself.
    pub is_own_change: bool,
}

/// Keys with a prefix that changed in one turn of a thread.
pub struct Broadcast {
    /// What all begin with.
    pub prefix: Arc<[u8]>,
    /// The keys, each with the client who changed it last.
    changed: Vec<(Arc<[u8]>, u64)>,
    /// All of them as an array.
    keys: Vec<u8>,
}

impl Invalidation {
    /// Bytes that it counts as while it is on its way.
    pub fn size(&self) -> u64 {
        (self.keys.as_ref().map_or(0, |keys| keys.len()) + OVERHEAD) as u64
    }

    /// Writes it to the connection it is for.
    pub fn give(&self, hub: &Hub, session: &mut Session, out: &mut Vec<u8>) {
        if self.is_redirected {
            write(session, out, self.keys.as_deref(), true);
        } else if !session.broadcasts() {
            give(hub, session, out, self.keys.as_deref());
        }
    }
}

impl Broadcast {
    /// Bytes that it counts as while it is on its way.
    pub fn size(&self) -> u64 {
        (self.keys.len() + OVERHEAD) as u64
    }

    /// Writes it to a connection that listens to the prefix.
    pub fn give(&self, hub: &Hub, session: &mut Session, out: &mut Vec<u8>) {
        if !session.flags.contains(SessionFlags::TRACKING_NOLOOP) {
            return give(hub, session, out, Some(&self.keys));
        }
        let others = self.of_others(session.id);
        if !others.is_empty() {
            give(hub, session, out, Some(&array_of(&others)));
        }
    }

    /// The keys that others than this connection have changed.
    fn of_others(&self, client: u64) -> Vec<&[u8]> {
        self.changed.iter().filter(|(_, by)| *by != client).map(|(key, _)| &key[..]).collect()
    }
}

/// Tells a connection that everything it keeps is not valid any more.
pub fn give_all(hub: &Hub, session: &mut Session, out: &mut Vec<u8>) {
    give(hub, session, out, None);
}

/// Tells a connection that caches, or that whom it redirects to is gone. If that is there, it was told by who made the change.
fn give(hub: &Hub, session: &mut Session, out: &mut Vec<u8>, keys: Option<&[u8]>) {
    let Some(tracking) = &session.tracking else { return };
    let redirect = tracking.redirect;
    if redirect == 0 {
        write(session, out, keys, false);
    } else if hub.clients().and_then(|clients| clients.find(redirect)).is_none() {
        session.flags.insert(SessionFlags::BROKEN_REDIRECT);
        if session.protocol == Protocol::Resp3 {
            let mut out = ReplyBuffer::new(out, Protocol::Resp3);
            out.push(2);
            out.bulk(b"tracking-redir-broken");
            out.integer(redirect as i64);
        }
    }
}

/// Writes keys to a connection: in RESP3 a push. RESP2 has nothing of the kind but messages, for those who listen and
/// whom others redirect to.
fn write(session: &Session, out: &mut Vec<u8>, keys: Option<&[u8]>, is_redirected: bool) {
    let mut out = ReplyBuffer::new(out, session.protocol);
    if session.protocol == Protocol::Resp3 {
        out.push(2);
        out.bulk(b"invalidate");
    } else if is_redirected && session.is_listener() {
        out.array(3);
        out.bulk(b"message");
        out.bulk(b"__redis__:invalidate");
    } else {
        return;
    }
    match keys {
        Some(keys) => out.raw(keys),
        None => out.null(),
    }
}

fn array_of(keys: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = ReplyBuffer::new(&mut bytes, Protocol::Resp2);
    out.array(keys.len());
    keys.iter().for_each(|key| out.bulk(key));
    bytes
}

impl Hub {
    /// Tells those who have read a key that it is not valid any more. Called under the latch of its slot.
    pub fn stale(&self, sender: usize, key: &[u8], readers: &BTreeSet<u64>, by: u64) {
        let Some(clients) = self.clients() else { return };
        let keys: Arc<[u8]> = array_of(&[key]).into();
        // Mail for where a connection was would reach it behind replies that its new thread gives meanwhile.
        let _kept = self.keep_connections(sender);
        for client in readers {
            // Those that are gone, or do not want it any more, are found out here.
            let Some(record) = clients.find(*client) else { continue };
            let flags = record.session_flags();
            let is_own = flags.contains(SessionFlags::TRACKING_NOLOOP) && *client == by;
            if !flags.contains(SessionFlags::TRACKING)
                || flags.contains(SessionFlags::TRACKING_BCAST)
                || is_own
            {
                continue;
            }
            let redirect = record.redirect.value();
            let target = if redirect == 0 { None } else { clients.find(redirect) };
            let is_redirected = target.is_some();
            let to = target.unwrap_or(record);
            self.send_invalidation(
                Some(sender),
                Invalidation {
                    to: to.place(),
                    client: to.id,
                    keys: Some(Arc::clone(&keys)),
                    is_redirected,
                    is_own_change: *client == by && !is_redirected,
                },
            );
        }
    }

    fn send_invalidation(&self, sender: Option<usize>, mut invalidation: Invalidation) {
        loop {
            let (to, size) = (invalidation.to, invalidation.size());
            self.expect(sender, to.thread(), size);
            let mail = Mail::Invalidated(Box::new(invalidation));
            let Err(Mail::Invalidated(returned)) = self.workers().try_post(to.thread(), mail) else { return };
            // That thread has ended. Before, the connection left it, or was closed.
            self.delivered(to.thread(), size);
            let record = self.clients().and_then(|clients| clients.find(returned.client));
            let Some(place) = record.map(|record| record.place()).filter(|place| *place != to) else {
                return;
            };
            invalidation = Invalidation { to: place, ..*returned };
        }
    }

    /// Sends keys, or that all have changed, to the connection that another one redirects to, which keeps its thread meanwhile.
    fn redirect(&self, _caching: &Caching, target: u64, keys: Option<Arc<[u8]>>) {
        // One that is gone is missed where those are who redirect to it.
        let Some(record) = self.clients().and_then(|clients| clients.find(target)) else { return };
        let to = record.place();
        let (is_redirected, is_own_change) = (true, false);
        self.send_invalidation(None, Invalidation { to, client: target, keys, is_redirected, is_own_change });
    }

    /// Sends one after the connection that was not where it was thought to be; drops it if that is gone.
    pub fn forward(&self, mut invalidation: Invalidation) {
        let record = self.clients().and_then(|clients| clients.find(invalidation.client));
        if let Some(record) = record {
            invalidation.to = record.place();
            self.send_invalidation(None, invalidation);
        }
    }

    /// Tells all connections that cache that nothing is valid any more.
    pub fn invalidate_all(&self) {
        // A connection on its way from one thread to another is posted under this lock, too: it can't miss it.
        let caching = self.lock_caching();
        for thread in self.workers().occupied() {
            self.workers().post(thread, Mail::InvalidatedAll);
        }
        caching
            .redirections
            .values()
            .for_each(|redirection| self.redirect(&caching, redirection.target, None));
    }

    /// Tells those who are told of all changes what has changed in a turn.
    pub fn broadcast(&self, changed: &mut Vec<ChangedKey>) {
        // Whoever changed a key last counts.
        let keys: BTreeMap<Arc<[u8]>, u64> =
            changed.drain(..).map(|changed| (Arc::from(changed.key), changed.by)).collect();
        let caching = self.lock_caching();
        let mut names: Vec<&Arc<[u8]>> = caching.prefixes.keys().collect();
        names.sort_unstable();
        for prefix in names {
            let changed: Vec<(Arc<[u8]>, u64)> = keys
                .range(Arc::clone(prefix)..)
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, by)| (Arc::clone(key), *by))
                .collect();
            if changed.is_empty() {
                continue;
            }
            let all: Vec<&[u8]> = changed.iter().map(|(key, _)| &key[..]).collect();
            let broadcast = Arc::new(Broadcast { prefix: Arc::clone(prefix), keys: array_of(&all), changed });
            for thread in caching.prefixes[prefix].threads() {
                self.expect(None, thread, broadcast.size());
                self.workers().post(thread, Mail::Broadcast(Arc::clone(&broadcast)));
            }
            self.redirect_broadcast(&caching, &broadcast);
        }
    }

    /// The same for those who redirect to others: these are told by the thread that made the changes, before its replies leave.
    fn redirect_broadcast(&self, caching: &Caching, broadcast: &Broadcast) {
        let mut all = None;
        for (client, redirection) in &caching.redirections {
            if redirection.prefixes.binary_search(&broadcast.prefix).is_err() {
                continue;
            }
            let keys: Arc<[u8]> = if redirection.skips_own {
                let others = broadcast.of_others(*client);
                if others.is_empty() {
                    continue;
                }
                array_of(&others).into()
            } else {
                Arc::clone(all.get_or_insert_with(|| broadcast.keys.as_slice().into()))
            };
            self.redirect(caching, redirection.target, Some(keys));
        }
    }

    /// Whether a thread that is told of all changes under some prefix has too much on its way to it.
    pub fn are_prefixes_congested(&self) -> bool {
        let caching = self.lock_caching();
        let targets = caching.redirections.values().filter(|redirection| !redirection.prefixes.is_empty());
        let place =
            |id: u64| self.clients().and_then(|clients| clients.find(id)).map(|record| record.place());
        let targets = targets.filter_map(|redirection| Some(place(redirection.target)?.thread()));
        let listeners = caching.prefixes.values().flat_map(|audience| audience.threads());
        listeners.chain(targets).any(|thread| self.is_thread_congested(thread))
    }

    /// Number of prefixes that somebody is told the changes of.
    pub fn wants_every_change(&self) -> bool {
        self.name_count(SubscriptionKind::Prefix) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::Workers;
    use base::Millis;
    use commands::tracking::Tracking;

    fn session(protocol: Protocol) -> Session {
        let mut session = Session::new(7, String::new(), String::new(), Millis(0), false);
        session.protocol = protocol;
        session.tracking = Some(Box::new(Tracking::default()));
        session
    }

    fn changed(keys: &[(&str, u64)]) -> Vec<ChangedKey> {
        keys.iter().map(|(key, by)| ChangedKey { key: key.as_bytes().into(), by: *by }).collect()
    }

    #[test]
    fn one_mail_a_prefix_and_thread_with_what_begins_so() {
        let hub = Hub::new(Box::leak(Box::new(Workers::all_open())));
        for (prefix, thread) in [(&b"a"[..], 1), (b"a", 1), (b"b", 1), (b"", 2)] {
            hub.begin_prefix(prefix, thread, || ());
        }
        hub.broadcast(&mut changed(&[("ab", 7), ("c", 7), ("aa", 7), ("ab", 8)]));
        let mut mail = Vec::new();
        hub.workers().handle(1).mailbox().drain(&mut mail);
        let [Mail::Broadcast(broadcast)] = &mail[..] else { panic!("one mail") };
        assert_eq!(broadcast.keys, b"*2\r\n$2\r\naa\r\n$2\r\nab\r\n");
        assert_eq!(hub.workers().handle(2).mailbox().unread_count(), 1);
        // NOLOOP: the other one's last change counts.
        let (mut session, mut out) = (session(Protocol::Resp3), Vec::new());
        session.flags.insert(SessionFlags::TRACKING_NOLOOP);
        broadcast.give(&hub, &mut session, &mut out);
        assert_eq!(out, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nab\r\n");
    }

    #[test]
    fn resp2_is_told_by_redirection_only() {
        let (mut session, mut out) = (session(Protocol::Resp2), Vec::new());
        write(&session, &mut out, Some(b"_"), false);
        write(&session, &mut out, Some(b"_"), true);
        assert!(out.is_empty());
        session.flags.insert(SessionFlags::LISTENING);
        write(&session, &mut out, None, true);
        assert_eq!(out, b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n");
    }

    #[test]
    fn a_broken_redirection_is_told() {
        let hub = Hub::new(Box::leak(Box::new(Workers::all_open())));
        let (mut session, mut out) = (session(Protocol::Resp3), Vec::new());
        session.tracking = Some(Box::new(Tracking { redirect: 99, ..Tracking::default() }));
        give_all(&hub, &mut session, &mut out);
        assert_eq!(out, b">2\r\n$21\r\ntracking-redir-broken\r\n:99\r\n");
        assert!(session.flags.contains(SessionFlags::BROKEN_REDIRECT));
    }
}
