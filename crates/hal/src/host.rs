//! Host memory that blocks read and write while they wait and run.
#![allow(unsafe_code, reason = "bytes of a framework are known by address")]

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use parking_lot::lock_api::{ArcRwLockReadGuard, ArcRwLockWriteGuard};
use parking_lot::{MappedRwLockReadGuard, RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Loan;

type Bytes = Box<[u8]>;

/// Bytes of the host that can be lent to control blocks.
///
/// While a block that reads them waits or runs, they can be read but not written; while one that
/// writes them does, neither. So no program can see half a copy.
///
/// ```
/// use spyre_hal::HostBuffer;
///
/// let buffer = HostBuffer::from(vec![1, 2, 3]);
/// let lent = buffer.lend_to_write().expect("it is not lent");
/// assert!(buffer.read().is_err());
/// drop(lent);
/// assert_eq!(buffer.read().expect("it is back")[..], [1, 2, 3]);
/// ```
#[derive(Clone)]
pub struct HostBuffer {
    bytes: Arc<RwLock<Bytes>>,
}

/// The buffer is lent to a control block that has not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host buffer is lent to a copy that has not completed: synchronize first")]
pub struct HostBusy;

impl HostBuffer {
    /// A buffer of this many zeros.
    pub fn zeroed(bytes: usize) -> Self {
        Self::from(vec![0; bytes])
    }

    /// Number of bytes that it holds, if no copy is writing them.
    pub fn bytes(&self) -> Result<usize, HostBusy> {
        self.read().map(|bytes| bytes.len())
    }

    /// The bytes.
    pub fn read(&self) -> Result<impl std::ops::Deref<Target = [u8]> + '_, HostBusy> {
        let guard: RwLockReadGuard<'_, Bytes> = self.bytes.try_read().ok_or(HostBusy)?;
        let bytes: MappedRwLockReadGuard<'_, [u8]> = RwLockReadGuard::map(guard, |bytes| &**bytes);
        Ok(bytes)
    }

    /// The bytes, to be changed.
    pub fn write(&self) -> Result<impl std::ops::DerefMut<Target = [u8]> + '_, HostBusy> {
        let guard = self.bytes.try_write().ok_or(HostBusy)?;
        Ok(RwLockWriteGuard::map(guard, |bytes| &mut **bytes))
    }

    /// Lends the bytes to a block that reads them.
    pub fn lend_to_read(&self) -> Result<HostSource, HostBusy> {
        let guard = self.bytes.try_read_arc().ok_or(HostBusy)?;
        Ok(HostSource(Source::Buffer(guard)))
    }

    /// Lends the bytes to a block that writes them.
    pub fn lend_to_write(&self) -> Result<HostTarget, HostBusy> {
        let guard = self.bytes.try_write_arc().ok_or(HostBusy)?;
        Ok(HostTarget(Target::Buffer(guard)))
    }
}

impl From<Vec<u8>> for HostBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(RwLock::new(bytes.into_boxed_slice())) }
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes() {
            Ok(bytes) => write!(f, "HostBuffer({bytes} bytes)"),
            Err(busy) => write!(f, "HostBuffer({busy})"),
        }
    }
}

/// Bytes of the host that a block reads.
pub struct HostSource(Source);

enum Source {
    Owned(Bytes),
    Buffer(ArcRwLockReadGuard<RawRwLock, Bytes>),
    Foreign(Foreign),
}

/// Bytes of the host that a block writes.
pub struct HostTarget(Target);

enum Target {
    Buffer(ArcRwLockWriteGuard<RawRwLock, Bytes>),
    Foreign(Foreign),
}

impl HostSource {
    /// Bytes that exist elsewhere, and that `keep_alive` keeps there.
    ///
    /// # Safety
    /// Until the block has completed, the bytes stay readable, and no code writes them.
    pub unsafe fn foreign(
        bytes: *const u8,
        length: usize,
        keep_alive: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let keeper = Keeper::Owner { _owner: keep_alive };
        Self(Source::Foreign(Foreign { bytes: bytes.cast_mut(), length, keeper }))
    }

