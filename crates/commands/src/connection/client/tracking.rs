//! Client-side caching: the tracking subcommands of `CLIENT`.

use std::sync::Arc;

use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::{OWN_STATE_FLAGS, on_or_off};
use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};
use crate::session::{Session, SessionFlags};
use crate::subscriptions::SubscriptionKind;
use crate::tracking::{Redirection, Tracking, TrackingMode};
use crate::word::Word;

const ON_OFF: Arg = Arg::one_of("status", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]);

/// `CLIENT TRACKING ON|OFF ...`
pub const TRACKING: Command = Command::keyless(
    "tracking",
    -3,
    Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::BEGINS_TRACKING)
        .union(Flags::KEEPS_CACHING),
    Doc::new(
        Group::Connection,
        "6.0.0",
        "Turns server-assisted client-side caching on or off for the connection.",
    )
    .args(&[
        ON_OFF,
        Arg::integer("client-id").token("REDIRECT").optional(),
        Arg::string("prefix").token("PREFIX").optional().multiple_token(),
        Arg::word("bcast", "BCAST").optional(),
        Arg::word("optin", "OPTIN").optional(),
        Arg::word("optout", "OPTOUT").optional(),
        Arg::word("noloop", "NOLOOP").optional(),
    ]),
    track,
)
.add_categories(Categories::CONNECTION);

/// `CLIENT CACHING YES|NO`
pub const CACHING: Command = Command::keyless(
    "caching",
    3,
    OWN_STATE_FLAGS,
    Doc::new(Group::Connection, "6.0.0", "Sets whether the keys that the next command reads are tracked.")
        .args(&[Arg::one_of("mode", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])]),
    caching,
)
.add_categories(Categories::CONNECTION);

/// `CLIENT GETREDIR`
pub const GETREDIR: Command = Command::keyless(
    "getredir",
    2,
    OWN_STATE_FLAGS,
    Doc::new(
        Group::Connection,
        "6.0.0",
        "Returns the ID of the connection that receives invalidations, or -1 for none.",
    ),
    |ctx, _, reply| Ok(reply.integer(redirect(ctx.session))),
)
.add_categories(Categories::CONNECTION);

/// `CLIENT TRACKINGINFO`
pub const TRACKINGINFO: Command = Command::keyless(
    "trackinginfo",
    2,
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::KEEPS_CACHING),
    Doc::new(Group::Connection, "6.2.0", "Returns the tracking state of the connection."),
    tracking_info,
)
.add_categories(Categories::CONNECTION);

/// Returns the reply of `CLIENT GETREDIR`: -1 without tracking, 0 without a redirection.
fn redirect(session: &Session) -> i64 {
    session.tracking.as_ref().map_or(-1, |tracking| tracking.redirect as i64)
}

