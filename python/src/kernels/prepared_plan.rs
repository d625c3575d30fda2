use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::SystemTime;

use parking_lot::Mutex;
use smallvec::SmallVec;
use spyre::artifact::CompilerOutput;
use spyre::aten;
use spyre::hal::StreamPoint;
use spyre::runtime::{JobPlan, SpyreStream, SpyreTensor};

use super::{KnownLaunch, Launch, Origin, note_launch};
use crate::abi::{SpyreView, tensor_as_seen};
use crate::cards::{self, Card};
use crate::failure::Failure;
use crate::native::{CardLayouts, shapes};
use crate::recording;

/// A plan that lies on a card.
#[derive(Debug)]
pub(crate) struct PreparedPlan {
    /// Number by which ops of the dispatcher name it.
    pub(crate) number: i64,
    /// The card's number.
    pub(crate) device: i32,
    /// The plan.
    pub(crate) job: JobPlan,
}

/// Time of writing, length and inode number of a folder's file: another plan has another stamp.
type Stamp = (Option<SystemTime>, u64, u64);

/// Plans that were prepared from folders, by folder and card.
type Folders = HashMap<(PathBuf, i32), (Stamp, Arc<PreparedPlan>)>;

static PLANS: LazyLock<Mutex<HashMap<i64, Weak<PreparedPlan>>>> = LazyLock::new(Mutex::default);
static FOLDERS: LazyLock<Mutex<Folders>> = LazyLock::new(Mutex::default);

impl PreparedPlan {
    /// Reads a folder and copies its programs to a card, by way of one of its streams.
    pub(crate) fn prepare(folder: &Path, device: i32, stream: i64) -> Result<Arc<Self>, Failure> {
        let card = cards::card(device)?;
        Ok(Self::of(card, JobPlan::prepare(folder, card.stream(stream)?)?))
    }

    /// Copies what was compiled to a card, by way of one of its streams.
    pub(crate) fn of_output(
        output: CompilerOutput,
        device: i32,
        stream: i64,
    ) -> Result<Arc<Self>, Failure> {
        let card = cards::card(device)?;
        Ok(Self::of(card, JobPlan::of_output(output, card.stream(stream)?)?))
    }

    fn of(card: &Card, job: JobPlan) -> Arc<Self> {
        static NEXT: AtomicI64 = AtomicI64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let plan = Arc::new(Self { number, device: i32::from(card.index().0), job });
        PLANS.lock().insert(number, Arc::downgrade(&plan));
        plan
    }

    /// Queues it on the calling thread's stream. What asks for it is named if it fails later.
    pub(crate) fn launch(
        &self,
        views: &[SpyreView<'_>],
        scalars: &[u64],
        origin: Origin,
    ) -> Result<(), Failure> {
        let card = cards::card(self.device)?;
        let stream = card.current_stream()?;
        let before = stream.flex().last_point();
        let known = KnownLaunch::find(self, views, scalars);
        let last = match known.launch(stream, views)? {
            Some(last) => last,
            None => {
                let tensors = as_seen(card, views)?;
                let last = self.queue(stream, &tensors, scalars)?;
                known.keep(self, stream, &tensors, views, scalars);
                last
            }
        };
        note_launch(Launch { before, last, origin });
        Ok(())
    }

    /// Queues it as a real card would: what it needs otherwise is restickified before, and its results lie as it leaves
    /// them. `launch` describes it; `wholes` are the tensors that `views` are parts of, and those that are `fixed`
    /// keep their layouts.
    pub(crate) fn launch_laid_out(
        &self,
        launch: &aten::Launch,
        views: &[SpyreView<'_>],
        (wholes, fixed): (&[SpyreView<'_>], &[bool]),
        origin: Origin,
    ) -> Result<(), Failure> {
        let card = cards::card(self.device)?;
        let stream = card.current_stream()?;
        let mut tensors = as_seen(card, views)?;
        let kept = (0..views.len()).filter(|&at| fixed[at]);
        let mut layouts = CardLayouts::new(card, &[], wholes).with_fixed(kept);
        layouts.arrange(launch, &mut tensors)?;
        let before = stream.flex().last_point();
        let last = self.queue(stream, &tensors, &launch.scalars)?;
        layouts.commit();
        note_launch(Launch { before, last, origin });
        Ok(())
    }

    fn queue(
        &self,
        stream: &SpyreStream,
        tensors: &[SpyreTensor],
        scalars: &[u64],
    ) -> Result<StreamPoint, Failure> {
        let queue = || Ok(self.job.launch(stream, tensors, scalars)?);
        recording::noted(stream, true, || shapes(tensors), queue)
    }

    /// Name of the plan: that of its first Operation, or else the folder's.
    pub(crate) fn name(&self) -> String {
        let plan = self.job.plan();
        let first = plan.and_then(|plan| plan.operations().first());
        first.map_or_else(
            || self.job.folder().display().to_string(),
            |operation| operation.name().to_owned(),
        )
    }
}

fn as_seen(card: &Card, views: &[SpyreView<'_>]) -> Result<SmallVec<[SpyreTensor; 8]>, Failure> {
    views.iter().map(|view| tensor_as_seen(card, view)).collect()
}

impl Drop for PreparedPlan {
    fn drop(&mut self) {
        PLANS.lock().remove(&self.number);
    }
}

/// The plan of this number.
pub(crate) fn find(number: i64) -> Result<Arc<PreparedPlan>, Failure> {
    let plan = PLANS.lock().get(&number).and_then(Weak::upgrade);
    plan.ok_or_else(|| Failure::runtime(format!("there is no prepared plan of number {number}")))
}

/// The plan in a folder, prepared if it is not: once for each card, and again when the folder has
/// another.
pub(crate) fn of_folder(folder: &Path, device: i32) -> Result<Arc<PreparedPlan>, Failure> {
    let folder = path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let stamp = stamp(&folder);
    let key = (folder.clone(), device);
    if let Some((known, plan)) = FOLDERS.lock().get(&key)
        && *known == stamp
        && plan.job.is_live()
    {
        return Ok(Arc::clone(plan));
    }
    let plan = PreparedPlan::prepare(&folder, device, i64::from(cards::current_stream(device)))?;
    let replaced = FOLDERS.lock().insert(key, (stamp, Arc::clone(&plan)));
    drop(replaced); // not while the lock is held
    Ok(plan)
}

fn stamp(folder: &Path) -> Stamp {
    let files = ["spyrecode.json", "plan.json"].map(|name| fs::metadata(folder.join(name)).ok());
    let file = files.into_iter().flatten().next();
    file.map_or((None, 0, 0), |file| (file.modified().ok(), file.len(), file.ino()))
}
