//! The progress bar on stderr, and the lines on stdout that stay. Without a terminal there is no bar.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where the move is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The target has no link to the source yet.
    Connecting,
    /// The target receives a snapshot; the total is unknown while the source streams it.
    Receiving { bytes: u64, total: Option<u64> },
    /// The target loads the snapshot.
    Loading { percent: u64 },
    /// Keys are copied one by one (`--by-scan`).
    Copying { keys: u64, total: u64 },
    /// The target applies changes; those that it misses, in bytes.
    Streaming { lag: u64 },
    /// Keys are copied that have changed meanwhile (`--by-scan`).
    CatchingUp { keys: u64 },
    /// Values are compared.
    Comparing { done: u64, total: u64 },
}

/// The bar of a move.
pub struct Progress {
    bar: ProgressBar,
    kind: Option<std::mem::Discriminant<Phase>>,
}

impl Progress {
    /// Creates a bar, which draws nothing if it is not to be shown or stderr is not a terminal.
    pub fn new(is_shown: bool) -> Self {
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} % {elapsed}  {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, kind: None }
    }

    /// Displays the phase. The first call in a phase also prints a line that stays, if it tells something new.
    pub fn show(&mut self, phase: &Phase) {
        let kind = std::mem::discriminant(phase);
        if self.kind != Some(kind) {
            self.kind = Some(kind);
            self.bar.reset_elapsed();
            if let Some(line) = phase.announcement() {
                self.line(&line);
            }
        }
        let (done, total) = phase.extent();
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
        self.bar.set_message(phase.message());
    }

    /// Prints a line above the bar.
    pub fn line(&self, text: &str) {
        // Without a reader, the step goes on: its end may be what makes a server usable again.
        self.bar.suspend(|| drop(writeln!(io::stdout(), "{text}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Phase {
    /// Done and total, in a unit of the phase.
    fn extent(&self) -> (u64, u64) {
        match *self {
            Self::Connecting => (0, 1),
            Self::Receiving { bytes, total } => (bytes, total.unwrap_or(u64::MAX)),
            Self::Loading { percent } => (percent, 100),
            Self::Copying { keys, total } => (keys.min(total), total),
            Self::Streaming { .. } | Self::CatchingUp { .. } => (1, 1),
            Self::Comparing { done, total } => (done, total),
        }
    }

    fn announcement(&self) -> Option<String> {
        match self {
            Self::Connecting => Some("connecting: the target opens its link to the source".to_owned()),
            Self::Receiving { total: Some(total), .. } => Some(format!(
                "full synchronisation: the target receives a snapshot of {}",
                HumanBytes(*total)
            )),
            Self::Receiving { total: None, .. } => {
                Some("full synchronisation: the target receives a snapshot".to_owned())
            }
            Self::Loading { .. } => Some("full synchronisation: the target loads the snapshot".to_owned()),
            Self::Copying { total, .. } => Some(format!("copying {total} keys")),
            Self::Streaming { .. } => Some("streaming: the target receives each change".to_owned()),
            Self::CatchingUp { .. } => {
                Some("catching up: keys that have changed are copied again".to_owned())
            }
            Self::Comparing { .. } => None,
        }
    }

    fn message(&self) -> String {
        match *self {
            Self::Connecting => "connecting".to_owned(),
            Self::Receiving { bytes, total: Some(total) } => {
                format!("full synchronisation: {} of {}", HumanBytes(bytes), HumanBytes(total))
            }
            Self::Receiving { bytes, total: None } => format!("full synchronisation: {}", HumanBytes(bytes)),
            Self::Loading { percent } => format!("loading the snapshot: {percent} %"),
            Self::Copying { keys, total } => format!("copying: {keys} of {total} keys"),
            Self::Streaming { lag } => format!("streaming: lag {}", HumanBytes(lag)),
            Self::CatchingUp { keys } => format!("catching up: {keys} keys have changed"),
            Self::Comparing { done, total } => format!("comparing: {done} of {total} keys"),
        }
    }
}
