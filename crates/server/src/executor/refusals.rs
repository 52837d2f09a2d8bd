//! Requests that are answered without being run: unknown, malformed, not allowed now.

use commands::command::{Access, Flags};
use commands::error::{CommandError, up_to_nul};
use commands::help::{unknown_subcommand, wrong_subcommand};
use commands::session::SessionFlags;
use commands::table::ResolvedCommand;
use wire::reply::ReplyBuffer;
use wire::request::{Args, ProtocolError};

use super::plan::{Plan, PlanRefusal};
use super::{Executor, Step};
use crate::connection::client::{Attempt, Client};

/// The maximum part of a request that an error quotes, in bytes.
const QUOTE_SIZE_MAX: usize = 128;

/// The maximum part of a client's input that the log shows, in bytes.
const LOGGED_INPUT_SIZE_MAX: usize = 128;

impl Executor {
    /// Answers a request that is invalid in every state of its client. An unauthenticated client does
    /// not receive the reason. A line of HTTP gets no reply, but closes the connection: a browser may have
    /// been tricked into sending it, with commands in its body.
    #[cold]
    pub(super) fn refuse(&mut self, client: &mut Client, plan: &Plan, args: Args<'_>) -> Step {
        if is_http(args.name()) {
            log::warn!(
                "HTTP request received, which may be an attack through a browser. Connection from {} aborted.",
                client.session.endpoints.peer
            );
            client.session.flags.insert(SessionFlags::CLOSE_AFTER_REPLY);
            return Step::Stop;
        }
        let known = plan.found().filter(|_| plan.refusal != PlanRefusal::UnknownSub);
        client.session.ran.last = known.map(|found| found.id);
        let is_open = plan.found().is_some_and(|found| found.command.flags.contains(Flags::NO_AUTH));
        if !is_open && self.is_unauthenticated(client) {
            self.answer_error(client, &CommandError::NO_AUTH);
            return Step::Done;
        }
        if plan.refusal == PlanRefusal::Keys
            && let Some(step) = plan.found().and_then(|found| self.deny(client, found, args))
        {
            return step;
        }
        let error = match (plan.refusal, plan.found()) {
            (PlanRefusal::Arity | PlanRefusal::UnknownSub, Some(found))
                if found.command.flags.contains(Flags::FOR_DEBUGGING) =>
            {
                let permission = client.session.may_debug(&self.settings.config);
                if permission.is_ok()
                    && args.len() > 1
                    && client.session.in_multi()
                    && let Some(debug) = self.shared.commands.find(args.name())
                {
                    return self
                        .deny(client, debug, args)
                        .unwrap_or_else(|| self.queue(client, debug, &[], args));
                }
                permission.err().filter(|_| args.len() > 1).unwrap_or_else(|| unknown_debug_subcommand(args))
            }
            (PlanRefusal::Arity, Some(found)) => CommandError::wrong_arity(&full_name(found)),
            (PlanRefusal::Keys, _) => CommandError::new("ERR Invalid arguments specified for command"),
            (PlanRefusal::UnknownSub, Some(found)) => unknown_subcommand(found.command.name, args.at(1)),
            _ => unknown_command(args),
        };
        match plan.found().filter(|_| plan.refusal == PlanRefusal::Arity) {
            Some(found) => self.reject(client, found, &error),
            None => self.answer_error(client, &error),
        }
        Step::Done
    }

    /// Answers a known command that may not run now, and counts it so.
    #[cold]
    pub(super) fn reject(&mut self, client: &mut Client, found: ResolvedCommand, error: &CommandError) {
        self.statistics.command(found.id).rejected.add(1);
        client.session.ran.last = Some(found.id);
        client.session.unfinished = None;
        self.end_migration(client);
        client.attempt = Attempt::default();
        if found.command.access == Access::Queued {
            self.abort_transaction(client, error);
        } else {
            self.answer_error(client, error);
        }
    }

    /// A `MIGRATE` that is rejected between its runs ends: its keys stay, and its transfer is no longer needed.
    fn end_migration(&mut self, client: &mut Client) {
        if let Some(migration) = client.session.migration.take()
            && let Some(watching) = migration.watching
        {
            self.latching.end_watches(watching);
        }
    }

