//! Signals, awaited by the process's first thread while the workers run.

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::admin::shutdown::Cause;
use crate::shared::Shared;

/// The signals that the server handles.
pub struct Waiter {
    signals: Signals,
}

impl Waiter {
    /// Installs the signal handlers.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { signals: Signals::new([SIGTERM, SIGINT, SIGHUP, SIGALRM])? })
    }

    /// Ends [`Self::wait`].
    pub fn handle(&self) -> Handle {
        self.signals.handle()
    }

    /// Handles signals until the server has ended.
    pub fn wait(mut self, shared: &'static Shared) {
        for signal in &mut self.signals {
            if signal == SIGALRM {
                log::warn!("Received SIGALRM");
                crate::logging::stacks::log_stacks();
                continue;
            }
            let (name, flags) = {
                let config = shared.config.load();
                match signal {
                    SIGTERM => ("SIGTERM", config.shutdown_on_sigterm),
                    SIGINT => ("SIGINT", config.shutdown_on_sigint),
                    // SIGHUP: the terminal is closed, which does not end the server.
                    _ => continue,
                }
            };
            if (shared.modes.is_stopping() || shared.modes.shutdown.is_pending()) && signal == SIGINT {
                log::warn!("You insist... exiting now.");
                shared.give_up_saving();
                crate::admin::shutdown::clean_up(shared);
                crate::logging::flush();
                std::process::exit(1);
            }
            log::warn!("Received {name} scheduling shutdown...");
            if shared.shut_down(Cause::Signal(flags)).is_err() {
                log::warn!("{name} received but errors trying to shut down the server, see above.");
            }
        }
    }
}
