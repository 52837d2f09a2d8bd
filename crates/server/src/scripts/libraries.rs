//! The libraries of functions, of all workers.
//!
//! The list is an immutable value with a generation. A worker loads a library into its interpreter when it first runs one of
//! its functions; a library is accepted when the interpreter of one worker has loaded it.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use commands::error::CommandError;
use commands::host::{FunctionFacts, LibraryFacts, RestorePolicy};
use rpds::{HashTrieMapSync, QueueSync, RedBlackTreeMapSync};
use script::{LibraryAnalysis, LibraryHeader, LoadedFunction, LoadedLibrary, ScriptFlags, analyse_library};
use sync::atomic::{AtomicU64, Ordering};
use sync::{Mutex, MutexGuard, OnceLock};

/// A function and its properties.
#[derive(Clone)]
pub struct FunctionEntry {
    /// Its library.
    pub library: Arc<LibraryFacts>,
    /// Its name, as it was registered.
    pub name: Vec<u8>,
    /// The flags that it declares.
    pub flags: ScriptFlags,
    analysis: Arc<CodeAnalysis>,
}

impl FunctionEntry {
    /// Whether the code of its library proves that it accesses declared keys only.
    #[must_use]
    pub fn keeps_to_keys(&self) -> bool {
        self.analysis.of(&self.library.code).keeps_to_keys(&self.name)
    }
}

/// The analysis of the code of a library. It is made before the first call of a function, as it takes a part of the time of
/// `FUNCTION LOAD` that grows with the code, and libraries are loaded before each deployment, called or not.
#[derive(Default)]
struct CodeAnalysis(OnceLock<LibraryAnalysis>);

impl CodeAnalysis {
    fn of(&self, code: &[u8]) -> &LibraryAnalysis {
        self.0.get_or_init(|| {
            let header_size = code.iter().position(|byte| *byte == b'\n').map_or(code.len(), |end| end + 1);
            analyse_library(&code[header_size..])
        })
    }
}

/// All libraries at one time. Copies share what is equal.
#[derive(Clone, Default)]
pub struct LibrarySet {
    /// Another one after each change.
    pub generation: u64,
    /// By name.
    pub libraries: RedBlackTreeMapSync<Vec<u8>, Arc<LibraryFacts>>,
    /// By the name of the function, in lower case.
    pub functions: HashTrieMapSync<Vec<u8>, FunctionEntry>,
    /// The libraries that were removed or replaced so far.
    pub removals: Removals,
}

/// The names of libraries that were removed or replaced; only the last ones are kept.
#[derive(Clone, Default)]
pub struct Removals {
    /// The number of all of them.
    pub count: u64,
    recent: QueueSync<Vec<u8>>,
}

/// See the module documentation.
#[derive(Default)]
pub struct Libraries {
    /// Held while a change is prepared: the code of a library runs meanwhile.
    changing: Mutex<()>,
    set: Mutex<Arc<LibrarySet>>,
    /// That of the set.
    generation: AtomicU64,
}

/// Loads a library in an interpreter.
pub type Loader<'a> = &'a mut dyn FnMut(&[u8]) -> Result<LoadedLibrary, CommandError>;

impl Libraries {
    fn lock(&self) -> MutexGuard<'_, Arc<LibrarySet>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The libraries.
    #[must_use]
    pub fn all(&self) -> Arc<LibrarySet> {
        Arc::clone(&self.lock())
    }

    /// Changes with the libraries.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Adds a library.
    pub fn load(
        &self,
        code: &[u8],
        replaces: bool,
        loader: Loader<'_>,
    ) -> Result<Arc<LibraryFacts>, CommandError> {
        self.change(|set| set.add(code, replaces, loader))
    }

    /// Deletes a library.
    pub fn delete(&self, name: &[u8]) -> Result<(), CommandError> {
        self.change(|set| set.remove(name).then_some(()).ok_or(CommandError::new("ERR Library not found")))
    }

    /// Deletes all libraries.
    pub fn flush(&self) {
        let flushed: Result<(), CommandError> = self.change(|set| {
            set.clear();
            Ok(())
        });
        debug_assert!(flushed.is_ok());
    }

    /// Replaces all libraries by others, which no interpreter has loaded.
    pub fn replace_by(&self, other: &Self) {
        let theirs = other.all();
        let replaced: Result<(), CommandError> = self.change(|set| {
            set.clear();
            set.libraries = theirs.libraries.clone();
            set.functions = theirs.functions.clone();
            Ok(())
        });
        debug_assert!(replaced.is_ok());
    }

    /// Adds libraries, all or none.
    pub fn restore(
        &self,
        codes: &[&[u8]],
        policy: RestorePolicy,
        loader: Loader<'_>,
    ) -> Result<(), CommandError> {
        self.change(|set| {
            let mut given = LibrarySet::default();
            for code in codes {
                given.add(code, false, loader)?;
            }
            if policy == RestorePolicy::Flush {
                set.clear();
            }
            for name in given.libraries.keys() {
                if policy == RestorePolicy::Append && set.libraries.contains_key(name) {
                    let name = String::from_utf8_lossy(name);
                    return Err(CommandError::owned(format!("ERR Library {name} already exists")));
                }
                set.remove(name);
            }
            for library in given.libraries.values() {
                set.check_names(library, &HashSet::new())?;
                let entries = keys_of(library)
                    .filter_map(|key| given.functions.get(&key).map(|entry| (key, entry.clone())));
                set.insert(Arc::clone(library), entries.collect());
            }
            Ok(())
        })
    }

