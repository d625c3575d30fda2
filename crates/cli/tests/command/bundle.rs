use std::fs;

use spyre::compiler::{CompileOptions, Kernel};
use spyre::plans::{Bundle, CacheSettings, PlanCache};

use crate::bed::Bed;

#[test]
fn a_bundle_has_the_common_kernels_and_is_the_same_each_time() {
    let bed = Bed::new();
    let report = bed.json("bundle first");
    bed.fine("bundle second");
    let bytes = fs::read(bed.path("first")).expect("it was written");
    assert_eq!(bytes, fs::read(bed.path("second")).expect("it was written"));

    let bundle = Bundle::new(bytes).expect("a bundle");
    assert_eq!(report["plans"], bundle.len());
    let cache = PlanCache::new(CacheSettings::in_memory()).with_bundle(bundle);
    for text in spyre::aten::common_kernels() {
        let kernel: Kernel = text.parse().expect("a kernel");
        cache.plan(&kernel, &CompileOptions::default()).expect("a plan");
    }
    assert_eq!((cache.statistics().compiled, cache.statistics().broken), (0, 0));
}

#[test]
fn a_bundle_that_cannot_be_written_is_an_error_with_its_name() {
    let error = Bed::new().refusal("bundle nowhere/at/all");
    assert!(error.contains("nowhere/at/all"), "{error}");
}
