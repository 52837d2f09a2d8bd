//! The progress bar: current run, rate and remaining runs. Draws nothing if stderr is not a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::load::Live;

/// Steps of the bar for each run.
const RUN_STEPS: u64 = 1_000;

/// A bar over a known number of runs.
#[derive(Debug)]
pub struct RunProgress {
    bar: ProgressBar,
    done_count: u64,
}

impl RunProgress {
    /// Creates a bar over `run_count` runs.
    #[must_use]
    pub fn new(run_count: usize, is_shown: bool) -> Self {
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(run_count as u64 * RUN_STEPS), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:24} {percent:>3} % {elapsed} ({eta} left)  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self { bar, done_count: 0 }
    }

    /// Displays the state of the current run.
    pub fn watch(&self, what: &str, live: Live) {
        self.bar.set_position(self.done_count * RUN_STEPS + (live.done * RUN_STEPS as f64) as u64);
        let rate = live.replies as f64 / live.elapsed.max(Duration::from_millis(1)).as_secs_f64();
        let errors = if live.errors > 0 { format!("  {} ERRORS", live.errors) } else { String::new() };
        self.bar.set_message(format!("{what}  {:.0}k/s{errors}", rate / 1e3));
    }

    /// Marks a run as complete.
    pub fn finish_run(&mut self) {
        self.done_count += 1;
        self.bar.set_position(self.done_count * RUN_STEPS);
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
