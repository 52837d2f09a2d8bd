//! What all connections share: the source, the samples, and the newest of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::recorder::{FINE_SECONDS, Recorder};
use crate::{Encryption, Source};

/// See the module documentation.
pub struct Site {
    pub source: &'static dyn Source,
    pub encryption: Encryption,
    recorder: Mutex<Recorder>,
    /// The newest sample as a server-sent event. A slow reader skips events.
    newest: watch::Sender<Bytes>,
}

impl Site {
    pub fn new(source: &'static dyn Source, encryption: Encryption) -> Self {
        let recorder = Mutex::new(Recorder::new(source.series()));
        Self { source, encryption, recorder, newest: watch::Sender::new(Bytes::new()) }
    }

    /// Takes samples for ever.
    pub async fn record(self: Arc<Self>) {
        let mut ticks = interval(Duration::from_secs(FINE_SECONDS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let sample = self.source.sample();
            let event = format!("data: {}\n\n", sample.to_json());
            self.recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).add(sample);
            self.newest.send_replace(Bytes::from(event));
        }
    }

    /// All samples as JSON.
    pub fn history(&self) -> String {
        self.recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).history()
    }

    /// Number of [`Self::events`] that are in use.
    pub fn receiver_count(&self) -> usize {
        self.newest.receiver_count()
    }

    /// The newest sample from now on.
    pub fn events(&self) -> watch::Receiver<Bytes> {
        self.newest.subscribe()
    }
}
