//! Memory of other processes, read in place.
#![allow(unsafe_code, reason = "reads memory of other processes")]

use std::{fs, io};

/// Bytes that are read at a time: they stay in the second-level cache for the loop that uses them.
const READ_BYTES: usize = 1 << 20;

/// Fills `target` from memory of a process.
pub(crate) fn read_memory(pid: u32, address: usize, target: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < target.len() {
        let part = &mut target[done..];
        let bytes = part.len().min(READ_BYTES);
        let local = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: bytes };
        let remote =
            libc::iovec { iov_base: (address + done) as *mut libc::c_void, iov_len: bytes };
        // SAFETY: the local range is a slice that may be written; the remote one is checked by the system.
        let read = unsafe {
            libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
        };
        match read {
            1.. => done += read as usize,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Lets processes of this user read memory of this one, where the system asks for leave (Yama's scope 1).
pub(crate) fn allow_readers() {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "1" {
        // SAFETY: a call without pointers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
}