    /// A rejected `EXEC` ends the transaction.
    fn abort_transaction(&mut self, client: &mut Client, error: &CommandError) {
        let session = &mut client.session;
        session.multi = None;
        session.flags.remove(SessionFlags::DIRTY_EXEC);
        if let Some(watching) = session.watching.take() {
            self.latching.end_watches(*watching);
        }
        if error.text().starts_with(b"REDIRECT ") {
            return self.answer_error(client, error);
        }
        let reason = error.text().strip_prefix(b"ERR ").unwrap_or(error.text());
        let text = [b"EXECABORT Transaction discarded because of: ", reason].concat();
        self.answer_error(client, &CommandError::quoting(text));
    }

    /// Answers with an error, which also makes a transaction that is being queued fail.
    fn answer_error(&mut self, client: &mut Client, error: &CommandError) {
        if let Some(queue) = &mut client.session.multi {
            // The transaction can no longer run: its commands are forgotten.
            queue.clear();
            client.session.flags.insert(SessionFlags::DIRTY_EXEC);
        }
        self.shared.monitoring.count_error(self.statistics, error.code());
        let mark = client.replies.bytes.len();
        ReplyBuffer::new(&mut client.replies.bytes, client.session.protocol).error(error.text());
        self.settle_reply_flags(client, mark);
        if client.session.flags.contains(SessionFlags::REPLICA) {
            self.check_replica(client, mark);
        } else if client.forwarding.is_some() {
            self.log_failure_of_primary(client, mark);
        }
    }

    /// Answers input that is not a request. The connection is closed afterwards.
    #[cold]
    pub(super) fn refuse_protocol(&mut self, client: &mut Client, error: ProtocolError, bytes: &[u8]) {
        let level = match &mut client.forwarding {
            Some(forwarding) => {
                forwarding.is_out_of_step = true;
                log::Level::Warn
            }
            None => log::Level::Debug,
        };
        if log::log_enabled!(level) {
            let input = match self.settings.config.hide_user_data_from_log {
                true => "*redacted*".to_owned(),
                false => bytes[..bytes.len().min(LOGGED_INPUT_SIZE_MAX)].escape_ascii().to_string(),
            };
            let session = &client.session;
            log::log!(
                level,
                "Protocol error ({error}) from client: id={} addr={}. Query buffer: '{input}'",
                session.id,
                session.endpoints.peer
            );
        }
        self.shared.monitoring.count_error(self.statistics, "ERR");
        let mut text = Vec::new();
        error.write_text(&mut text);
        ReplyBuffer::new(&mut client.replies.bytes, client.session.protocol).error(text);
    }
}

/// The name for error texts: a subcommand with its container.
pub(super) fn full_name(found: ResolvedCommand) -> String {
    commands::table::NUMBERED[found.id.0 as usize].0.clone()
}

/// The part of an argument that an error may quote: up to a NUL, as in C strings, which clients rely on.
fn quote(bytes: &[u8], size_max: usize) -> &[u8] {
    let text = up_to_nul(bytes);
    &text[..text.len().min(size_max)]
}

/// The error of `DEBUG`, which parses its subcommands itself in Redis and has its own text.
fn unknown_debug_subcommand(args: Args<'_>) -> CommandError {
    let Some(word) = args.get(1) else { return CommandError::wrong_arity("debug") };
    wrong_subcommand("DEBUG", word)
}

/// Whether a command name is the first word of an HTTP request line or of a header of any HTTP request.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn unknown_command(args: Args<'_>) -> CommandError {
    let mut beginning = Vec::new();
    for arg in args.tail(1) {
        let Some(room) = QUOTE_SIZE_MAX.checked_sub(beginning.len()).filter(|room| *room > 0) else { break };
        beginning.extend([b"'", quote(arg, room), b"' "].concat());
    }
    let name = quote(args.name(), QUOTE_SIZE_MAX);
    CommandError::quoting(
        [b"ERR unknown command '", name, b"', with args beginning with: ", &beginning].concat(),
    )
}
