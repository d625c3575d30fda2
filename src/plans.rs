//! Plans that are made once: kept in memory, in a folder that processes share, and in bundles that
//! ship with a program.
//!
//! A plan is found by its [`PlanKey`], a digest of all that it depends on: the kernel's text, what it
//! is compiled for, the compiler and the form of plans. So no plan is ever out of date, and a change needs
//! no invalidation.
//!
//! ```
//! use spyre::compiler::{CompileOptions, Kernel};
//! use spyre::plans::{CacheSettings, PlanCache, PlanKey};
//!
//! let text = "kernel double(i) {
//!     in x: float32[i]
//!     out y: float32[i]
//!     y = x * 2
//! }";
//! let cache = PlanCache::new(CacheSettings::in_memory());
//! let options = CompileOptions::default();
//! let plan = cache.plan_of_text(text, &options)?; // compiled
//! let kernel: Kernel = text.parse()?;
//! let again = cache.plan(&kernel, &options)?; // the same one
//! assert!(std::sync::Arc::ptr_eq(&plan, &again));
//!
//! let key = PlanKey::new(&kernel, &options); // for those who ask often
//! assert!(cache.find(&key).is_some());
//! assert_eq!(cache.statistics().compiled, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod bundle;
mod cache;
mod entry;
mod error;
mod folder;
mod key;
mod memory;
mod settings;
mod source;

pub use bundle::Bundle;
pub use cache::{CacheStatistics, PlanCache};
pub use entry::EntryFlaw;
pub use error::{PlanError, SettingsError};
pub use folder::{CacheFolder, Cleared, KeptPlan, MadeFrom};
pub use key::{NoKey, PlanKey};
pub use settings::CacheSettings;
