//! Start-up: from the command line to running threads, and back to an exit code.

use std::ffi::OsString;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use commands::acl::Users;
use config::{CommandLine, Config, Invocation, Loaded, UsageError};
use os::clock::Uptime;
use os::{clock, pages, process};
use sync::Signal;
use sync::mpsc::{Receiver, channel};

use crate::admin::{self, shutdown};
use crate::connection::listeners::{ListenError, ListenSockets, Listeners, bind_admin};
use crate::logging;
use crate::mail::Mail;
use crate::persistence::append_only;
use crate::persistence::loading::{self, LoadFailed, reload};
use crate::process::identity::{Identity, build_number};
use crate::process::limits::own_descriptors;
use crate::process::supervisor;
use crate::replication::change;
use crate::shared::Shared;
use crate::shared::loading::Loading;
use crate::startup::signals::Waiter;
use crate::startup::{crash, directory, users};
use crate::worker;

/// The pid file of a background process in Redis, if none is configured.
const PID_FILE_DEFAULT: &str = "/var/run/redis.pid";

/// For how long addresses that are in use are tried, in milliseconds, and how often. With io_uring the kernel keeps the listener of
/// a killed process for some tenths of a second.
const LISTEN_MS: i64 = 1500;
const LISTEN_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the server by the command line. Returns when it has ended.
pub fn serve(mut arguments: Vec<OsString>) -> ExitCode {
    let program = if arguments.is_empty() { OsString::new() } else { arguments.remove(0) };
    if program.as_encoded_bytes().ends_with(b"-sentinel") {
        return fail(&UsageError::Unsupported("--sentinel".to_owned()));
    }
    let command_line = match CommandLine::parse(arguments) {
        Ok(Invocation::Serve(command_line)) => command_line,
        Ok(Invocation::Version) => {
            return print(&version(&program));
        }
        Ok(Invocation::Help) => {
            return print(&format!(
                "{}\nTools:\n       broadloom bench [options]      the load generator; see broadloom bench --help\n       \
                 broadloom migrate [options]    moves data between running servers; see broadloom migrate --help\n       \
                 broadloom check-rdb FILE       validates an RDB file; also as redis-check-rdb\n       \
                 broadloom check-aof FILE       checks and repairs append-only files; also as redis-check-aof",
                config::usage()
            ));
        }
        Ok(Invocation::CheckSystem) => {
            let (report, is_fine) = crate::startup::check_system::report();
            let printed = print(report.trim_end());
            return if is_fine { printed } else { ExitCode::FAILURE };
        }
        Err(error) => return fail(&error),
    };
    let mut loaded = match config::load(&command_line, &mut config::disk::Disk) {
        Ok(loaded) => loaded,
        Err(error) => return fail(&error),
    };
    loaded.config.io_threads.resolve(process::cpu_count());
    let users = match check_renames(&loaded).and_then(|()| users::declared(&loaded)) {
        Ok(users) => users,
        Err(error) => return fail(&error),
    };
    if command_line.only_checks {
        println!("The configuration is valid.");
        return ExitCode::SUCCESS;
    }
    let config_file = command_line.config_path.as_deref().and_then(|path| std::path::absolute(path).ok());
    let ended = run(loaded, users, config_file, &program);
    logging::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fatal) => ExitCode::FAILURE,
    }
}

/// Prints a text. An error is ignored: the reader may have closed the pipe.
fn print(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::SUCCESS
}

/// The start-up failed; the reason is logged.
struct Fatal;

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    report(format_args!("{error}"));
    ExitCode::FAILURE
}

/// Prints an error, even if nobody can read it.
fn report(error: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{error}");
}

/// The line for `--version`, in the form of the program whose name the process has.
fn version(program: &std::ffi::OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let details = format!(
        "sha={}:0 malloc=mimalloc bits={} build={:x}",
        env!("BROADLOOM_COMMIT"),
        usize::BITS,
        build_number()
    );
    let own = env!("CARGO_PKG_VERSION");
    if name.ends_with("redis-server") {
        format!("Redis server v={} {details} (Broadloom {own})", commands::identity::REDIS_VERSION)
    } else if name.ends_with("valkey-server") {
        format!("Valkey server v={} {details} (Broadloom {own})", commands::identity::VALKEY_VERSION)
    } else {
        format!("Broadloom server v={own} {details}")
    }
}

