//! Memory of one rank that the others of its machine map.
#![allow(unsafe_code, reason = "maps memory of other processes")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::slice;

use super::ControlPage;
use crate::Error;

/// Bytes of a slot, of which a segment has two: one round is read while the next is written.
pub(crate) const SLOT_BYTES: usize = 4 << 20;
/// Bytes of the area for parts of messages, where memory of peers cannot be read.
pub(crate) const STAGED_SEND_BYTES: usize = 1 << 20;

const CONTROL_BYTES: usize = size_of::<ControlPage>().next_multiple_of(1 << 16);
const SEGMENT_BYTES: usize = CONTROL_BYTES + 2 * SLOT_BYTES + STAGED_SEND_BYTES;

/// Control page and slots of one rank, mapped. It has no name: the last process that maps it frees it.
pub(crate) struct RankSegment {
    start: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping belongs to no thread. The control page is atomics; bytes of slots are written by their owner
// while no rank reads them, and read between two hand-overs.
unsafe impl Send for RankSegment {}
// SAFETY: as for `Send`.
unsafe impl Sync for RankSegment {}

impl RankSegment {
    /// A new segment with this number in it.
    pub(crate) fn create(nonce: u64) -> Result<Self, Error> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a string that ends in zero.
        let number = unsafe { libc::memfd_create(c"spyreccl".as_ptr(), flags) };
        if number < 0 {
            return Err(refused("memfd_create"));
        }
        // SAFETY: a new descriptor that no other value owns.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
        file.set_len(SEGMENT_BYTES as u64).map_err(|error| system("ftruncate", &error))?;
        // SAFETY: a call without pointers.
        if unsafe { libc::fcntl(number, libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(refused("fcntl(F_ADD_SEALS)"));
        }
        let segment = Self::map(file.into())?;
        segment.control().nonce.store(nonce, std::sync::atomic::Ordering::SeqCst);
        Ok(segment)
    }

    /// The segment of another process, by its descriptor there; it must have this number in it.
    pub(crate) fn open(pid: u32, number: RawFd, nonce: u64) -> Result<Self, Error> {
        let path = format!("/proc/{pid}/fd/{number}");
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file.into(),
            Err(error) => duplicate(pid, number).ok_or_else(|| system(&path, &error))?,
        };
        // SAFETY: a call without pointers.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let file = File::from(file);
        let bytes = file.metadata().map_err(|error| system("fstat", &error))?.len();
        let other = || Error::System {
            what: path.clone(),
            reason: "another file: its process has ended, or has another version".into(),
        };
        if seals & SEALS != SEALS || bytes != SEGMENT_BYTES as u64 {
            return Err(other());
        }
        let segment = Self::map(file.into())?;
        if segment.control().nonce.load(std::sync::atomic::Ordering::SeqCst) != nonce {
            return Err(other());
        }
        Ok(segment)
    }

    fn map(file: OwnedFd) -> Result<Self, Error> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice, of a file that cannot shrink.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SEGMENT_BYTES,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        let start = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        Ok(Self { start: start.ok_or_else(|| refused("mmap"))?, file })
    }

    /// Descriptor in the process that made or opened it.
    pub(crate) fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub(crate) fn control(&self) -> &ControlPage {
        // SAFETY: the mapping begins with a page, is aligned to pages, and lives as long as `self`; zeros are a
        // valid page, and all its fields are atomics.
        unsafe { self.start.cast::<ControlPage>().as_ref() }
    }

    /// Bytes of the slot of a round, to be read after all ranks have posted it.
    pub(crate) fn slot(&self, round: u64) -> &[u8] {
        // SAFETY: inside the mapping. The owner writes the slot of a round before it posts that round, and again
        // only when all ranks have posted the next one, after their last read of this one.
        unsafe { slice::from_raw_parts(self.slot_start(round), SLOT_BYTES) }
    }

    /// Writes into the own slot of a round that is not posted yet.
    pub(crate) fn write_slot(&self, round: u64, offset: usize, bytes: &[u8]) {
        assert!(offset <= SLOT_BYTES && bytes.len() <= SLOT_BYTES - offset, "inside a slot");
        // SAFETY: inside the mapping by the assertion; no rank reads the slot, as for `slot`.
        unsafe {
            ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.slot_start(round).add(offset),
                bytes.len(),
            );
        }
    }

    /// Bytes of the area for messages.
    pub(crate) fn staged_send(&self) -> &[u8] {
        // SAFETY: inside the mapping. The owner writes it before it posts a message that lies here, and again when
        // that message was taken.
        unsafe { slice::from_raw_parts(self.staged_start(), STAGED_SEND_BYTES) }
    }

    /// Writes into the own area for messages, while no message lies there.
    pub(crate) fn write_staged_send(&self, bytes: &[u8]) {
        assert!(bytes.len() <= STAGED_SEND_BYTES, "inside the area");
        // SAFETY: inside the mapping by the assertion; no rank reads it, as for `staged_send`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.staged_start(), bytes.len()) };
    }

    fn slot_start(&self, round: u64) -> *mut u8 {
        self.start.as_ptr().wrapping_add(CONTROL_BYTES + (round % 2) as usize * SLOT_BYTES)
    }

    fn staged_start(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(CONTROL_BYTES + 2 * SLOT_BYTES)
    }
}

impl Drop for RankSegment {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, so long; references into it ended with `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), SEGMENT_BYTES) };
    }
}

/// A process that shortens its file would end the others: it may not.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A descriptor of another process, where /proc is refused.
fn duplicate(pid: u32, number: RawFd) -> Option<OwnedFd> {
    // SAFETY: calls without pointers; what they return is a new descriptor, which no other value owns.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        if process < 0 {
            return None;
        }
        let process = OwnedFd::from_raw_fd(process);
        let file = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) as RawFd;
        (file >= 0).then(|| OwnedFd::from_raw_fd(file))
    }
}

fn refused(what: &str) -> Error {
    system(what, &io::Error::last_os_error())
}

fn system(what: &str, error: &io::Error) -> Error {
    Error::System { what: what.to_owned(), reason: error.to_string() }
}
