//! `CONFIG SET`, `CONFIG REWRITE`: the effects of directives when they change.
//!
//! A change is made completely or not at all: each directive's hook runs with the new configuration, and if one
//! fails, those that ran before it run again with the old one. Then the new configuration is published.

use base::Lsn;
use commands::error::CommandError;
use commands::session::Session;
use config::{Appendfsync, Config, Id, OomScoreAdj, SetCaller, SetError};
use os::clock::Uptime;
use os::process;
use sync::Mutex;

use crate::connection::listeners::RelistenError;
use crate::disk;
use crate::logging;
use crate::mail::Mail;
use crate::persistence::{append_only, saving};
use crate::replication::change;
use crate::shared::Shared;
use crate::shared::certificates::concerns_tls;
use crate::shared::modes::GlobalFlags;

/// The reason why a hook failed, as text for the reply.
type HookError = String;

impl Shared {
    /// `CONFIG SET`. Returns the LSN that must be durable before the reply is sent.
    pub fn set_config(&'static self, arguments: &[&[u8]], own: &Session) -> Result<Lsn, CommandError> {
        let _setting = self.config.lock_changes();
        let current = self.config.load_full();
        let caller = SetCaller {
            is_local: own.endpoints.is_local || own.endpoints.is_unix,
            is_loading: self.modes.is_loading(),
        };
        let is_redis = current.extended_redis_compatibility;
        let error = |error: SetError| match error {
            SetError::Loading => CommandError::loading(is_redis),
            error => CommandError::owned(format!("ERR {error}")),
        };
        let mut change = current.with_changes(arguments, caller).map_err(error)?;
        change.config.io_threads.resolve(process::cpu_count());
        // Before anything is in force for a moment.
        if let Err(reason) = change.config.check_admin_access() {
            let of_admin_port = |id: &&Id| matches!(id, Id::admin_password | Id::tls_auth_clients);
            let id = change.changed.iter().find(of_admin_port).copied().unwrap_or(Id::admin_password);
            return Err(error(SetError::refused(id, reason)));
        }
        let certificates = self.certificates.context();
        let first_of_tls = change.changed.iter().copied().find(|id| concerns_tls(*id));
        if let Some(id) = first_of_tls
            && let Err(reason) = self.certificates.load_of(&change.config)
        {
            log::warn!("{reason}");
            let reason = "Unable to update TLS configuration. Check server logs.".to_owned();
            return Err(error(SetError::refused(id, reason)));
        }
        for (index, id) in change.changed.iter().enumerate() {
            if let Err(reason) = self.apply(*id, &mut change.config) {
                let mut old = Config::clone(&current);
                for id in change.changed[..index].iter().rev() {
                    if let Err(reason) = self.apply(*id, &mut old) {
                        log::warn!("'{}' can't be set back: {reason}", id.name());
                    }
                }
                self.certificates.set(certificates);
                return Err(error(SetError::refused(*id, reason)));
            }
        }
        let begins_always = change.changed.contains(&Id::appendfsync)
            && change.config.appendonly
            && change.config.appendfsync == Appendfsync::Always;
        self.publish_config(change.config);
        let append_only = &self.persistence.append_only;
        if !begins_always || append_only.failure().is_some() {
            return Ok(Lsn(0));
        }
        // What was written before is synchronised now and not with the next change.
        append_only.wake();
        Ok(self.keyspace.log.end())
    }

    /// Publishes the configuration with the present role of the server, for `CONFIG GET` and `CONFIG REWRITE`.
    pub fn configure_role(&self) {
        let _setting = self.config.lock_changes();
        let config = change::configured(self, &self.config.load());
        self.publish_config(config);
    }

    fn publish_config(&self, config: Config) {
        self.guard_writes(&config);
        self.replication.follow_config(&config);
        self.snapshots.set_key_delay(config.rdb_key_save_delay);
        self.config.publish(config);
        self.follow_role();
        self.workers.post_all(|| Mail::ConfigChanged);
    }

    /// Refuses writes if they require replicas, because there are none, or if the data could not be saved.
    pub fn guard_writes(&self, config: &Config) {
        self.guard_replica_count(config);
        saving::guard_writes(self, config);
    }

