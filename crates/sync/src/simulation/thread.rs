//! Threads: simulated if the caller is simulated, otherwise the standard library's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread as real};

pub use real::{ThreadId, available_parallelism, current, panicking, scope};

pub use super::yield_now;
use super::{Task, is_simulated, sleep_us, spawn as spawn_task};

/// Waits for the end of a thread.
pub struct JoinHandle<T>(Handle<T>);

enum Handle<T> {
    Real(real::JoinHandle<T>),
    Simulated { task: Task, result: Arc<Mutex<Option<T>>> },
}

impl<T> JoinHandle<T> {
    /// As in the standard library. In a simulation a panic ends the whole simulation, so there is no error.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> real::Result<T> {
        match self.0 {
            Handle::Real(handle) => handle.join(),
            Handle::Simulated { task, result } => {
                task.join();
                let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(result.expect("the thread has ended"))
            }
        }
    }

    /// As in the standard library.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Real(handle) => handle.is_finished(),
            Handle::Simulated { task, .. } => task.has_ended(),
        }
    }
}

/// As in the standard library.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// As in the standard library.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As in the standard library.
    #[must_use]
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// The operating system can't start a thread.
    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let name = self.name.unwrap_or_default();
        if !is_simulated() {
            return real::Builder::new()
                .name(name)
                .spawn(body)
                .map(|handle| JoinHandle(Handle::Real(handle)));
        }
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let task = spawn_task(&name, move || {
            let value = body();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        })?;
        Ok(JoinHandle(Handle::Simulated { task, result }))
    }
}

/// As in the standard library.
///
/// # Panics
/// The operating system can't start a thread.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("the operating system can start a thread")
}

/// As in the standard library; virtual time in a simulation.
pub fn sleep(span: Duration) {
    if is_simulated() {
        sleep_us(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
    } else {
        real::sleep(span);
    }
}
