//! `LATENCY`: latency samples by event, and latency histograms by command.

use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::host::{CommandHistogram, LatencyEvent};
use crate::reply::{Replied, Reply};

/// `LATENCY subcommand ...`
pub const COMMAND: Command = Command::container(
    "latency",
    Doc::new(Group::Server, "2.8.13", "Subcommands for latency diagnostics.")
        .complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "doctor",
            2,
            FLAGS,
            Doc::new(Group::Server, "2.8.13", "Returns a readable analysis of latency events, with advice."),
            doctor,
        )
        .tips(SPECIAL),
        Command::keyless(
            "graph",
            3,
            FLAGS,
            Doc::new(Group::Server, "2.8.13", "Returns an ASCII graph of the latency samples of an event.")
                .args(&[Arg::string("event")]),
            graph,
        )
        .tips(SPECIAL),
        help::command(Group::Server, "2.8.13", |_, _, reply| help::answer(&COMMAND, reply)),
        Command::keyless(
            "histogram",
            -2,
            FLAGS,
            Doc::new(
                Group::Server,
                "7.0.0",
                "Returns the latency distribution of the given commands, or of all.",
            )
            .complexity("O(N) where N is the number of commands given")
            .args(&[Arg::string("command").optional().multiple()]),
            histogram,
        )
        .tips(SPECIAL),
        Command::keyless(
            "history",
            3,
            FLAGS,
            Doc::new(
                Group::Server,
                "2.8.13",
                "Returns the latency samples of an event with their timestamps.",
            )
            .args(&[Arg::string("event")]),
            history,
        )
        .tips(SPECIAL),
        Command::keyless(
            "latest",
            2,
            FLAGS,
            Doc::new(Group::Server, "2.8.13", "Returns the newest latency sample of each event."),
            latest,
        )
        .tips(SPECIAL),
        Command::keyless(
            "reset",
            -2,
            FLAGS,
            Doc::new(Group::Server, "2.8.13", "Deletes the latency samples of the given events, or of all.")
                .args(&[Arg::string("event").optional().multiple()]),
            |ctx, args, reply| {
                let events: Vec<&[u8]> = args.tail(2).iter().collect();
                Ok(reply.integer(ctx.host.latency_reset(&events) as i64))
            },
        )
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum"]),
    ],
);

const FLAGS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);
const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

fn find(ctx: &Ctx<'_>, name: &[u8]) -> Option<LatencyEvent> {
    ctx.host.latency_events().into_iter().find(|event| event.name.as_bytes() == name)
}

fn latest(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let events = ctx.host.latency_events();
    let mut out = reply.array(events.len());
    for event in events {
        let (at, ms) = event.samples.last().copied().unwrap_or_default();
        out.array(6);
        out.bulk(event.name.as_bytes());
        for number in [u64::from(at), ms, event.max_ms, event.sum_ms, event.count] {
            out.integer(number as i64);
        }
    }
    Ok(out.done())
}

fn history(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let samples = find(ctx, args.at(2)).map(|event| event.samples).unwrap_or_default();
    let mut out = reply.array(samples.len());
    for (at, ms) in samples {
        out.array(2);
        out.integer(at.into());
        out.integer(ms as i64);
    }
    Ok(out.done())
}

fn histogram(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut all = ctx.host.latency_histograms();
    if args.len() > 2 {
        let wanted: Vec<String> =
            args.tail(2).iter().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
        // The name of a container includes its subcommands.
        let is_wanted = |histogram: &CommandHistogram| {
            let container = histogram.name.split('|').next().unwrap_or_default();
            wanted.iter().any(|name| *name == histogram.name || name == container)
        };
        all.retain(is_wanted);
    }
    let mut out = reply.map(all.len());
    for histogram in &all {
        out.bulk(histogram.name.as_bytes());
        write_histogram(&mut out, histogram);
    }
    Ok(out.done())
}

fn write_histogram(out: &mut ReplyBuffer<'_>, histogram: &CommandHistogram) {
    out.map(2);
    out.bulk(b"calls");
    out.integer(histogram.calls as i64);
    out.bulk(b"histogram_usec");
    out.map(histogram.buckets_us.len());
    for (bound, count) in &histogram.buckets_us {
        out.integer(*bound as i64);
        out.integer(*count as i64);
    }
}

/// Rows of a graph.
const GRAPH_HEIGHT: u64 = 4;
const GRAPH_WIDTH: usize = 80;

