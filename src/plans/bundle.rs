use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use spyre_compiler::{CompileOptions, Kernel};

use super::archive::{self, Archive};
use super::key::{KeyHashing, PlanKey};
use super::source::Source;
use super::{EntryFlaw, PlanError, entry};

const MAGIC: &[u8; 8] = b"SPYRPLNS";

/// Plans that were compiled beforehand, as one piece of bytes: a file of a package, or a part of a
/// program. It is only read.
///
/// ```
/// use spyre::compiler::{CompileOptions, Kernel};
/// use spyre::plans::{Bundle, CacheSettings, PlanCache};
///
/// let kernel: Kernel = "kernel double(i) {
///     in x: float32[i]
///     out y: float32[i]
///     y = x * 2
/// }".parse()?;
/// let options = CompileOptions::default();
/// let bytes = Bundle::compile([(&kernel, &options)])?; // when a package is built
///
/// let bundle = Bundle::new(bytes)?; // when it is used
/// let cache = PlanCache::new(CacheSettings::in_memory()).with_bundle(bundle);
/// cache.plan(&kernel, &options)?;
/// assert_eq!((cache.statistics().bundle_hits, cache.statistics().compiled), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Bundle {
    bytes: Cow<'static, [u8]>,
    entries: HashMap<PlanKey, Range<usize>, KeyHashing>,
}

impl Bundle {
    /// Reads where each plan is; the plans themselves are looked at when they are asked for.
    pub fn new(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self, EntryFlaw> {
        let bytes = bytes.into();
        let rest = bytes.strip_prefix(MAGIC).ok_or(EntryFlaw::Form)?;
        let mut entries = HashMap::default();
        for (name, Range { start, end }) in Archive::decode(rest)?.files() {
            let place = MAGIC.len() + start..MAGIC.len() + end;
            entries.insert(name.parse().map_err(|_| EntryFlaw::Form)?, place);
        }
        Ok(Self { bytes, entries })
    }

    /// The bytes of a bundle with the plans of these kernels.
    pub fn compile<'a>(
        kernels: impl IntoIterator<Item = (&'a Kernel, &'a CompileOptions)>,
    ) -> Result<Vec<u8>, PlanError> {
        let mut files = Vec::new();
        for (kernel, options) in kernels {
            let source = Source::new(kernel, options);
            let plan = kernel.compile(options)?;
            let bytes = entry::encode(&source, &plan);
            files.push((
                source.key().to_string(),
                bytes.map_err(spyre_compiler::CompileError::from)?,
            ));
        }
        files.sort();
        files.dedup();
        let mut bytes = MAGIC.to_vec();
        archive::encode(&mut bytes, &files);
        Ok(bytes)
    }

    /// The bytes of a bundle with the plans of the kernels that most programs of PyTorch begin with.
    pub fn compile_common(options: &CompileOptions) -> Result<Vec<u8>, PlanError> {
        let kernels: Result<Vec<Kernel>, _> =
            spyre_aten::common_kernels().iter().map(|text| text.parse()).collect();
        Self::compile(kernels?.iter().map(|kernel| (kernel, options)))
    }

    /// Number of its plans.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if it has no plans.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes of an entry, if there is one.
    pub(super) fn read(&self, key: &PlanKey) -> Option<&[u8]> {
        self.bytes.get(self.entries.get(key)?.clone())
    }
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bundle({} plans, {} bytes)", self.len(), self.bytes.len())
    }
}
