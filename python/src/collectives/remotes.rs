use std::ffi::c_void;
use std::time::Instant;

use spyre::collectives::Remote;

use super::Take;
use super::stores::take;

/// Gloo, as the other side calls it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TorchRemote {
    context: *mut c_void,
    /// Sends bytes, or receives them.
    transfer: extern "C" fn(
        context: *mut c_void,
        is_send: bool,
        peer: i32,
        tag: u32,
        bytes: *mut u8,
        count: usize,
        milliseconds: i64,
        sink: *mut c_void,
        take: Take,
    ) -> bool,
    abort: extern "C" fn(context: *mut c_void),
}

// SAFETY: the other side's functions may be called by any thread; it holds what they use as long as the group.
unsafe impl Send for TorchRemote {}

// SAFETY: as above: they may be called by several threads at once.
unsafe impl Sync for TorchRemote {}

impl TorchRemote {
    fn transfer(
        &self,
        is_send: bool,
        peer: usize,
        tag: u32,
        (bytes, count): (*mut u8, usize),
        deadline: Instant,
    ) -> Result<(), String> {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let milliseconds = i64::try_from(left).unwrap_or(i64::MAX).max(1);
        let mut answer: Vec<u8> = Vec::new();
        let sink = (&raw mut answer).cast();
        let peer = peer as i32;
        if (self.transfer)(self.context, is_send, peer, tag, bytes, count, milliseconds, sink, take)
        {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&answer).into_owned())
        }
    }
}

impl Remote for TorchRemote {
    fn send(&self, peer: usize, tag: u32, bytes: &[u8], deadline: Instant) -> Result<(), String> {
        self.transfer(true, peer, tag, (bytes.as_ptr().cast_mut(), bytes.len()), deadline)
    }

    fn receive(
        &self,
        peer: usize,
        tag: u32,
        bytes: &mut [u8],
        deadline: Instant,
    ) -> Result<(), String> {
        self.transfer(false, peer, tag, (bytes.as_mut_ptr(), bytes.len()), deadline)
    }

    fn abort(&self) {
        (self.abort)(self.context);
    }
}
