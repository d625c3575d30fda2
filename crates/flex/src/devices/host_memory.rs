use std::fs;
use std::path::{Path, PathBuf};

/// Sources of how much memory the host has left: `/proc/meminfo` and the control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMemory {
    root: PathBuf,
}

/// The file names of one version of control groups.
struct Group {
    limit: &'static str,
    used: &'static str,
    /// The field of `memory.stat` with pages of files that go when memory is asked for.
    reclaimable: &'static str,
}

const VERSION_1: Group = Group {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

const VERSION_2: Group =
    Group { limit: "memory.max", used: "memory.current", reclaimable: "inactive_file " };

impl Default for HostMemory {
    /// This host.
    fn default() -> Self {
        Self::under("/")
    }
}

impl HostMemory {
    /// A host whose `proc` and `sys` lie in another directory.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The bytes that can still be used without swapping, or being killed; `None` if unknown.
    ///
    /// A group inside another is held to the limits of both, so the least of all counts.
    pub fn available_bytes(&self) -> Option<u64> {
        let meminfo = self.read("proc/meminfo")?;
        let available_bytes = field(&meminfo, "MemAvailable:")?.saturating_mul(1024);
        self.rooms().into_iter().chain([available_bytes]).min()
    }

    /// Bytes that every control group of this process has left.
    fn rooms(&self) -> Vec<u64> {
        let groups = self.read("proc/self/cgroup").unwrap_or_default();
        groups.lines().flat_map(|line| self.rooms_of(line)).collect()
    }

    /// A line is `number:controllers:path`; version 2 has no controllers.
    fn rooms_of(&self, line: &str) -> Vec<u64> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            return Vec::new();
        };
        match controllers {
            "" => self.rooms_along("sys/fs/cgroup", path, &VERSION_2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                self.rooms_along("sys/fs/cgroup/memory", path, &VERSION_1)
            }
            _ => Vec::new(),
        }
    }

    /// Bytes left in each group up to the root: in a container the path may be one that only the
    /// host has.
    fn rooms_along(&self, mount: &str, path: &str, group: &Group) -> Vec<u64> {
        let mount = self.root.join(mount);
        let ancestors = Path::new(path.trim_start_matches('/')).ancestors();
        ancestors.filter_map(|path| group.room(&mount.join(path))).collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}

impl Group {
    /// Bytes that a group has left. `max`, or no such file, is no limit.
    fn room(&self, directory: &Path) -> Option<u64> {
        let read = |name| fs::read_to_string(directory.join(name)).ok();
        let limit: u64 = read(self.limit)?.trim().parse().ok()?;
        let used: u64 = read(self.used)?.trim().parse().ok()?;
        let statistics = read("memory.stat").unwrap_or_default();
        let reclaimable = field(&statistics, self.reclaimable).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
    }
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
