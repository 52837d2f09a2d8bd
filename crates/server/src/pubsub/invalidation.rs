//! Client-side caching: invalidations for connections whose cached keys have changed.
//!
//! A change invalidates its key for the readers under the slot's latch ([`Hub::invalidate`]). So a later read
//! returns the new value, and the reply to an earlier read is in its connection's output already. Connections
//! in broadcast mode get the changes of a turn together, before its replies are sent ([`Hub::broadcast`]).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use commands::session::{Session, SessionFlags};
use commands::subscriptions::{Name, SubscriptionKind};
use keyspace::{ChangedKey, Clients};
use wire::reply::{Protocol, ReplyBuffer};

use super::hub::{Caching, Hub};
use crate::mail::Mail;
use crate::mail::invalidation::{Broadcast, Invalidation};

impl Invalidation {
    /// Writes it to the output of its connection.
    pub fn write_to(&self, hub: &Hub, session: &mut Session, out: &mut Vec<u8>) {
        if self.is_redirected {
            write_keys(session, out, self.keys.as_deref(), true);
        } else if !session.broadcasts() {
            write_invalidation(hub, session, out, self.keys.as_deref());
        }
    }
}

impl Broadcast {
    /// Writes it to the output of a connection with this prefix.
    pub fn write_to(&self, hub: &Hub, session: &mut Session, out: &mut Vec<u8>) {
        if !session.flags.contains(SessionFlags::TRACKING_NOLOOP) {
            return write_invalidation(hub, session, out, Some(&self.keys));
        }
        let others = self.of_others(session.id);
        if !others.is_empty() {
            write_invalidation(hub, session, out, Some(&array_of(&others)));
        }
    }

    /// The keys that other connections have changed.
    fn of_others(&self, client: u64) -> Vec<&[u8]> {
        self.changed.iter().filter(|(_, by)| *by != client).map(|(key, _)| &key[..]).collect()
    }
}

/// Invalidates all cached keys of a connection.
pub fn write_invalidation_of_all(hub: &Hub, session: &mut Session, out: &mut Vec<u8>) {
    write_invalidation(hub, session, out, None);
}

