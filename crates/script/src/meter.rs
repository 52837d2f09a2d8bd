//! What functions of the host spend: work, memory and stack.
//!
//! Lua interrupts its own code after a number of instructions. A function of the host is one instruction however long it
//! takes, allocates without the limit of memory, and may recurse. So each counts its work, after some of which the server
//! is asked whether the script may go on, as from the hook; each asks for the memory of its result before it makes it; and
//! each recursion ends before the stack does.

use std::cell::{Cell, RefCell};

use mlua::Lua;

use crate::failure::Stopped;

/// Work between two interrupts. A unit takes some 10 ns, so this is half a millisecond.
const INTERRUPT_WORK: usize = 50_000;

/// Bytes that are copied or compared in a unit of work.
const BYTES_PER_WORK: usize = 16;

/// Elements between two checks of the memory.
const CHECK_MEMORY_AT: usize = 64;

/// The stack that is left to functions that do not recurse, in bytes.
const STACK_RESERVE: usize = 256 << 10;

/// Asks the server whether the script may go on.
type Interrupt = Box<dyn Fn(&Lua) -> Result<(), Stopped>>;

/// See the module documentation.
pub(crate) struct Meter {
    work: Cell<usize>,
    elements: Cell<usize>,
    memory_max: Cell<usize>,
    /// The lowest address that a recursion may reach.
    stack_end: Cell<usize>,
    interrupt: RefCell<Option<Interrupt>>,
}

impl Meter {
    pub(crate) fn new(memory_max: usize) -> Self {
        Self {
            work: Cell::new(0),
            elements: Cell::new(0),
            memory_max: Cell::new(memory_max),
            stack_end: Cell::new(0),
            interrupt: RefCell::new(None),
        }
    }

    /// Sets what is called after some work.
    pub(crate) fn set_interrupt(&self, interrupt: impl Fn(&Lua) -> Result<(), Stopped> + 'static) {
        *self.interrupt.borrow_mut() = Some(Box::new(interrupt));
    }

    /// The memory that scripts may use, in bytes.
    pub(crate) fn memory_max(&self) -> usize {
        self.memory_max.get()
    }

    pub(crate) fn set_memory_max(&self, memory_max: usize) {
        self.memory_max.set(memory_max);
    }

    /// Adds work. `true`: it is time for [`Self::interrupt`].
    pub(crate) fn add(&self, units: usize) -> bool {
        let work = self.work.get().saturating_add(units);
        self.work.set(work);
        work >= INTERRUPT_WORK
    }

    /// Adds the work of copying bytes, as [`Self::add`].
    pub(crate) fn add_bytes(&self, size: usize) -> bool {
        self.add(size / BYTES_PER_WORK)
    }

    /// Asks the server whether the script may go on, and waits while it is paused.
    #[cold]
    pub(crate) fn interrupt(&self, lua: &Lua) -> Result<(), Stopped> {
        self.work.set(0);
        match &*self.interrupt.borrow() {
            Some(interrupt) => interrupt(lua),
            None => Ok(()),
        }
    }

    /// Spends work.
    #[inline]
    pub(crate) fn work(&self, lua: &Lua, units: usize) -> Result<(), Stopped> {
        if self.add(units) { self.interrupt(lua) } else { Ok(()) }
    }

    /// Spends the work of copying bytes.
    pub(crate) fn copy(&self, lua: &Lua, size: usize) -> Result<(), Stopped> {
        self.work(lua, size / BYTES_PER_WORK)
    }

    /// Whether there is memory for so many bytes.
    pub(crate) fn has_room(&self, lua: &Lua, size: usize) -> bool {
        lua.used_memory().saturating_add(size) <= self.memory_max.get()
    }

    /// Checks that there is memory for so many bytes.
    pub(crate) fn room(&self, lua: &Lua, size: usize) -> Result<(), Stopped> {
        if self.has_room(lua, size) { Ok(()) } else { Err(Stopped::Memory) }
    }

    /// Spends the work and memory of one element of a value that is converted; `pending`: the bytes outside of Lua.
    #[inline]
    pub(crate) fn element(&self, lua: &Lua, size: usize, pending: usize) -> Result<(), Stopped> {
        let elements = self.elements.get() + 1 + size / 1024;
        self.elements.set(elements);
        if elements >= CHECK_MEMORY_AT {
            self.check_elements(lua, pending.saturating_add(size))?;
        }
        self.work(lua, 10 + size / BYTES_PER_WORK)
    }

    #[inline(never)]
    fn check_elements(&self, lua: &Lua, size: usize) -> Result<(), Stopped> {
        self.elements.set(0);
        self.room(lua, size)
    }

    /// Notes that a run begins here, with so many bytes of stack.
    pub(crate) fn begin_stack(&self, size: usize) {
        self.stack_end.set(here().saturating_sub(size.saturating_sub(STACK_RESERVE)));
    }

    /// Whether there is stack for a further level of a recursion.
    pub(crate) fn has_stack(&self) -> bool {
        here() > self.stack_end.get()
    }
}

/// The address of the frame of the caller, about.
#[inline(never)]
fn here() -> usize {
    let local = 0_u8;
    std::hint::black_box(&raw const local).addr()
}