    /// Changes a copy of the libraries, which takes their place if that succeeds.
    fn change<R>(
        &self,
        act: impl FnOnce(&mut LibrarySet) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = LibrarySet::clone(&self.all());
        let result = act(&mut changed)?;
        changed.generation += 1;
        let mut set = self.lock();
        self.generation.store(changed.generation, Ordering::Release);
        *set = Arc::new(changed);
        Ok(result)
    }
}

impl Removals {
    /// How many names are kept.
    const RECENT_COUNT_MAX: usize = 64;

    fn note(&mut self, name: &[u8]) {
        self.count += 1;
        self.recent.enqueue_mut(name.to_vec());
        if self.recent.len() > Self::RECENT_COUNT_MAX {
            self.recent.dequeue_mut();
        }
    }

    /// Notes that all libraries are removed.
    fn note_all(&mut self) {
        self.count += 1 + Self::RECENT_COUNT_MAX as u64;
        self.recent = QueueSync::new_sync();
    }

    /// The names after the first `count` ones; `None`: they may be any.
    pub fn since(&self, count: u64) -> Option<impl Iterator<Item = &Vec<u8>>> {
        let missed = usize::try_from(self.count - count).ok()?;
        let first = self.recent.len().checked_sub(missed)?;
        Some(self.recent.iter().skip(first))
    }
}

impl LibrarySet {
    /// The function with this name, in any case.
    #[must_use]
    pub fn function(&self, name: &[u8]) -> Option<&FunctionEntry> {
        self.functions.get(name).or_else(|| self.functions.get(&name.to_ascii_lowercase()))
    }

    /// Whether this library is one of them, and not another one with its name.
    #[must_use]
    pub fn has(&self, library: &Arc<LibraryFacts>) -> bool {
        self.libraries.get(&library.name).is_some_and(|own| Arc::ptr_eq(own, library))
    }

    fn clear(&mut self) {
        self.libraries = RedBlackTreeMapSync::default();
        self.functions = HashTrieMapSync::default();
        self.removals.note_all();
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.get(name).cloned() else { return false };
        self.libraries.remove_mut(name);
        self.removals.note(name);
        for key in keys_of(&library) {
            self.functions.remove_mut(&key);
        }
        true
    }

    /// Adds a library, or changes nothing.
    fn add(
        &mut self,
        code: &[u8],
        replaces: bool,
        loader: Loader<'_>,
    ) -> Result<Arc<LibraryFacts>, CommandError> {
        let header = LibraryHeader::parse(code).map_err(|error| CommandError::quoting(error.0))?;
        let replaced = self.libraries.get(&header.name).cloned();
        if replaced.is_some() && !replaces {
            return Err(CommandError::quoting(
                [b"ERR Library '", &header.name[..], b"' already exists"].concat(),
            ));
        }
        let loaded = loader(code)?;
        let former: HashSet<Vec<u8>> = replaced.iter().flat_map(|library| keys_of(library)).collect();
        let mut facts =
            LibraryFacts { name: header.name.clone(), code: code.to_vec(), functions: Vec::new() };
        for function in &loaded.functions {
            let (name, description) = (function.name.clone(), function.description.clone());
            facts.functions.push(FunctionFacts {
                name,
                description,
                flags: function.flags.names().collect(),
            });
        }
        self.check_names(&facts, &former)?;
        let (library, analysis) = (Arc::new(facts), Arc::new(CodeAnalysis::default()));
        let entry = |LoadedFunction { name, flags, .. }| {
            let (library, analysis) = (Arc::clone(&library), Arc::clone(&analysis));
            (name.to_ascii_lowercase(), FunctionEntry { library, name, flags, analysis })
        };
        let entries = loaded.functions.into_iter().map(entry).collect();
        self.remove(&header.name);
        self.insert(Arc::clone(&library), entries);
        Ok(library)
    }

    /// Checks that no other library has a function with the name of one of this library.
    fn check_names(&self, library: &LibraryFacts, former: &HashSet<Vec<u8>>) -> Result<(), CommandError> {
        for (function, key) in library.functions.iter().zip(keys_of(library)) {
            if self.functions.contains_key(&key) && !former.contains(&key) {
                return Err(CommandError::quoting(
                    [b"ERR Function ", &function.name[..], b" already exists"].concat(),
                ));
            }
        }
        Ok(())
    }

    /// Adds a library and its functions, which have the names of no others.
    fn insert(&mut self, library: Arc<LibraryFacts>, entries: Vec<(Vec<u8>, FunctionEntry)>) {
        for (key, entry) in entries {
            self.functions.insert_mut(key, entry);
        }
        self.libraries.insert_mut(library.name.clone(), library);
    }
}

/// The names of the functions of a library, in lower case.
fn keys_of(library: &LibraryFacts) -> impl Iterator<Item = Vec<u8>> + '_ {
    library.functions.iter().map(|function| function.name.to_ascii_lowercase())
}