    /// Bytes of a caller that waits until the block has completed, or takes them back by the [`Loan`].
    ///
    /// # Safety
    /// Until then the bytes stay readable, and no thread writes them.
    pub unsafe fn borrowed(bytes: *const u8, length: usize) -> Self {
        let keeper = Keeper::Caller(Arc::default());
        Self(Source::Foreign(Foreign { bytes: bytes.cast_mut(), length, keeper }))
    }

    /// The loan, if the bytes are borrowed.
    pub fn loan(&self) -> Option<&Arc<Loan>> {
        match &self.0 {
            Source::Foreign(foreign) => foreign.loan(),
            Source::Owned(_) | Source::Buffer(_) => None,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Source::Owned(bytes) => bytes,
            Source::Buffer(guard) => guard,
            // SAFETY: `foreign`'s caller promised that they can be read and do not change.
            Source::Foreign(foreign) => unsafe { foreign.slice() },
        }
    }
}

impl From<Vec<u8>> for HostSource {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Source::Owned(bytes.into_boxed_slice()))
    }
}

impl HostTarget {
    /// Bytes that exist elsewhere, and that `keep_alive` keeps there.
    ///
    /// # Safety
    /// Until the block has completed, the bytes stay writable, and no code but the block's reads or
    /// writes them.
    pub unsafe fn foreign(
        bytes: *mut u8,
        length: usize,
        keep_alive: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let keeper = Keeper::Owner { _owner: keep_alive };
        Self(Target::Foreign(Foreign { bytes, length, keeper }))
    }

    /// Bytes of a caller that waits until the block has completed, or takes them back by the [`Loan`].
    ///
    /// # Safety
    /// Until then the bytes stay writable, and no other thread reads or writes them.
    pub unsafe fn borrowed(bytes: *mut u8, length: usize) -> Self {
        let keeper = Keeper::Caller(Arc::default());
        Self(Target::Foreign(Foreign { bytes, length, keeper }))
    }

    /// The loan, if the bytes are borrowed.
    pub fn loan(&self) -> Option<&Arc<Loan>> {
        match &self.0 {
            Target::Foreign(foreign) => foreign.loan(),
            Target::Buffer(_) => None,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Target::Buffer(guard) => guard,
            // SAFETY: `foreign`'s caller promised that they are this block's alone.
            Target::Foreign(foreign) => unsafe { foreign.slice() },
        }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Target::Buffer(guard) => guard,
            // SAFETY: as above, and `self` is borrowed for as long as the slice.
            Target::Foreign(foreign) => unsafe {
                match foreign.length {
                    0 => &mut [],
                    length => std::slice::from_raw_parts_mut(foreign.bytes, length),
                }
            },
        }
    }
}

impl fmt::Debug for HostSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Foreign(foreign) => write!(f, "HostSource({} bytes)", foreign.length),
            _ => write!(f, "HostSource({} bytes)", self.bytes().len()),
        }
    }
}

impl fmt::Debug for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::Foreign(foreign) => write!(f, "HostTarget({} bytes)", foreign.length),
            Target::Buffer(guard) => write!(f, "HostTarget({} bytes)", guard.len()),
        }
    }
}

struct Foreign {
    bytes: *mut u8,
    length: usize,
    keeper: Keeper,
}

/// Keeps bytes where they are.
enum Keeper {
    Owner { _owner: Arc<dyn Any + Send + Sync> },
    Caller(Arc<Loan>),
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Keeper::Caller(loan) = &self.keeper {
            loan.end();
        }
    }
}

// SAFETY: the bytes are the block's until it has completed, on whichever thread it runs, and what
// keeps them alive may be sent and shared.
unsafe impl Send for Foreign {}
// SAFETY: a shared reference only reads them.
unsafe impl Sync for Foreign {}

impl Foreign {
    fn loan(&self) -> Option<&Arc<Loan>> {
        match &self.keeper {
            Keeper::Caller(loan) => Some(loan),
            Keeper::Owner { .. } => None,
        }
    }

    /// # Safety
    /// The bytes are readable, and no code writes them.
    unsafe fn slice(&self) -> &[u8] {
        match self.length {
            0 => &[],
            // SAFETY: as the caller promised.
            length => unsafe { std::slice::from_raw_parts(self.bytes, length) },
        }
    }
}