fn graph(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(event) = find(ctx, args.at(2)) else {
        return Err(CommandError::quote("ERR No samples available for event '", args.at(2), "'"));
    };
    let now = ctx.now().0 / 1000;
    Ok(reply.verbatim(b"txt", draw(&event, now).as_bytes()))
}

/// Draws one column for each sample. Below it is the age of the sample, written downwards.
fn draw(event: &LatencyEvent, now_seconds: i64) -> String {
    let skipped = event.samples.len().saturating_sub(GRAPH_WIDTH);
    let samples = &event.samples[skipped..];
    let heights = || samples.iter().map(|(_, ms)| *ms);
    let (low, high) = (heights().min().unwrap_or(0), heights().max().unwrap_or(0));
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.name,
        event.max_ms,
        "-".repeat(GRAPH_WIDTH)
    );
    // In half rows, so that more heights can be distinguished.
    let halves = |ms: u64| 1 + (ms - low) * (2 * GRAPH_HEIGHT - 1) / (high - low).max(1);
    for row in (0..GRAPH_HEIGHT).rev() {
        text.extend(heights().map(|ms| match halves(ms).saturating_sub(2 * row) {
            0 => ' ',
            1 => '_',
            _ => '#',
        }));
        text.push('\n');
    }
    let labels: Vec<String> = samples.iter().map(|(at, _)| ago(now_seconds - i64::from(*at))).collect();
    text.push('\n');
    for line in 0..labels.iter().map(String::len).max().unwrap_or(0) {
        text.extend(labels.iter().map(|label| label.chars().nth(line).unwrap_or(' ')));
        text.push('\n');
    }
    text
}

fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{}s", seconds.max(0)),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let text = report(&ctx.host.latency_events(), ctx.config.latency_monitor_threshold);
    Ok(reply.verbatim(b"txt", text.as_bytes()))
}

fn report(events: &[LatencyEvent], threshold_ms: u64) -> String {
    if threshold_ms == 0 && events.is_empty() {
        return "I'm sorry, Dave, I can't do that: the latency monitor is off. Turn it on with CONFIG SET \
                latency-monitor-threshold <milliseconds>.\n"
            .to_owned();
    }
    if events.is_empty() {
        return "Dave, no latency above the threshold has been observed so far.\n".to_owned();
    }
    let mut text = "Dave, these events exceeded the threshold:\n\n".to_owned();
    for (index, event) in events.iter().enumerate() {
        let mean = event.sum_ms / event.count.max(1);
        text.push_str(&format!(
            "{}. {}: {} times, {mean} ms on average, {} ms at most.\n",
            index + 1,
            event.name,
            event.count,
            event.max_ms
        ));
    }
    text.push_str("\nAdvice:\n\n");
    for event in events {
        let advice = match event.name {
            "command" => {
                "- command: SLOWLOG GET lists the slow commands; many keys or large values are the usual cause.\n"
            }
            "fast-command" => {
                "- fast-command: cheap commands were slow, so the cause is the machine: check for swapping, CPU quotas and other load.\n"
            }
            "expire-cycle" => {
                "- expire-cycle: many keys expire at the same time; spread their TTLs, or lower active-expire-effort.\n"
            }
            "eviction-cycle" => {
                "- eviction-cycle: the memory limit was reached; raise maxmemory, or lower maxmemory-eviction-tenacity.\n"
            }
            _ => continue,
        };
        text.push_str(advice);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(samples: &[(u32, u64)]) -> LatencyEvent {
        LatencyEvent {
            name: "command",
            samples: samples.to_vec(),
            max_ms: 900,
            sum_ms: samples.iter().map(|(_, ms)| ms).sum(),
            count: samples.len() as u64,
        }
    }

    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let drawn = draw(&event(&[(900, 100), (990, 400), (1000, 250)]), 1000);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "command - high 400 ms, low 100 ms (all time high 900 ms)");
        assert_eq!(lines[2..6], [" # ", " # ", " ##", "_##"]);
        assert_eq!(lines[7..], ["110", "m0s", " s "]);
    }

    #[test]
    fn a_report_names_every_event() {
        assert!(report(&[], 0).contains("off"));
        assert!(report(&[], 100).contains("no latency above"));
        let text = report(&[event(&[(1, 100), (2, 300)])], 100);
        assert!(text.contains("command: 2 times, 200 ms on average, 900 ms at most"), "{text}");
    }
}
