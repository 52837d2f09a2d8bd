//! The libraries of functions, of all workers.
//!
//! The list is an immutable value with a generation. A worker loads a library into its interpreter when it first runs one of
//! its functions; a library is accepted when the interpreter of one worker has loaded it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use commands::error::CommandError;
use commands::host::{FunctionFacts, LibraryFacts, RestorePolicy};
use script::analyse_library;
use script::{LibraryHeader, LoadedFunction, LoadedLibrary, ScriptFlags};
use sync::atomic::{AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// A function and its properties.
#[derive(Clone)]
pub struct FunctionEntry {
    /// Its library.
    pub library: Arc<LibraryFacts>,
    /// Its name, as it was registered.
    pub name: Vec<u8>,
    /// The flags that it declares.
    pub flags: ScriptFlags,
    /// Whether the code of its library proves that it accesses declared keys only.
    pub keeps_to_keys: bool,
}

/// All libraries at one time.
#[derive(Clone, Default)]
pub struct LibrarySet {
    /// By name.
    pub libraries: BTreeMap<Vec<u8>, Arc<LibraryFacts>>,
    /// By the name of the function, in lower case.
    pub functions: HashMap<Vec<u8>, FunctionEntry>,
    /// Changes when libraries are removed or replaced.
    pub removal_count: u64,
}

/// See the module documentation.
#[derive(Default)]
pub struct Libraries {
    set: Mutex<Arc<LibrarySet>>,
    generation: AtomicU64,
}

/// Loads a library in an interpreter.
pub type Loader<'a> = &'a mut dyn FnMut(&[u8]) -> Result<LoadedLibrary, CommandError>;

impl Libraries {
    fn lock(&self) -> MutexGuard<'_, Arc<LibrarySet>> {
        self.set.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        let mut set = self.lock();
        // Copied only while a reader holds it.
        let library = Arc::make_mut(&mut set).add(code, replaces, loader)?;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(library)
    }

    /// Deletes a library.
    pub fn delete(&self, name: &[u8]) -> Result<(), CommandError> {
        let mut set = self.lock();
        if !Arc::make_mut(&mut set).remove(name) {
            return Err(CommandError::new("ERR Library not found"));
        }
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Deletes all libraries.
    pub fn flush(&self) {
        self.replace(&mut self.lock(), LibrarySet::default());
    }

    /// Adds libraries, all or none.
    pub fn restore(
        &self,
        codes: &[&[u8]],
        policy: RestorePolicy,
        loader: Loader<'_>,
    ) -> Result<(), CommandError> {
        let mut set = self.lock();
        let mut changed = match policy {
            RestorePolicy::Flush => LibrarySet::default(),
            RestorePolicy::Append | RestorePolicy::Replace => LibrarySet::clone(&set),
        };
        let mut given = LibrarySet::default();
        for code in codes {
            given.add(code, false, loader)?;
        }
        for name in given.libraries.keys() {
            if policy == RestorePolicy::Append && changed.libraries.contains_key(name) {
                let name = String::from_utf8_lossy(name);
                return Err(CommandError::owned(format!("ERR Library {name} already exists")));
            }
            changed.remove(name);
        }
        for library in given.libraries.into_values() {
            changed.check_names(&library, &HashSet::new())?;
            changed.insert(library, &mut given.functions);
        }
        self.replace(&mut set, changed);
        Ok(())
    }

    fn replace(&self, set: &mut MutexGuard<'_, Arc<LibrarySet>>, changed: LibrarySet) {
        let removal_count = set.removal_count + 1;
        **set = Arc::new(LibrarySet { removal_count, ..changed });
        self.generation.fetch_add(1, Ordering::Release);
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

    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        self.removal_count += 1;
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
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
        let header_size = code.iter().position(|byte| *byte == b'\n').map_or(code.len(), |end| end + 1);
        let analysis = analyse_library(&code[header_size..]);
        for function in &loaded.functions {
            let (name, description) = (function.name.clone(), function.description.clone());
            facts.functions.push(FunctionFacts {
                name,
                description,
                flags: function.flags.names().collect(),
            });
        }
        self.check_names(&facts, &former)?;
        let library = Arc::new(facts);
        let entry = |LoadedFunction { name, flags, .. }| {
            let keeps_to_keys = analysis.keeps_to_keys(&name);
            (
                name.to_ascii_lowercase(),
                FunctionEntry { library: Arc::clone(&library), name, flags, keeps_to_keys },
            )
        };
        let mut entries = loaded.functions.into_iter().map(entry).collect();
        self.remove(&header.name);
        self.insert(Arc::clone(&library), &mut entries);
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

    /// Adds a library, whose functions are among these entries.
    fn insert(&mut self, library: Arc<LibraryFacts>, entries: &mut HashMap<Vec<u8>, FunctionEntry>) {
        let own = keys_of(&library).filter_map(|key| entries.remove_entry(&key));
        self.functions.extend(own);
        self.libraries.insert(library.name.clone(), library);
    }
}

/// The names of the functions of a library, in lower case.
fn keys_of(library: &LibraryFacts) -> impl Iterator<Item = Vec<u8>> + '_ {
    library.functions.iter().map(|function| function.name.to_ascii_lowercase())
}