fn check_renames(loaded: &Loaded) -> Result<(), config::LoadError> {
    let mut names = commands::table::Names::new();
    loaded.renames.iter().try_for_each(|rename| {
        let failed = |reason| config::LoadError::at(rename.place.clone(), reason);
        names.rename(&rename.from, &rename.to).map_err(failed)
    })
}

fn run(
    loaded: Loaded,
    users: Users,
    config_file: Option<PathBuf>,
    program: &std::ffi::OsStr,
) -> Result<(), Fatal> {
    let mut config = loaded.config.clone();
    let is_supervised = supervisor::find(&config);
    let goes_to_background = config.daemonize && !is_supervised;
    if goes_to_background && let Err(error) = process::daemonize_alone() {
        report(format_args!("Can't run in the background: {error}"));
        return Err(Fatal);
    }
    let has_room = os::title::make_room();
    if let Err(error) = logging::start(&config) {
        report(format_args!("Can't open the log file '{}': {error}", config.logfile));
        return Err(Fatal);
    }
    crash::install();
    supervisor::starting();
    if let Err(error) = has_room {
        log::debug!("The process's title can't be longer than its arguments: {error}");
    }
    announce(&config, config_file.as_deref());
    if let Some(notice) = loaded.inert_notice() {
        log::info!("{notice}");
    }
    enter_directory(&mut config)?;
    directory::warn_if_unwritable(&config);
    let users = users::at_start(users, &config).map_err(|errors| {
        log::error!("Aborting Broadloom startup because of ACL errors: {errors}");
        Fatal
    })?;
    raise_descriptor_limit(&mut config);
    if let Err(reason) = admin::settings::adjust_oom_score(&config) {
        log::warn!("Unable to set the OOM score: {reason}");
    }
    let disable =
        if config.disable_thp { pages::disable_huge_pages } else { pages::disable_unrequested_huge_pages };
    if let Err(error) = disable() {
        log::debug!("Can't disable transparent huge pages: {error}");
    }
    pages::defer_purges();
    clock::calibrate();
    let executable = absolute_program(program);
    let pid_file = write_pid_file(&config, goes_to_background);
    let waiter =
        Waiter::new().map_err(|error| log::error!("Can't wait for signals: {error}")).map_err(|()| Fatal)?;
    let listen_sockets = ListenSockets::default();
    // First: a failure leaves no unix socket behind.
    let admin_listeners = listen_for_admin(&config)?;
    let listeners = listen(&listen_sockets, &config)?;
    let identity = Identity::new(config_file, executable, pid_file);
    let shared = Shared::leak(config, users, &loaded.renames, identity, listen_sockets, worker::start);
    crash::set_shared(shared);
    logging::wake_with(|worker| shared.workers.post(worker, Mail::Durable));
    shared.certificates.load_of(&shared.config.load()).map_err(|reason| {
        log::warn!("{reason}");
        log::error!("Failed to configure TLS. Check logs for more info.");
        Fatal
    })?;
    shared.loading.with(worker::replay, reload::begin);
    admin::settings::set_title(&shared.config.load(), shared);
    let handle = waiter.handle();
    shared.pool.at_end(move || handle.close());
    shared.memory.startup.store(shared.used_memory() as u64, sync::atomic::Ordering::Relaxed);
    shared.guard_writes(&shared.config.load());
    log::info!("Server initialized");
    let ready = listeners.ready_texts();
    // Until all data is loaded, commands reply with `LOADING`.
    shared.loading.begin(&shared.modes.flags, 0);
    if !admin_listeners.is_empty() {
        admin::port::start(shared, admin_listeners).map_err(|error| {
            log::error!("Can't start a thread: {error}");
            Fatal
        })?;
    }
    let loaded = Arc::new(Signal::default());
    let (is_started, started) = channel();
    let loader = load(shared, ready, Arc::clone(&loaded), started)?;
    // After a short load no client sees `LOADING`: those that connect meanwhile wait.
    loaded.wait(directory::load_patience(&shared.config.load()));
    if shared.loading.has_failed() || shared.start_workers(listeners).is_err() {
        return Err(Fatal);
    }
    let _ = is_started.send(());
    shared.pool.watchdog.set_period(&shared.monitoring.statistics, shared.config.load().watchdog_period);
    waiter.wait(shared);
    // A load that is still running ends soon after the workers.
    let _ = loader.join();
    if shared.loading.has_failed() {
        return Err(Fatal);
    }
    let is_complete = append_only::end(shared);
    shutdown::clean_up(shared);
    // The log says what is missing; the exit status shows it to the supervisor of the process.
    if is_complete && !shared.modes.shutdown.has_lost() { Ok(()) } else { Err(Fatal) }
}

