//! Warnings about configurations that expect persistence.

use crate::table::Config;

impl Config {
    /// The warning for a configuration with save points, as in the defaults; `None` without save points.
    ///
    /// Save points do not prevent the start, because every plain `redis.conf` has them.
    #[must_use]
    pub fn save_points_warning(&self) -> Option<String> {
        if self.save.0.is_empty() {
            return None;
        }
        let points: Vec<String> =
            self.save.0.iter().map(|point| format!("{} {}", point.seconds, point.changes)).collect();
        Some(format!(
            "Nothing is written to disk by this version of Broadloom: the save points '{}' have no effect, and all data is \
             lost when the process ends. Set save \"\" if that is intended.",
            points.join(" ")
        ))
    }
}
