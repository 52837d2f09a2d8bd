//! The admin port: what the crate `dashboard` serves over HTTP, read from the shared state on its thread.

use std::net::TcpListener;
use std::sync::Arc;

use dashboard::{Encryption, MetricsFormat, Source};

use crate::admin::info;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// Begins to serve the listeners on a thread of its own, which lives as long as the process.
///
/// # Errors
/// The thread can't be started.
pub fn start(shared: &'static Shared, listeners: Vec<TcpListener>) -> std::io::Result<()> {
    let encryption = if shared.config.load().admin_tls { Encryption::Tls } else { Encryption::None };
    let source: &'static Reports = Box::leak(Box::new(Reports(shared)));
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            log::info!("Admin port on {address}");
        }
    }
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        if let Err(error) = dashboard::serve(listeners, encryption, source) {
            log::warn!("The admin port has failed: {error}");
        }
    };
    sync::thread::Builder::new().name("broadloom-admin".to_owned()).spawn(body).map(drop)
}

/// What the server reports on its admin port.
struct Reports(&'static Shared);

impl Source for Reports {
    fn metrics(&self, format: MetricsFormat) -> String {
        info::metrics(self.0, format)
    }

    fn figures(&self) -> String {
        info::json(self.0)
    }

    fn obstacles(&self) -> Vec<String> {
        obstacles(self.0)
    }

    fn password(&self) -> Option<Vec<u8>> {
        self.0.config.load().admin_password.reveal().map(<[u8]>::to_vec)
    }

    fn certificates(&self) -> Option<Arc<tls::Context>> {
        self.0.certificates.context()
    }
}

/// The reasons why the server can't serve its data.
fn obstacles(shared: &Shared) -> Vec<String> {
    let mut obstacles = Vec::new();
    if shared.modes.is_stopping() {
        obstacles.push("the server is shutting down".to_owned());
    }
    let now = os::clock::unix_millis() / 1000;
    if shared.modes.is_loading() {
        let progress = shared.loading.progress(now);
        obstacles.push(format!(
            "the data are being loaded: {:.1} %, {} s left",
            progress.percent, progress.left_seconds
        ));
    }
    let replication = &shared.replication;
    if let Some(link) = replication.role.figures(now, replication.feed.end_offset())
        && !link.is_up
    {
        let primary = &link.primary;
        let progress = link.transfer.map_or_else(String::new, |transfer| {
            format!(", a full synchronisation is under way: {:.1} %", transfer.percent())
        });
        obstacles
            .push(format!("the link to the primary {}:{} is down{progress}", primary.host, primary.port));
    }
    if let Some(failure) = shared.persistence.append_only.failure() {
        obstacles.push(format!("the append-only file can't be written: {failure}"));
    }
    if shared.modes.flags.is_set(GlobalFlags::UNSAVED) {
        obstacles.push("writes are refused because the last snapshot has failed".to_owned());
    }
    obstacles
}
