//! Code on a stack of its own, which can pause in the middle of a call and continue later on the same thread.
//!
//! Owns the stack. A [`Pauser`] is the coroutine's own handle: only code that runs on its stack may pause.
//! Invariants:
//! 1. `Current` is the coroutine whose stack the thread runs on; its pauser alone may be used.
//! 2. A coroutine that is dropped while it is paused within a call is never continued: its stack is leaked, as code
//!    in C on it can't be unwound.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult, Yielder};

thread_local! {
    /// The number of the coroutine that runs on this thread; 0: none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// A coroutine, which takes an `In` each time it continues and gives an `Out` each time it pauses.
pub struct Coroutine<In: 'static, Out: 'static> {
    inner: ManuallyDrop<corosensei::Coroutine<In, Out, (), DefaultStack>>,
    number: u64,
}

/// The coroutine's own handle.
pub struct Pauser<In, Out> {
    yielder: Rc<Cell<*const Yielder<In, Out>>>,
    number: u64,
}

impl<In, Out> Clone for Pauser<In, Out> {
    fn clone(&self) -> Self {
        Self { yielder: Rc::clone(&self.yielder), number: self.number }
    }
}

impl<In: 'static, Out: 'static> Coroutine<In, Out> {
    /// Creates a coroutine with a stack of `stack_size` bytes. `body` begins when it is first resumed.
    ///
    /// # Errors
    /// There is no memory for the stack.
    pub fn new(stack_size: usize, body: impl FnOnce(Pauser<In, Out>, In) + 'static) -> io::Result<Self> {
        let number = LAST.with(|last| {
            last.set(last.get() + 1);
            last.get()
        });
        let stack = DefaultStack::new(stack_size)?;
        let inner = corosensei::Coroutine::with_stack(stack, move |yielder: &Yielder<In, Out>, input| {
            let yielder = Rc::new(Cell::new(&raw const *yielder));
            body(Pauser { yielder, number }, input);
        });
        Ok(Self { inner: ManuallyDrop::new(inner), number })
    }

    /// Continues the coroutine until it pauses; `None` if its body returns.
    ///
    /// # Panics
    /// If it has ended before, or its code panics.
    pub fn resume(&mut self, input: In) -> Option<Out> {
        let outer = CURRENT.replace(self.number);
        let result = self.inner.resume(input);
        CURRENT.set(outer);
        match result {
            CoroutineResult::Yield(out) => Some(out),
            CoroutineResult::Return(()) => None,
        }
    }
}

impl<In: 'static, Out: 'static> Drop for Coroutine<In, Out> {
    fn drop(&mut self) {
        if self.inner.done() || !self.inner.started() {
            // SAFETY: it is not used after this, as `self` is being dropped.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

impl<In, Out> Pauser<In, Out> {
    /// Pauses the coroutine, and returns the input of the next [`Coroutine::resume`].
    ///
    /// # Panics
    /// If the calling code does not run on the coroutine's stack.
    pub fn pause(&self, out: Out) -> In {
        assert_eq!(CURRENT.get(), self.number, "only a running coroutine pauses itself");
        // SAFETY: the coroutine runs (asserted), so its body has not returned, and the yielder lives in the frame below it.
        let yielder = unsafe { &*self.yielder.get() };
        yielder.suspend(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coroutine_pauses_and_continues() {
        let mut doubler = Coroutine::<u32, u32>::new(64 << 10, |pauser, first| {
            let mut input = first;
            while input != 0 {
                input = pauser.pause(input * 2);
            }
        })
        .expect("there is memory");
        assert_eq!(doubler.resume(1), Some(2));
        assert_eq!(doubler.resume(21), Some(42));
        assert_eq!(doubler.resume(0), None);
    }

    #[test]
    fn one_that_is_paused_may_be_dropped() {
        let value = Rc::new(());
        let inside = Rc::clone(&value);
        let mut paused = Coroutine::<(), ()>::new(64 << 10, move |pauser, ()| {
            pauser.pause(());
            drop(inside);
        })
        .expect("there is memory");
        assert_eq!(paused.resume(()), Some(()));
        drop(paused);
        assert_eq!(Rc::strong_count(&value), 2);
    }

    #[test]
    #[should_panic(expected = "only a running coroutine pauses itself")]
    fn a_pauser_is_of_no_use_elsewhere() {
        let slot = Rc::new(Cell::new(None));
        let outside = Rc::clone(&slot);
        let mut coroutine = Coroutine::<(), ()>::new(64 << 10, move |pauser, ()| {
            outside.set(Some(pauser.clone()));
            pauser.pause(());
        })
        .expect("there is memory");
        coroutine.resume(());
        slot.take().expect("it was set").pause(());
    }
}
