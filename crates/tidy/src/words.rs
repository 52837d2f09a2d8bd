//! Retired words: replaced names and terms, for one word a concept. `docs/glossary.md` defines the current terms.
//!
//! Only whole identifiers are found. Words that also have an ordinary meaning are not listed.

use crate::assert_tidy;
use crate::tree::{SourceFile, read_all};

/// A retired word, and its replacement.
static RETIRED: &[(&str, &str)] = &[
    ("AccessControl", "UserAdmin, or CurrentUsers in the server"),
    ("AskTurn", "BarrierRequest"),
    ("AskedKeys", "PrefetchedKeys"),
    ("Attention", "GlobalFlags"),
    ("CallWaiters", "WakeWaiters"),
    ("ChannelRights", "ChannelPermissions"),
    ("CommandRights", "CommandPermissions"),
    ("DatabaseRights", "DatabasePermissions"),
    ("Doors", "ListenSockets"),
    ("Ears", "LocalSubscriptions"),
    ("Errand", "DeferredServe"),
    ("FieldLifetime", "ExpiryOption"),
    ("GiveWay", "YieldPolicy"),
    ("LastLook", "LastCheck"),
    ("Lending", "SharedReplyBuffers"),
    ("LetThrough", "Admitted"),
    ("Limbo", "Retired"),
    ("Listened", "NamedAudience"),
    ("MailToClosedSeat", "LOST_MAIL"),
    ("MemberProbe", "SoughtMember"),
    ("NotOffered", "Unsupported"),
    ("PartOf", "RequestedRange"),
    ("Portions", "ReplyChunks"),
    ("Reaches", "AccessesOtherKeys"),
    ("Remembered", "ReaderTotals"),
    ("RequestedBucket", "PrefetchedBucket"),
    ("RequestedProbes", "PrefetchedProbes"),
    ("Seat", "WorkerHandle"),
    ("Seats", "Workers"),
    ("Shelf", "SizeClass"),
    ("Shelves", "SlabPool"),
    ("Sighting", "ProbeResult"),
    ("StandIn", "ServeContext"),
    ("TimeKind", "ExpiryFormat"),
    ("Trail", "ProbeSequence"),
    ("TurnEnded", "BarrierAck"),
    ("UnknownMark", "UnknownType"),
    ("Upcoming", "plan_ahead"),
    ("attend_to_changes", "recheck_modes"),
    ("call_waiters", "wake_waiters"),
    ("carry_over", "move_entry"),
    ("categories_too", "add_categories"),
    ("checks_checksums", "validates_checksums"),
    ("deleted_if_gone", "report_if_emptied"),
    ("doors", "listen sockets"),
    ("end_foresight", "end_plan_ahead"),
    ("errand", "deferred serve"),
    ("errands", "deferred serves"),
    ("even_out", "balance_load"),
    ("expire_walked", "delete_found_expired"),
    ("fill_back", "write_backwards"),
    ("foresee", "plan_ahead"),
    ("foreseen", "planned"),
    ("forgive_overtaking", "reset_overtaking"),
    ("give_memory_back", "return_memory"),
    ("give_way", "yield_policy"),
    ("has_met_other", "had_other_type"),
    ("is_attended", "is_observed"),
    ("is_for_listeners", "is_for_subscribers"),
    ("is_foreseen", "is_planned_ahead"),
    ("is_listener", "in_subscribed_mode"),
    ("juggle", "move_connections"),
    ("kept_latches", "held_latches"),
    ("latch_too", "try_latch_extra"),
    ("let_scripts_run_all", "set_scripts_unrestricted"),
    ("limit_remembered", "limit_reader_keys"),
    ("may_enlist", "may_begin_wait"),
    ("must-show", "headline"),
    ("name_hashtable", "report_as_hashtable"),
    ("needs_tending", "needs_update"),
    ("note_deaf", "remove_subscription"),
    ("note_seen", "note_read_changes"),
    ("order_of", "score_key or scan_position"),
    ("pays_to_remove", "removal_is_cheaper"),
    ("ran_queued", "record_queued_call"),
    ("refuse_unasked_huge_pages", "disable_unrequested_huge_pages"),
    ("refused_queued", "record_queued_denial"),
    ("remember_reader", "record_reader"),
    ("remember_reads", "record_reads"),
    ("remembers_reads", "tracks_reads"),
    ("rests_until", "backoff_end or paused_until"),
    ("spare_walked", "discard_found_expired"),
    ("stand_in", "serve_context"),
    ("stranger", "unauthenticated client"),
    ("strays", "displaced keys"),
    ("take_leave", "deregister"),
    ("take_note", "update_record"),
    ("take_overrun", "take_congested_target"),
    ("take_part", "join_epochs"),
    ("take_seen", "take_reply_lsn"),
    ("tell_late_misses", "report_late_misses"),
    ("tell_readers", "notify_readers"),
    ("unlisten", "unsubscribe"),
    ("waiting_bytes", "retired_bytes"),
    ("Contender", "ServerOutcome"),
    ("contender", "server_outcome"),
    ("Fleet", "RunningServers"),
    ("wait_for_order", "wait_for_message"),
    ("take_order", "take_message"),
];

/// Files that describe history, and this one.
const EXEMPT: &[&str] = &["CHANGELOG.md", "crates/tidy/src/words.rs"];

#[test]
fn retired_words_are_gone() {
    assert_tidy(read_all().iter().flat_map(check).collect());
}

#[test]
fn planted_faults_are_noticed() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    assert_eq!(
        check(&file("crates/server/src/a.rs", "//! A.\nfn f(seat: Seat) {}\n")),
        ["crates/server/src/a.rs:2: `Seat` is retired: write `WorkerHandle`"]
    );
    assert!(check(&file("docs/a.md", "SeatBelt, unforeseen, must show")).is_empty());
    assert!(check(&file("CHANGELOG.md", "Seat")).is_empty());
}

fn check(file: &SourceFile) -> Vec<String> {
    let is_prose_or_code = [".rs", ".md", ".toml"].iter().any(|suffix| file.path.ends_with(suffix));
    if !is_prose_or_code || EXEMPT.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for (retired, replacement) in RETIRED.iter().filter(|(retired, _)| has_word(line, retired)) {
            complaints.push(format!(
                "{}:{}: `{retired}` is retired: write `{replacement}`",
                file.path,
                number + 1
            ));
        }
    }
    complaints
}

/// Whether `line` contains `word` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}