/// Starts the thread that loads the data. The server is ready when the data is `loaded` and the workers are
/// (`started`).
fn load(
    shared: &'static Shared,
    ready: Vec<&'static str>,
    loaded: Arc<Signal>,
    started: Receiver<()>,
) -> Result<sync::thread::JoinHandle<()>, Fatal> {
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        warn_about_unread_dump(&shared.config.load());
        match load_and_log(shared) {
            Ok(()) => {}
            Err(_) if shared.modes.is_stopping() => return loaded.set(),
            Err(LoadFailed) => {
                shared.loading.note_failure();
                shared.stop();
                loaded.set();
                return;
            }
        }
        change::begin(shared);
        Loading::end(&shared.modes.flags);
        loaded.set();
        if started.recv().is_err() {
            return;
        }
        change::connect(shared);
        for text in ready {
            log::info!("Ready to accept connections {text}");
        }
        supervisor::ready();
    };
    sync::thread::Builder::new().name("broadloom-load".to_owned()).spawn(body).map_err(|error| {
        log::error!("Can't start a thread: {error}");
        Fatal
    })
}

/// A server with `appendonly yes` loads its append-only files only, as Redis does; without any it has no data.
fn warn_about_unread_dump(config: &Config) {
    let manifest = Path::new(&config.appenddirname).join(format!("{}.manifest", config.appendfilename));
    let dump = Path::new(&config.dbfilename);
    // A file of the name alone is that of an older Redis.
    let has_files = manifest.exists() || Path::new(&config.appendfilename).exists();
    if config.appendonly && dump.exists() && !has_files {
        log::warn!(
            "The dump {} is not loaded, because appendonly is yes and there is no append-only file. The server starts without \
             data, and its next save replaces the dump. To keep the data, end it with SHUTDOWN NOSAVE, start it with appendonly \
             no, and then use CONFIG SET appendonly yes.",
            dump.display()
        );
    }
}

/// Loads the data. From then on changes are logged, if there is an append-only file.
pub(super) fn load_and_log(shared: &'static Shared) -> Result<(), LoadFailed> {
    if !shared.config.load().appendonly {
        return loading::load_at_start(shared, None);
    }
    let unusable = |error| {
        log::error!("Can't use the append-only file: {error}");
        LoadFailed
    };
    let mut files =
        append_only::open_at_start(&shared.config.load()).map_err(|error| unusable(error.into()))?;
    loading::load_at_start(shared, Some(&mut files))?;
    append_only::begin(shared, files).map_err(unusable)
}

const LOGO: &str = r"
    | | | | | | |
   -+-|-+-|-+-|-+-    Broadloom
   -|-+-|-+-|-+-|-
   -+-|-+-|-+-|-+-    Port: PORT
   -|-+-|-+-|-+-|-    PID: NUMBER
    | | | | | | |
";

fn announce(config: &Config, config_file: Option<&Path>) {
    let pid = std::process::id();
    log::info!("Broadloom is starting");
    log::info!(
        "Broadloom version={}, bits={}, commit={}, pid={pid}, just started",
        env!("CARGO_PKG_VERSION"),
        usize::BITS,
        env!("BROADLOOM_COMMIT"),
    );
    match config_file {
        Some(path) => log::info!("Configuration loaded from {}", path.display()),
        None => log::info!("No configuration file given, using the defaults and the command line"),
    }
    let port = if config.port != 0 { config.port } else { config.tls_port };
    if config.always_show_logo || (config.logfile.is_empty() && process::is_tty()) {
        let logo = LOGO.replace("PORT", &port.to_string()).replace("NUMBER", &pid.to_string());
        logging::write_raw(&format!("{logo}\n"));
    }
    log::info!("Running mode=standalone, port={port}, PID: {pid}");
}

