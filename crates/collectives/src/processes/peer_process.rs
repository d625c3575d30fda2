//! Process of a rank, watched by a descriptor.
#![allow(unsafe_code, reason = "asks the system for processes")]

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// Process of another rank of this machine.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    pid: u32,
    start: u64,
    /// Descriptor that is readable once the process has ended; where there is none, /proc is read.
    file: Option<OwnedFd>,
}

impl PeerProcess {
    /// The process with this number that started at this time.
    pub(crate) fn open(pid: u32, start: u64) -> Self {
        // SAFETY: a call without pointers; its result is a new descriptor.
        let file = unsafe {
            let file = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
            (file >= 0).then(|| OwnedFd::from_raw_fd(file))
        };
        Self { pid, start, file }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(0)
    }

    /// Waits for the end of a process, at most so long.
    ///
    /// One that is about to end has no memory left already, but counts as alive for a moment.
    pub(crate) fn ends_within(&self, milliseconds: i32) -> bool {
        let Some(file) = &self.file else {
            return start_of(self.pid) != Some(self.start);
        };
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is alive.
        unsafe { libc::poll(&raw mut poll, 1, milliseconds) > 0 }
    }

    /// Returns how an ended process ended, as far as the system says it.
    pub(crate) fn end(&self) -> String {
        let status = self.zombie_status().or_else(|| self.reaped_status());
        let Some(status) = status else { return "has ended".into() };
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            return format!("was killed ({})", signal_name(signal));
        }
        format!("has ended (exit code {})", libc::WEXITSTATUS(status))
    }

    /// The exit status of a process that its parent has not asked for yet: the last field of its line.
    fn zombie_status(&self) -> Option<i32> {
        let fields = stat_fields(self.pid)?;
        let is_same = fields.get(19)?.parse() == Ok(self.start);
        if is_same && fields[0] == "Z" { fields.get(49)?.parse().ok() } else { None }
    }

    /// The exit status of a process that is gone, which newer systems keep with its descriptor.
    fn reaped_status(&self) -> Option<i32> {
        const EXIT: u64 = 1 << 3;
        // `PIDFD_GET_INFO`: number 11 of the descriptors' calls, with 64 bytes that go both ways.
        const GET_INFO: u64 = 0xC040_FF0B;
        let mut words = [0_u64; 8];
        words[0] = EXIT;
        let file = self.file.as_ref()?.as_raw_fd();
        // SAFETY: the system reads and writes the 64 bytes that the number of the call says.
        let result = unsafe { libc::ioctl(file, GET_INFO as libc::Ioctl, words.as_mut_ptr()) };
        // A mask, a cgroup, then twelve words of 32 bits, the last of which is the status.
        (result == 0 && words[0] & EXIT != 0).then_some((words[7] >> 32) as i32)
    }

    /// Returns the state of a process that lives: `running`, `stopped` ..
    pub(crate) fn state(&self) -> &'static str {
        let Some(fields) = stat_fields(self.pid) else { return "gone" };
        match fields.first().map(String::as_str) {
            Some("T" | "t") => "stopped (T)",
            Some("R") => "running",
            Some("S") => "sleeping",
            Some("D") => "waiting for a device (D)",
            Some("Z" | "X") => "ended",
            _ => "in an unknown state",
        }
    }
}

/// Time at which a process started, in ticks since boot.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    stat_fields(pid)?.get(19)?.parse().ok()
}

/// Number of the namespace in which this process has its number.
pub(crate) fn namespace_of_pids() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

/// Fields of a process's line from the third on; the second is a name that may hold anything.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &line[line.rfind(')')? + 1..];
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        _ => return format!("signal {signal}"),
    };
    name.into()
}
