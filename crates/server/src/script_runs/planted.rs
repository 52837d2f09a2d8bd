//! What a planted fault does instead of pausing. Only simulations have it.

use super::job::Job;

impl Job {
    /// Pauses without latches: the fault `loose-script`. The token is latched again first.
    #[cold]
    pub(super) fn let_go(&mut self) {
        let held = self.data.held_slots();
        self.latches.release(&mut self.data);
        if let Some(pause) = &self.timing.pause {
            pause();
        }
        for slot in held {
            while !self.latches.try_latch_extra(&mut self.data, slot) {
                match &self.timing.pause {
                    Some(pause) => pause(),
                    None => sync::thread::yield_now(),
                }
            }
        }
    }
}
