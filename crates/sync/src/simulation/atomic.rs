//! Atomics whose every operation is a scheduling point.

use std::fmt;
use std::sync::atomic as real;

pub use real::Ordering;

use super::point;

/// A fence with a scheduling point.
#[inline]
pub fn fence(order: Ordering) {
    point();
    real::fence(order);
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// The standard library's atomic of this name, with scheduling points.
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(real::$name);

        impl $name {
            /// As in the standard library.
            #[inline]
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(real::$name::new(value))
            }

            /// As in the standard library.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// As in the standard library.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// As in the standard library.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// As in the standard library.
            ///
            /// # Errors
            /// Returns the actual value if it differs from the expected one.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As in the standard library. Does not fail spuriously.
            ///
            /// # Errors
            /// Returns the actual value if it differs from the expected one.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As in the standard library.
            ///
            /// # Errors
            /// Returns the value if `update` returned `None`.
            #[inline]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(success, failure, update)
            }

            /// As in the standard library.
            #[inline]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As in the standard library.
            #[inline]
            #[must_use]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! fetch {
    ($name:ident, $value:ty: $($method:ident)*) => {
        impl $name {
            $(
                /// As in the standard library.
                #[inline]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.$method(value, order)
                }
            )*
        }
    };
}

macro_rules! integers {
    ($($name:ident: $value:ty,)*) => {
        $(
            atomic!($name, $value);
            fetch!($name, $value: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
        )*
    };
}

integers! {
    AtomicU8: u8,
    AtomicU16: u16,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
    AtomicI32: i32,
    AtomicI64: i64,
    AtomicIsize: isize,
}

atomic!(AtomicBool, bool);
fetch!(AtomicBool, bool: fetch_and fetch_or fetch_xor);

/// The standard library's atomic of this name, with scheduling points.
#[repr(transparent)]
pub struct AtomicPtr<T>(real::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// As in the standard library.
    #[inline]
    #[must_use]
    pub const fn new(pointer: *mut T) -> Self {
        Self(real::AtomicPtr::new(pointer))
    }

    /// As in the standard library.
    #[inline]
    pub fn load(&self, order: Ordering) -> *mut T {
        point();
        self.0.load(order)
    }

    /// As in the standard library.
    #[inline]
    pub fn store(&self, pointer: *mut T, order: Ordering) {
        point();
        self.0.store(pointer, order);
    }

    /// As in the standard library.
    #[inline]
    pub fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        point();
        self.0.swap(pointer, order)
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// Returns the actual pointer if it differs from the expected one.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        point();
        self.0.compare_exchange(current, new, success, failure)
    }

    /// As in the standard library. Does not fail spuriously.
    ///
    /// # Errors
    /// Returns the actual pointer if it differs from the expected one.
    #[inline]
    pub fn compare_exchange_weak(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.compare_exchange(current, new, success, failure)
    }

    /// As in the standard library.
    #[inline]
    pub fn get_mut(&mut self) -> &mut *mut T {
        self.0.get_mut()
    }
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

impl<T> fmt::Debug for AtomicPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