/// Writes an invalidation to a tracking connection, or the notice that its redirection target is closed. An
/// existing target was notified by the worker that made the change.
fn write_invalidation(hub: &Hub, session: &mut Session, out: &mut Vec<u8>, keys: Option<&[u8]>) {
    let Some(tracking) = &session.tracking else { return };
    let redirect = tracking.redirect;
    if redirect == 0 {
        write_keys(session, out, keys, false);
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

/// Writes keys to a connection: in RESP3 as a push. RESP2 has only messages for this, for subscribed
/// connections that are the target of a redirection.
fn write_keys(session: &Session, out: &mut Vec<u8>, keys: Option<&[u8]>, is_redirected: bool) {
    let mut out = ReplyBuffer::new(out, session.protocol);
    if session.protocol == Protocol::Resp3 {
        out.push(2);
        out.bulk(b"invalidate");
    } else if is_redirected && session.in_subscribed_mode() {
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
    /// Invalidates a key for its readers. Called under the latch of its slot.
    pub fn invalidate(&self, sender: usize, key: &[u8], readers: &Clients, by: u64) {
        let Some(clients) = self.clients() else { return };
        let keys: Arc<[u8]> = array_of(&[key]).into();
        // Mail to a connection's old worker would arrive after replies that its new worker sends meanwhile.
        let _moves_blocked = self.block_moves(sender);
        for client in readers.iter() {
            // Readers that are closed, or have ended tracking, are filtered here.
            let Some(record) = clients.find(client) else { continue };
            let flags = record.session_flags();
            let is_own = flags.contains(SessionFlags::TRACKING_NOLOOP) && client == by;
            if !flags.contains(SessionFlags::TRACKING)
                || flags.contains(SessionFlags::TRACKING_BCAST)
                || is_own
            {
                continue;
            }
            let redirect = record.session.redirect.value();
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
                    is_own_change: client == by && !is_redirected,
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
            // That worker has ended. Before, the connection moved from it, or was closed.
            self.delivered(to.thread(), size);
            let record = self.clients().and_then(|clients| clients.find(returned.client));
            let Some(place) = record.map(|record| record.place()).filter(|place| *place != to) else {
                return;
            };
            invalidation = Invalidation { to: place, ..*returned };
        }
    }

    /// Sends changed keys, or an invalidation of all, to a connection's redirection target, which keeps its
    /// worker meanwhile.
    fn redirect(&self, _caching: &Caching, target: u64, keys: Option<Arc<[u8]>>) {
        // A missing target is detected where its redirecting connections are.
        let Some(record) = self.clients().and_then(|clients| clients.find(target)) else { return };
        let to = record.place();
        let (is_redirected, is_own_change) = (true, false);
        self.send_invalidation(None, Invalidation { to, client: target, keys, is_redirected, is_own_change });
    }

    /// Sends an invalidation after a connection that has moved; drops it if the connection is closed.
    pub fn forward(&self, mut invalidation: Invalidation) {
        let record = self.clients().and_then(|clients| clients.find(invalidation.client));
        if let Some(record) = record {
            invalidation.to = record.place();
            self.send_invalidation(None, invalidation);
        }
    }

    /// Invalidates all keys for all tracking connections.
    pub fn invalidate_all(&self) {
        // A connection that moves between workers is posted under this lock, too, so it can't miss the mail.
        let caching = self.lock_caching();
        for thread in self.workers().occupied() {
            self.workers().post(thread, Mail::InvalidatedAll);
        }
        caching
            .redirections
            .values()
            .for_each(|redirection| self.redirect(&caching, redirection.target, None));
    }

    /// Sends the changes of a turn to the connections in broadcast mode.
    pub fn broadcast(&self, changed: &mut Vec<ChangedKey>) {
        // The last change of a key counts.
        let keys: BTreeMap<Arc<[u8]>, u64> =
            changed.drain(..).map(|changed| (Arc::from(changed.key), changed.by)).collect();
        let caching = self.lock_caching();
        let mut names: Vec<&Name> = caching.prefixes.keys().collect();
        names.sort_unstable();
        for prefix in names {
            let changed: Vec<(Arc<[u8]>, u64)> = keys
                .range::<[u8], _>((Bound::Included(&**prefix), Bound::Unbounded))
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, by)| (Arc::clone(key), *by))
                .collect();
            if changed.is_empty() {
                continue;
            }
            let all: Vec<&[u8]> = changed.iter().map(|(key, _)| &key[..]).collect();
            let broadcast = Arc::new(Broadcast { prefix: prefix.clone(), keys: array_of(&all), changed });
            for thread in caching.prefixes[prefix].threads() {
                self.expect(None, thread, broadcast.size());
                self.workers().post(thread, Mail::Broadcast(Arc::clone(&broadcast)));
            }
            self.redirect_broadcast(&caching, &broadcast);
        }
    }

    /// Sends a broadcast to redirection targets: by the worker that made the changes, before its replies are sent.
    fn redirect_broadcast(&self, caching: &Caching, broadcast: &Broadcast) {
        let mut all = None;
        for (client, redirection) in &caching.redirections {
            if redirection.prefixes.binary_search_by(|known| (**known).cmp(&*broadcast.prefix)).is_err() {
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

    /// Whether a worker with connections in broadcast mode is congested.
    pub fn are_prefixes_congested(&self) -> bool {
        let caching = self.lock_caching();
        let targets = caching.redirections.values().filter(|redirection| !redirection.prefixes.is_empty());
        let place =
            |id: u64| self.clients().and_then(|clients| clients.find(id)).map(|record| record.place());
        let targets = targets.filter_map(|redirection| Some(place(redirection.target)?.thread()));
        let listeners = caching.prefixes.values().flat_map(|audience| audience.threads());
        listeners.chain(targets).any(|thread| self.is_thread_congested(thread))
    }

    /// Whether any connection is in broadcast mode.
    pub fn wants_every_change(&self) -> bool {
        self.name_count(SubscriptionKind::Prefix) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::Workers;
    use commands::acl::Users;
    use commands::session::Endpoints;
    use commands::table::CATALOGUE;
    use commands::tracking::Tracking;

    fn session(protocol: Protocol) -> Session {
        let mut session = Session::new(7, Endpoints::none(""), &Users::new(&CATALOGUE));
        session.protocol = protocol;
        session.tracking = Some(Box::new(Tracking::default()));
        session
    }

    fn changed(keys: &[(&str, u64)]) -> Vec<ChangedKey> {
        keys.iter().map(|(key, by)| ChangedKey { key: key.as_bytes().into(), by: *by }).collect()
    }

    #[test]
    fn broadcasts_send_one_mail_per_prefix_and_worker() {
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
        // NOLOOP: the other client's last change counts.
        let (mut session, mut out) = (session(Protocol::Resp3), Vec::new());
        session.flags.insert(SessionFlags::TRACKING_NOLOOP);
        broadcast.write_to(&hub, &mut session, &mut out);
        assert_eq!(out, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nab\r\n");
    }

    #[test]
    fn resp2_clients_are_notified_only_by_redirection() {
        let (mut session, mut out) = (session(Protocol::Resp2), Vec::new());
        write_keys(&session, &mut out, Some(b"_"), false);
        write_keys(&session, &mut out, Some(b"_"), true);
        assert!(out.is_empty());
        session.flags.insert(SessionFlags::SUBSCRIBED);
        write_keys(&session, &mut out, None, true);
        assert_eq!(out, b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n");
    }

    #[test]
    fn a_broken_redirection_is_reported() {
        let hub = Hub::new(Box::leak(Box::new(Workers::all_open())));
        let (mut session, mut out) = (session(Protocol::Resp3), Vec::new());
        session.tracking = Some(Box::new(Tracking { redirect: 99, ..Tracking::default() }));
        write_invalidation_of_all(&hub, &mut session, &mut out);
        assert_eq!(out, b">2\r\n$21\r\ntracking-redir-broken\r\n:99\r\n");
        assert!(session.flags.contains(SessionFlags::BROKEN_REDIRECT));
    }
}