    /// Refuses writes while fewer replicas are up to date than they require. Those of a replica require none.
    pub fn guard_replica_count(&self, config: &Config) {
        let wanted = config.min_replicas_to_write;
        let lag_max = config.min_replicas_max_lag;
        let lacks = wanted > 0
            && lag_max > 0
            && !self.replication.is_replica()
            && self.replication.replicas.good_count(lag_max, Uptime::now()) < wanted;
        if self.modes.flags.is_set(GlobalFlags::NO_REPLICAS) != lacks {
            self.modes.flags.set(GlobalFlags::NO_REPLICAS, lacks);
        }
    }

    /// Makes all workers make their settings and flags anew before their next command: the role has changed, or the first
    /// connection in broadcast mode has begun, or the last one ended.
    pub fn update_workers(&self) {
        self.config.begin_generation();
        self.workers.post_all(|| Mail::ConfigChanged);
    }

    /// Applies the new value of a directive, where it has effects besides being read.
    fn apply(&'static self, id: Id, config: &mut Config) -> Result<(), HookError> {
        match id {
            Id::requirepass => {
                self.set_default_password(config);
                Ok(())
            }
            Id::port | Id::tls_port | Id::bind => self.relisten(config).map_err(|error| match (id, error) {
                (Id::port | Id::tls_port, RelistenError) => {
                    "Unable to listen on this port. Check server logs.".to_owned()
                }
                (_, RelistenError) => "Failed to bind to specified addresses.".to_owned(),
            }),
            Id::io_threads => self.change_thread_count(config),
            Id::io_threads_always_active | Id::io_threads_min => {
                self.pool.change_active(config);
                Ok(())
            }
            Id::loglevel => {
                logging::set_level(config.loglevel);
                Ok(())
            }
            Id::log_format | Id::log_timestamp_format => {
                logging::set_format(config);
                Ok(())
            }
            Id::watchdog_period => {
                self.pool.watchdog.set_period(&self.monitoring.statistics, config.watchdog_period);
                Ok(())
            }
            Id::appendonly => self.switch_append_only(config),
            Id::dir => self.enter_directory(config),
            Id::maxclients => raise_descriptor_limit(config),
            Id::oom_score_adj | Id::oom_score_adj_values => adjust_oom_score(config),
            Id::proc_title_template => {
                set_title(config, self);
                Ok(())
            }
            Id::locale_collate if !process::is_locale(&config.locale_collate) => {
                Err("Invalid locale name".to_owned())
            }
            Id::rdma_bind | Id::rdma_port => Err("No RDMA building support.".to_owned()),
            _ => Ok(()),
        }
    }

