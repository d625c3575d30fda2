//! A folder to run the command in, and files to run it with.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A folder that goes when it is dropped.
pub(crate) struct Bed {
    folder: PathBuf,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) errors: String,
    pub(crate) code: Option<i32>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("spyre-cli-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self { folder }
    }

    /// A bed with the plan `matmul`, of tiles of 64 x 64 x 64.
    pub(crate) fn with_matmul() -> Self {
        let bed = Self::new();
        bed.fine("plan matmul --output matmul --tile 64,64,64");
        bed
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The command, not yet started, with none of the variables that it reads.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spyre"));
        command.args(arguments.split_whitespace()).current_dir(&self.folder);
        for variable in spyre::flex::Environment::VARIABLES {
            command.env_remove(variable);
        }
        command.env_remove("SPYRE_PROFILE");
        for variable in spyre::plans::CacheSettings::VARIABLES {
            command.env_remove(variable);
        }
        command.env("SPYRE_CACHE_DIR", "cache");
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Said {
        Said::of(&self.command(arguments).output().expect("it starts"))
    }

    /// Returns the output of a command that must work, and must complain of nothing.
    pub(crate) fn fine(&self, arguments: &str) -> String {
        let said = self.run(arguments);
        assert_eq!((said.code, &*said.errors), (Some(0), ""), "{arguments}: {said:?}");
        said.out
    }

    pub(crate) fn json(&self, arguments: &str) -> Value {
        let text = self.fine(&format!("{arguments} --json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments}: {error}: {text}"))
    }

    /// Returns the error of a command that must fail, on one line.
    pub(crate) fn refusal(&self, arguments: &str) -> String {
        let said = self.run(arguments);
        assert_eq!((said.code, &*said.out), (Some(1), ""), "{arguments}: {said:?}");
        assert_eq!(said.errors.lines().count(), 1, "{arguments}: {said:?}");
        let message = said.errors.trim_end().strip_prefix("error: ");
        message.unwrap_or_else(|| panic!("{said:?}")).to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// An `.npy` file of floats.
    pub(crate) fn npy(&self, name: &str, shape: &[usize], values: &[f32]) {
        let elements: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write(name, &npy("<f4", shape, &elements));
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // a folder that stays does no harm
    }
}

impl Said {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { out: text(&output.stdout), errors: text(&output.stderr), code: output.status.code() }
    }
}

/// The bytes of an `.npy` file, as NumPy writes them.
pub(crate) fn npy(descr: &str, shape: &[usize], elements: &[u8]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), elements].concat()
}

/// The elements in an `.npy` file of the first version.
pub(crate) fn npy_elements(bytes: &[u8]) -> &[u8] {
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    &bytes[10 + header..]
}

/// Numbers whose sums depend on their order.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let number = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(number).collect()
}

/// All that is in a folder, by name.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
