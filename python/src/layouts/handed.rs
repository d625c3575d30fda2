//! Layouts on their way between Python and the shim: the dispatcher between them carries numbers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use spyre::layout::SpyreTensorLayout;

use crate::failure::Failure;

/// What one side has handed over and the other has not taken.
struct Handed {
    layouts: HashMap<i64, Arc<SpyreTensorLayout>>,
    next: i64,
}

static HANDED: Mutex<Option<Handed>> = Mutex::new(None);

/// A number to take the layout with, once.
pub(crate) fn hand(layout: Arc<SpyreTensorLayout>) -> i64 {
    let mut handed = HANDED.lock();
    let handed = handed.get_or_insert_with(|| Handed { layouts: HashMap::new(), next: 1 });
    let number = handed.next;
    handed.next += 1;
    handed.layouts.insert(number, layout);
    number
}

/// What was handed over under a number.
pub(crate) fn take(number: i64) -> Result<Arc<SpyreTensorLayout>, Failure> {
    let mut handed = HANDED.lock();
    let layout = handed.as_mut().and_then(|handed| handed.layouts.remove(&number));
    layout.ok_or_else(|| Failure::runtime(format!("no layout was handed over as number {number}")))
}
