//! The settings of a simulated network: how often and how much it delays, splits and loses data.

use sync::simulation::Random;

/// How the network delays, splits and loses data.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Longest delay of a packet, in microseconds.
    pub delay_us_max: u64,
    /// Percentage of writes that are split into several packets, and of reads that return only a part.
    pub cut_percent: u64,
    /// Percentage of writes that take only a part although there is room.
    pub short_write_percent: u64,
    /// Maximum number of bytes in flight to an end or unread there.
    pub buffer_size: usize,
    /// Entries of the submission queue of each ring.
    pub ring_entries: u32,
    /// Entries of the completion queue of each ring; overflowing completions wait in the kernel's list.
    pub completion_entries: u32,
    /// Size of the receive buffers provided to each ring.
    pub receive_buffer_size: u32,
    /// Number of the receive buffers provided to each ring.
    pub receive_buffer_count: u16,
    /// Percentage of waiting calls that end early, as if interrupted by a signal.
    pub interruption_percent: u64,
    /// Maximum number of descriptors of the process.
    pub descriptor_count_max: usize,
}

impl Default for Settings {
    /// A network with benign settings.
    fn default() -> Self {
        Self {
            delay_us_max: 50,
            cut_percent: 0,
            short_write_percent: 0,
            buffer_size: 256 << 10,
            ring_entries: 1024,
            completion_entries: 4096,
            receive_buffer_size: 16 << 10,
            receive_buffer_count: 128,
            interruption_percent: 0,
            descriptor_count_max: 10_000,
        }
    }
}

impl Settings {
    /// Draws the settings of a seed, from benign to hostile.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let ring_entries = pick(&[1, 2, 8, 1024]) as u32;
        Self {
            delay_us_max: pick(&[1, 50, 500, 5_000]),
            cut_percent: pick(&[0, 5, 50]),
            short_write_percent: pick(&[0, 5, 30]),
            buffer_size: pick(&[512, 4 << 10, 256 << 10]) as usize,
            ring_entries,
            completion_entries: ring_entries * pick(&[1, 2, 4]) as u32,
            receive_buffer_size: pick(&[64, 1 << 10, 16 << 10]) as u32,
            receive_buffer_count: pick(&[2, 8, 128]) as u16,
            interruption_percent: pick(&[0, 0, 5]),
            descriptor_count_max: 10_000,
        }
    }
}
