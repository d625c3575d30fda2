use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use spyre_flex::parse_bytes;

use super::SettingsError;

/// The variables that say where plans are kept.
const SWITCH: &str = "SPYRE_CACHE";
const FOLDER: &str = "SPYRE_CACHE_DIR";
const BYTES: &str = "SPYRE_CACHE_BYTES";

/// Folder in which plans are kept, and limits.
///
/// | variable | what it says |
/// |---|---|
/// | `SPYRE_CACHE` | `0`: in memory only |
/// | `SPYRE_CACHE_DIR` | the folder; else `spyre` in `XDG_CACHE_HOME`, or in `~/.cache` |
/// | `SPYRE_CACHE_BYTES` | how large the folder may be: bytes, or `64M`, `1G`; else 256 MiB |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// The folder that processes share; `None` for memory only.
    pub folder: Option<PathBuf>,
    /// The most bytes of the folder: what was not used for the longest time goes first.
    pub most_bytes: u64,
    /// The most plans in memory.
    pub most_plans: usize,
}

impl CacheSettings {
    /// The variables that are read, those of the home folder aside.
    pub const VARIABLES: [&str; 3] = [SWITCH, FOLDER, BYTES];

    /// Memory only.
    pub fn in_memory() -> Self {
        Self { folder: None, most_bytes: 256 << 20, most_plans: 16 << 10 }
    }

    /// A folder, too.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), ..Self::in_memory() }
    }

    /// Settings from the environment.
    pub fn from_environment() -> Result<Self, SettingsError> {
        Self::from_variables(|name| env::var_os(name))
    }

    /// Settings from the variables that `variable` gives.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SettingsError> {
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        let folder = if is_on(text(SWITCH))? { folder(&variable) } else { None };
        let most_bytes = match text(BYTES).filter(|value| !value.trim().is_empty()) {
            None => Self::in_memory().most_bytes,
            Some(value) => parse_bytes(&value).ok_or(SettingsError::Bytes { value })?,
        };
        Ok(Self { folder, most_bytes, ..Self::in_memory() })
    }
}

fn is_on(value: Option<String>) -> Result<bool, SettingsError> {
    match value.as_deref().map(str::trim) {
        None | Some("" | "1") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err(SettingsError::Switch { value: value.unwrap_or_default() }),
    }
}

/// Relative names in variables of the home folder mean nothing, as the XDG specification has it.
fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let given = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = |name| given(name).filter(|path| path.is_absolute());
    let under = |folder: &Path| folder.join("spyre");
    given(FOLDER)
        .or_else(|| home("XDG_CACHE_HOME").map(|folder| under(&folder)))
        .or_else(|| home("HOME").map(|folder| under(&folder.join(".cache"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<CacheSettings, SettingsError> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        CacheSettings::from_variables(|name| value(name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_folder_is_the_first_that_is_named() {
        let all = [("SPYRE_CACHE_DIR", "here"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/home/me")];
        let folder = |variables| of(variables).map(|settings| settings.folder);
        assert_eq!(folder(&all), Ok(Some("here".into())));
        assert_eq!(folder(&all[1..]), Ok(Some("/x/spyre".into())));
        assert_eq!(folder(&all[2..]), Ok(Some("/home/me/.cache/spyre".into())));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "x"), ("HOME", "")]), Ok(None));
        assert_eq!(folder(&[("SPYRE_CACHE", "0"), all[0]]), Ok(None));
    }

    #[test]
    fn sizes_have_units() {
        let most = |value| of(&[("SPYRE_CACHE_BYTES", value)]).map(|settings| settings.most_bytes);
        assert_eq!((most(""), most(" 1024 ")), (Ok(256 << 20), Ok(1024)));
        assert_eq!((most("64M"), most("1 GiB"), most("0")), (Ok(64 << 20), Ok(1 << 30), Ok(0)));
        let error = most("much").expect_err("no number");
        assert!(error.to_string().contains("\"much\": give a number of bytes"), "{error}");
        assert!(most("99999999999T").is_err());
        assert!(of(&[("SPYRE_CACHE", "off")]).is_err());
    }
}
