//! The libraries of functions, of all workers.
//!
//! The list is an immutable value with a generation. A worker loads the libraries into its interpreter when it next runs a
//! function; a library is accepted when the interpreter of one worker has loaded it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use commands::error::CommandError;
use commands::host::{FunctionFacts, LibraryFacts, RestorePolicy};
use script::analyse_library;
use script::{LibraryHeader, LoadedLibrary, ScriptFlags};
use sync::atomic::{AtomicU64, Ordering};
use sync::{Mutex, MutexGuard};

/// A function and its properties.
#[derive(Clone, Debug)]
pub struct FunctionEntry {
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
    /// By name, sorted.
    pub libraries: Vec<Arc<LibraryFacts>>,
    /// By the name of the function, in lower case.
    pub functions: HashMap<Vec<u8>, FunctionEntry>,
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

    /// Adds a library, and returns its name.
    pub fn load(&self, code: &[u8], replaces: bool, loader: Loader<'_>) -> Result<Vec<u8>, CommandError> {
        let mut set = self.lock();
        // Copied only while a reader holds it.
        let name = Arc::make_mut(&mut set).add(code, replaces, loader)?;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(name)
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
        for library in &given.libraries {
            if policy == RestorePolicy::Append && changed.find(&library.name).is_ok() {
                let name = String::from_utf8_lossy(&library.name);
                return Err(CommandError::owned(format!("ERR Library {name} already exists")));
            }
            changed.remove(&library.name);
        }
        for library in given.libraries {
            changed.check_names(&library, &HashSet::new())?;
            changed.insert(library, &mut given.functions);
        }
        self.replace(&mut set, changed);
        Ok(())
    }

    fn replace(&self, set: &mut MutexGuard<'_, Arc<LibrarySet>>, changed: LibrarySet) {
        **set = Arc::new(changed);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl LibrarySet {
    /// The function with this name, in any case.
    #[must_use]
    pub fn function(&self, name: &[u8]) -> Option<&FunctionEntry> {
        self.functions.get(name).or_else(|| self.functions.get(&name.to_ascii_lowercase()))
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.libraries.binary_search_by(|library| library.name[..].cmp(name))
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let Ok(place) = self.find(name) else { return false };
        let library = self.libraries.remove(place);
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }

    /// Adds a library, or changes nothing.
    fn add(&mut self, code: &[u8], replaces: bool, loader: Loader<'_>) -> Result<Vec<u8>, CommandError> {
        let header = LibraryHeader::parse(code).map_err(|error| CommandError::quoting(error.0))?;
        let replaced = self.find(&header.name).ok().map(|place| Arc::clone(&self.libraries[place]));
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
        let mut entries = HashMap::new();
        for function in loaded.functions {
            let keeps_to_keys = analysis.keeps_to_keys(&function.name);
            let entry = FunctionEntry { name: function.name.clone(), flags: function.flags, keeps_to_keys };
            entries.insert(function.name.to_ascii_lowercase(), entry);
            let flags = function.flags.names().collect();
            facts.functions.push(FunctionFacts {
                name: function.name,
                description: function.description,
                flags,
            });
        }
        self.check_names(&facts, &former)?;
        self.remove(&header.name);
        self.insert(Arc::new(facts), &mut entries);
        Ok(header.name)
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
        let place = self.find(&library.name).unwrap_or_else(|place| place);
        self.libraries.insert(place, library);
    }
}

/// The names of the functions of a library, in lower case.
fn keys_of(library: &LibraryFacts) -> impl Iterator<Item = Vec<u8>> + '_ {
    library.functions.iter().map(|function| function.name.to_ascii_lowercase())
}
