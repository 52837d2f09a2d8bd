//! Types of values with their own forms, one file each.

mod bind;
mod client_memory;
mod cpu_list;
mod notify_events;
mod oom_scores;
mod output_buffer;
mod percentiles;
mod primary;
mod save_points;
mod secret;
mod shutdown_flags;
mod thread_count;

pub use bind::BindAddresses;
pub use client_memory::ClientMemoryLimit;
pub use cpu_list::{CpuListError, parse_cpu_list};
pub use notify_events::NotifyEvents;
pub use oom_scores::OomScores;
pub use output_buffer::{ClientClass, OutputBufferLimit, OutputBufferLimits};
pub use percentiles::Percentiles;
pub use primary::PrimaryAddress;
pub use save_points::{SavePoint, SavePoints};
pub use secret::Secret;
pub use shutdown_flags::ShutdownFlags;
pub use thread_count::ThreadCount;

pub(crate) use cpu_list::check_cpu_list;

/// The parts joined by single spaces.
fn join(parts: impl IntoIterator<Item = String>) -> Vec<u8> {
    parts.into_iter().collect::<Vec<_>>().join(" ").into_bytes()
}