    fn switch_append_only(&'static self, config: &Config) -> Result<(), HookError> {
        let is_on = self.config.load().appendonly;
        match config.appendonly {
            true if !is_on => append_only::switch_on(self, config).map_err(|error| {
                log::error!("The append-only file can't be switched on: {error}");
                "Unable to turn on AOF. Check server logs.".to_owned()
            }),
            false if is_on => {
                append_only::switch_off(self);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Listens on the configured addresses, or on the previous ones after an error.
    fn relisten(&self, config: &Config) -> Result<(), RelistenError> {
        let (change, result) = self.connections.listen_sockets.relisten(config);
        self.workers.post(0, Mail::Relisten(change));
        result
    }

    fn change_thread_count(&'static self, config: &Config) -> Result<(), HookError> {
        let count = config.io_threads.count();
        if count > self.config.load().io_threads.count() {
            let missing = missing_descriptors(config)?;
            if missing > 0 {
                return Err(format!(
                    "{missing} open files more than the operating system allows would be needed for {count} threads and \
                     {} clients: lower maxclients or raise 'ulimit -n'",
                    config.maxclients
                ));
            }
        }
        self.set_thread_count(count).map_err(|error| error.to_string())
    }

    /// `CONFIG REWRITE`
    pub fn rewrite_config(&self, everything: bool) -> Result<(), CommandError> {
        let _setting = self.config.lock_changes();
        let Some(path) = &self.identity.config_file else {
            return Err(CommandError::new("ERR The server is running without a config file"));
        };
        let config = self.config.load();
        let users = self.users.load_full().lines();
        let users = Some(&users[..]);
        let written = match std::fs::read(path) {
            Ok(old) => Ok(old),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
        .map(|old| match everything {
            true => config::rewrite_everything(&old, &config, users),
            false => config::rewrite(&old, &config, users),
        })
        .and_then(|text| config::disk::replace_file(path, &text));
        match written {
            Ok(()) => {
                log::info!("CONFIG REWRITE executed with success.");
                Ok(())
            }
            Err(error) => {
                log::warn!("CONFIG REWRITE failed: {error}");
                Err(CommandError::owned(format!("ERR Rewriting config file: {error}")))
            }
        }
    }

    /// Changes the working directory. If there is an append-only file, the next rewrite moves it there: not into the files of
    /// another data set.
    fn enter_directory(&self, config: &mut Config) -> Result<(), HookError> {
        let path = std::fs::canonicalize(&config.dir).map_err(|error| error.to_string())?;
        if self.config.load().appendonly && !self.persistence.append_only.is_home(&path) {
            let layout = append_only::layout(config, path);
            layout.check_vacant(&disk::current()).map_err(|error| error.to_string())?;
        }
        change_directory(config)
    }
}

fn change_directory(config: &mut Config) -> Result<(), HookError> {
    std::env::set_current_dir(&config.dir).map_err(|error| error.to_string())?;
    if let Ok(path) = std::env::current_dir() {
        config.dir = path.to_string_lossy().into_owned();
    }
    Ok(())
}

fn raise_descriptor_limit(config: &Config) -> Result<(), HookError> {
    match missing_descriptors(config)? {
        0 => Ok(()),
        missing => Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {}",
            u64::from(config.maxclients).saturating_sub(missing)
        )),
    }
}

/// Raises the limit of open files for all clients and threads. Returns the number of missing descriptors.
fn missing_descriptors(config: &Config) -> Result<u64, HookError> {
    let wanted = u64::from(config.maxclients) + crate::process::limits::own_descriptors(config);
    let limit = process::raise_open_file_limit(wanted).map_err(|error| error.to_string())?;
    Ok(wanted.saturating_sub(limit.soft))
}

/// Sets the process's out-of-memory score as configured: that of a primary.
pub fn adjust_oom_score(config: &Config) -> Result<(), HookError> {
    // The score before the server set it; `None` while the server does not set it.
    static BEFORE: Mutex<Option<i32>> = Mutex::new(None);
    let mut before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let failed = |error| {
        log::warn!("Unable to set oom_score_adj: {error}");
        "Failed to set current oom_score_adj. Check server logs.".to_owned()
    };
    let value = config.oom_score_adj_values.0[0];
    let (score, base) = match (config.oom_score_adj, *before) {
        (OomScoreAdj::No, None) => return Ok(()),
        (OomScoreAdj::No, Some(base)) => (base, None),
        (wanted, base) => {
            let base = base.map_or_else(process::oom_score_adjustment, Ok).map_err(failed)?;
            let score = if wanted == OomScoreAdj::Relative { base + value } else { value };
            (score, Some(base))
        }
    };
    process::set_oom_score_adjustment(score.clamp(-1000, 1000)).map_err(failed)?;
    *before = base;
    Ok(())
}

/// Sets the title that `ps` shows.
pub fn set_title(config: &Config, shared: &Shared) {
    if !config.set_proc_title {
        return;
    }
    let port = if config.port != 0 { config.port } else { config.tls_port };
    let address = match (port, config.bind.0.first()) {
        (0, _) | (_, None) => config.unixsocket.clone(),
        (port, Some(address)) => format!("{}:{port}", address.trim_start_matches('-')),
    };
    let value_of = |variable: &str| {
        Some(match variable {
            "title" => shared.identity.executable.clone(),
            "listen-addr" => address.clone(),
            "server-mode" => String::new(),
            "port" => config.port.to_string(),
            "tls-port" => config.tls_port.to_string(),
            "unixsocket" => config.unixsocket.clone(),
            "config-file" => shared
                .identity
                .config_file
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            _ => return None,
        })
    };
    let Some(title) = config::expand_title(&config.proc_title_template, value_of) else { return };
    if let Err(error) = os::title::set_title(&title) {
        log::debug!("The process's title can't be set: {error}");
    }
}