/// Changes to the configured directory, and stores its absolute path.
fn enter_directory(config: &mut Config) -> Result<(), Fatal> {
    if !config.dir.is_empty()
        && let Err(error) = std::env::set_current_dir(&config.dir)
    {
        log::error!("Can't chdir to '{}': {error}", config.dir);
        return Err(Fatal);
    }
    if let Ok(path) = std::env::current_dir() {
        config.dir = path.to_string_lossy().into_owned();
    }
    Ok(())
}

/// Raises the limit of open files for `maxclients`, or lowers `maxclients` to the limit.
fn raise_descriptor_limit(config: &mut Config) {
    let wanted = u64::from(config.maxclients) + own_descriptors(config);
    let limit = match process::raise_open_file_limit(wanted) {
        Ok(limit) if limit.soft >= wanted => return,
        Ok(limit) => limit.soft,
        Err(error) => {
            log::warn!("Unable to raise the limit of open files: {error}");
            return;
        }
    };
    let possible = u32::try_from(limit.saturating_sub(own_descriptors(config)).max(1)).unwrap_or(u32::MAX);
    log::warn!(
        "maxclients of {} needs {wanted} open files, but the system allows {limit}: maxclients is {possible}. \
         Raise 'ulimit -n' for more.",
        config.maxclients
    );
    config.maxclients = possible;
}

fn absolute_program(program: &std::ffi::OsStr) -> String {
    let path = if Path::new(program).components().count() > 1 {
        std::path::absolute(program).ok()
    } else {
        std::env::current_exe().ok()
    };
    path.unwrap_or_default().to_string_lossy().into_owned()
}

fn write_pid_file(config: &Config, goes_to_background: bool) -> Option<PathBuf> {
    let path = match (config.pidfile.as_str(), goes_to_background) {
        ("", false) => return None,
        ("", true) => PID_FILE_DEFAULT,
        (path, _) => path,
    };
    match std::fs::write(path, format!("{}\n", std::process::id())) {
        Ok(()) => std::path::absolute(path).ok(),
        Err(error) => {
            log::warn!("Failed to write PID file '{path}': {error}");
            None
        }
    }
}

fn is_in_use(error: &ListenError) -> bool {
    error.source.kind() == std::io::ErrorKind::AddrInUse
}

fn listen(listen_sockets: &ListenSockets, config: &Config) -> Result<Listeners, Fatal> {
    let listeners = bind_in_time(|| listen_sockets.bind(config))?;
    if listeners.len() == 0 {
        log::error!("Configured to not listen anywhere, exiting.");
        return Err(Fatal);
    }
    Ok(listeners)
}

fn listen_for_admin(config: &Config) -> Result<Vec<TcpListener>, Fatal> {
    let listeners = bind_in_time(|| bind_admin(config))?;
    if config.admin_port != 0 && listeners.is_empty() {
        log::warn!("There is no admin port: admin-bind has no address of this machine.");
    }
    Ok(listeners)
}

/// Binds addresses, again for a moment if one is in use.
fn bind_in_time<T>(bind: impl Fn() -> Result<T, ListenError>) -> Result<T, Fatal> {
    let deadline = Uptime::now().plus_ms(LISTEN_MS);
    let mut bound = bind();
    if let Some(error) = bound.as_ref().err().filter(|error| is_in_use(error)) {
        // A text that others search for would end the start in their eyes.
        log::warn!("Another socket still listens on {}. Trying again for a moment...", error.address);
    }
    while bound.as_ref().is_err_and(is_in_use) && Uptime::now() < deadline {
        sync::thread::sleep(LISTEN_INTERVAL);
        bound = bind();
    }
    bound.map_err(|error| report_failed_listening(&error))
}

fn report_failed_listening(error: &ListenError) -> Fatal {
    let ListenError { address, port, kind, source } = error;
    if let Some(port) = port {
        log::warn!("Could not listen on {address}: {source}");
        log::error!("Failed listening on port {port} ({kind}), aborting.");
    } else {
        log::error!("Failed opening Unix socket: {source} ({address})");
    }
    Fatal
}
