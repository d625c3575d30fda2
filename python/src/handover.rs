//! Objects on their way between Python and the shim: the dispatcher between them carries numbers.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::failure::Failure;

/// Objects that one side has handed over and the other has not taken.
struct Handover {
    objects: HashMap<i64, Arc<dyn Any + Send + Sync>>,
    next: i64,
}

static HANDOVER: Mutex<Option<Handover>> = Mutex::new(None);

/// A number to take the object with, once.
pub(crate) fn hand<T: Any + Send + Sync>(object: Arc<T>) -> i64 {
    let mut handover = HANDOVER.lock();
    let handover = handover.get_or_insert_with(|| Handover { objects: HashMap::new(), next: 1 });
    let number = handover.next;
    handover.next += 1;
    handover.objects.insert(number, object);
    number
}

/// The object of this type that was handed over under a number.
pub(crate) fn take<T: Any + Send + Sync>(number: i64) -> Result<Arc<T>, Failure> {
    let object = HANDOVER.lock().as_mut().and_then(|handover| handover.objects.remove(&number));
    object.and_then(|object| object.downcast().ok()).ok_or_else(|| {
        Failure::runtime(format!("nothing of this kind was handed over as number {number}"))
    })
}