/// The options of `CLIENT TRACKING`.
#[derive(Default)]
struct TrackingOptions<'a> {
    redirect: u64,
    bcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> TrackingOptions<'a> {
    fn parse(ctx: &Ctx<'_>, args: Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = args.tail(3).iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_token(name);
            if is("redirect") {
                let value = words.next().ok_or(CommandError::SYNTAX)?;
                if options.redirect != 0 {
                    return Err(CommandError::new("ERR A client can only redirect to a single other client"));
                }
                let id = parse_i64_strict(value).ok_or(CommandError::NOT_AN_INTEGER)?;
                options.redirect = u64::try_from(id)
                    .ok()
                    .filter(|id| ctx.host.client_exists(*id))
                    .ok_or(CommandError::new("ERR The client ID you want redirect to does not exist"))?;
            } else if is("prefix") {
                options.prefixes.push(words.next().ok_or(CommandError::SYNTAX)?);
            } else if is("bcast") {
                options.bcast = true;
            } else if is("optin") {
                options.opt_in = true;
            } else if is("optout") {
                options.opt_out = true;
            } else if is("noloop") {
                options.no_loop = true;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    /// The prefixes that are given, or all keys.
    fn prefixes(&self) -> &[&'a [u8]] {
        if self.bcast && self.prefixes.is_empty() { &[b""] } else { &self.prefixes }
    }

    /// The redirection of a connection's invalidations; `None`: they go to the connection itself.
    fn redirection(&self, session: &Session) -> Option<Redirection> {
        let given = self.prefixes().iter().map(|prefix| Arc::from(*prefix));
        let known = session.names_of(SubscriptionKind::Prefix);
        let mut prefixes: Vec<Arc<[u8]>> =
            known.iter().map(|prefix| Arc::from(&**prefix)).chain(given).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let (target, skips_own) = (self.redirect, self.no_loop);
        (target != 0).then_some(Redirection { target, prefixes, skips_own })
    }

    /// Rejects options that conflict with each other or with the current state of the connection.
    fn check(&self, session: &Session) -> Result<(), CommandError> {
        let mode = session.tracking.as_ref().map(|tracking| tracking.mode);
        let refusal = if !self.bcast && !self.prefixes.is_empty() {
            "ERR PREFIX option requires BCAST mode to be enabled"
        } else if mode.is_some() && session.broadcasts() != self.bcast {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
             with a different mode."
        } else if self.bcast && (self.opt_in || self.opt_out) {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        } else if self.opt_in && self.opt_out {
            "ERR You can't specify both OPTIN mode and OPTOUT mode"
        } else if (self.opt_in && mode == Some(TrackingMode::OptOut))
            || (self.opt_out && mode == Some(TrackingMode::OptIn))
        {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
             with a different mode."
        } else {
            return self.check_prefixes(session);
        };
        Err(CommandError::new(refusal))
    }

    /// Rejects a prefix that begins with another one: a change would be announced twice.
    fn check_prefixes(&self, session: &Session) -> Result<(), CommandError> {
        let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        for (index, prefix) in self.prefixes.iter().enumerate() {
            let known = session.names_of(SubscriptionKind::Prefix);
            let known = known
                .iter()
                .find(|known| overlap(known, prefix))
                .map(|known| (known.to_vec(), "an existing"));
            let given = || {
                let given = self.prefixes[index + 1..].iter().find(|given| overlap(given, prefix));
                given.map(|given| (given.to_vec(), "another provided"))
            };
            if let Some((other, which)) = known.or_else(given) {
                let middle = format!("' overlaps with {which} prefix '");
                let end = b"'. Prefixes for a single client must not overlap.";
                let head = b"ERR Prefix '";
                return Err(CommandError::quoting(
                    [head, up_to_nul(prefix), middle.as_bytes(), up_to_nul(&other), end].concat(),
                ));
            }
        }
        Ok(())
    }
}

fn track(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = TrackingOptions::parse(ctx, args)?;
    let is_on = on_or_off(args.at(2))?;
    if is_on {
        options.check(ctx.session)?;
    }
    let redirection = if is_on { options.redirection(ctx.session) } else { None };
    let ends_redirection = redirection.is_none() && ctx.session.redirects();
    if redirection.is_some() {
        ctx.host.redirect(ctx.session, redirection);
    }
    let mut out = reply.parts();
    // Earlier invalidations are delivered according to the previous state.
    ctx.host.catch_up(ctx.session, &mut out);
    if is_on {
        begin(ctx, &options);
    } else {
        end(ctx, &mut out);
    }
    if ends_redirection {
        ctx.host.redirect(ctx.session, None);
    }
    ctx.host.publish(ctx.session);
    out.ok();
    Ok(out.done())
}

fn begin(ctx: &mut Ctx<'_>, options: &TrackingOptions<'_>) {
    let mode = match (options.opt_in, options.opt_out) {
        (true, _) => TrackingMode::OptIn,
        (_, true) => TrackingMode::OptOut,
        _ => TrackingMode::All,
    };
    let caching = ctx.session.tracking.as_ref().is_some_and(|tracking| tracking.caching);
    ctx.session.tracking = Some(Box::new(Tracking { redirect: options.redirect, mode, caching }));
    ctx.session.flags.remove(SessionFlags::BROKEN_REDIRECT);
    ctx.session.flags.insert(SessionFlags::TRACKING);
    ctx.session.flags.set(SessionFlags::TRACKING_BCAST, options.bcast);
    ctx.session.flags.set(SessionFlags::TRACKING_NOLOOP, options.no_loop);
    if options.bcast {
        for prefix in options.prefixes() {
            ctx.host.subscribe(ctx.session, SubscriptionKind::Prefix, prefix);
        }
        // No worker makes changes any more that it does not record.
        ctx.report.needs_barrier = true;
        // Inside a transaction, tracking takes effect from the next command on.
        ctx.data.events.wanted = ctx.data.events.wanted.with_every_change(true);
    }
}

fn end(ctx: &mut Ctx<'_>, out: &mut ReplyBuffer<'_>) {
    for prefix in ctx.session.names_of(SubscriptionKind::Prefix) {
        ctx.host.unsubscribe(ctx.session, SubscriptionKind::Prefix, &prefix, out);
    }
    ctx.session.tracking = None;
    ctx.session.flags.remove(
        SessionFlags::TRACKING
            | SessionFlags::TRACKING_BCAST
            | SessionFlags::TRACKING_NOLOOP
            | SessionFlags::BROKEN_REDIRECT,
    );
}

fn caching(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(tracking) = &mut ctx.session.tracking else {
        return Err(CommandError::new(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ));
    };
    let (wanted, refusal) = match up_to_nul(args.at(2)).to_ascii_lowercase().as_slice() {
        b"yes" => (
            TrackingMode::OptIn,
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ),
        b"no" => (
            TrackingMode::OptOut,
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        _ => return Err(CommandError::SYNTAX),
    };
    if tracking.mode != wanted {
        return Err(CommandError::new(refusal));
    }
    tracking.caching = true;
    Ok(reply.ok())
}

fn tracking_info(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let session = &*ctx.session;
    let flags = session.flags;
    let tracking = session.tracking.as_deref();
    let mode = tracking.map_or(TrackingMode::All, |tracking| tracking.mode);
    let is_caching = tracking.is_some_and(|tracking| tracking.caching);
    let words: Vec<&[u8]> = [
        (tracking.is_none(), &b"off"[..]),
        (tracking.is_some(), b"on"),
        (session.broadcasts(), b"bcast"),
        (mode == TrackingMode::OptIn, b"optin"),
        (mode == TrackingMode::OptIn && is_caching, b"caching-yes"),
        (mode == TrackingMode::OptOut, b"optout"),
        (mode == TrackingMode::OptOut && is_caching, b"caching-no"),
        (flags.contains(SessionFlags::TRACKING_NOLOOP), b"noloop"),
        (flags.contains(SessionFlags::BROKEN_REDIRECT), b"broken_redirect"),
    ]
    .into_iter()
    .filter_map(|(is_so, word)| is_so.then_some(word))
    .collect();
    let mut out = reply.map(3);
    out.bulk(b"flags");
    out.set(words.len());
    words.iter().for_each(|word| out.bulk(word));
    out.bulk(b"redirect");
    out.integer(redirect(session));
    out.bulk(b"prefixes");
    let prefixes = session.names_of(SubscriptionKind::Prefix);
    out.array(prefixes.len());
    prefixes.iter().for_each(|prefix| out.bulk(prefix));
    Ok(out.done())
}
