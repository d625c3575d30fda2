//! Memory is looked at for poison for as long as there may be any.

use std::sync::Arc;

use super::explore;
use crate::stream::poison::PoisonWatch;
use crate::sync::{AtomicBool, Ordering};

#[test]
fn loom_a_failure_is_watched_for_though_another_one_ends() {
    explore("watch, a failure", None, || {
        let watch = Arc::new(PoisonWatch::default());
        let is_failing = Arc::new(AtomicBool::new(false));
        watch.set(); // for the failure that ends
        let failing = loom::thread::spawn({
            let watch = Arc::clone(&watch);
            let is_failing = Arc::clone(&is_failing);
            move || {
                is_failing.store(true, Ordering::SeqCst);
                watch.set();
            }
        });
        watch.update(|| is_failing.load(Ordering::SeqCst));
        failing.join().expect("it ends");
        assert!(watch.is_set());
    });
}

#[test]
fn loom_poison_is_watched_for_while_another_stream_looks_whether_it_must_be() {
    explore("watch, a look", None, || {
        let watch = Arc::new(PoisonWatch::default());
        watch.set();
        let looking = loom::thread::spawn({
            let watch = Arc::clone(&watch);
            move || watch.update(|| true)
        });
        assert!(watch.is_set());
        looking.join().expect("it ends");
        assert!(watch.is_set());
    });
}
