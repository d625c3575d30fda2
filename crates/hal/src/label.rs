use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

/// Name that a caller gives a launch. Names are kept once for the whole process; the default has none.
///
/// ```
/// use spyre_hal::Label;
///
/// let label = Label::named("matmul");
/// assert_eq!(label, Label::named("matmul"));
/// assert_eq!(label.to_string(), "matmul");
/// assert_eq!(Label::default().name(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label(u32);

#[derive(Default)]
struct Names {
    by_label: Vec<Arc<str>>,
    labels: HashMap<Arc<str>, Label>,
}

static NAMES: LazyLock<RwLock<Names>> = LazyLock::new(RwLock::default);

impl Label {
    /// The label of a name.
    pub fn named(name: &str) -> Self {
        if let Some(&label) = NAMES.read().labels.get(name) {
            return label;
        }
        let names = &mut *NAMES.write();
        *names.labels.entry(name.into()).or_insert_with_key(|name| {
            names.by_label.push(Arc::clone(name));
            Self(names.by_label.len() as u32)
        })
    }

    /// Its name, if it has one.
    pub fn name(self) -> Option<Arc<str>> {
        let at = (self.0 as usize).checked_sub(1)?;
        NAMES.read().by_label.get(at).cloned()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().as_deref().unwrap_or_default())
    }
}
