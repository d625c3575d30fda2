//! Ranks for tests: a store of files, ranks as threads, and calls that are waited for.
#![allow(dead_code, unsafe_code, reason = "each test uses a part; buffers are addresses")]

pub(crate) mod checks;
pub(crate) mod oracle;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use spyre_collectives::{
    CallOutcome, Collective, CollectiveCall, DeviceBuffer, Error, GroupOptions, KeyValueStore,
    ProcessGroup, ReduceOp,
};
use spyre_numerics::DataFormat;

/// Store in a folder, for threads and processes.
pub(crate) struct FileStore(pub(crate) PathBuf);

impl KeyValueStore for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let path = self.0.join(key.replace('/', "-"));
        let draft = path.with_extension("draft");
        fs::write(&draft, value)
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|error| error.to_string())
    }

    fn wait_get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, String> {
        let path = self.0.join(key.replace('/', "-"));
        let deadline = Instant::now() + timeout;
        loop {
            if let Ok(value) = fs::read(&path) {
                return Ok(value);
            }
            if Instant::now() > deadline {
                return Err(format!("not set within {timeout:?}"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A new folder for a store.
pub(crate) fn folder() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("spyreccl-{}-{number}", process::id()));
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// Options of a rank that meets the others in a folder.
pub(crate) fn options(folder: &Path, name: &str, rank: usize, size: usize) -> GroupOptions {
    let place = folder.join(name);
    fs::create_dir_all(&place).expect("a folder");
    let options = GroupOptions::new(name, rank, size, Box::new(FileStore(place)));
    GroupOptions { timeout: Duration::from_secs(60), ..options }
}

/// Runs `work` on each rank, as threads, and returns what they return.
pub(crate) fn on_ranks<T: Send>(
    size: usize,
    change: impl Fn(GroupOptions) -> GroupOptions + Sync,
    work: impl Fn(&Arc<ProcessGroup>) -> T + Sync,
) -> Vec<T> {
    let folder = folder();
    let results = thread::scope(|scope| {
        let ranks = (0..size).map(|rank| {
            let options = change(options(&folder, "world", rank, size));
            let work = &work;
            scope.spawn(move || {
                let group = ProcessGroup::connect(options).expect("ranks meet");
                let result = work(&group);
                group.shutdown();
                result
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    });
    let _ = fs::remove_dir_all(folder);
    results
}

/// Carries calls out as one, and waits for them.
pub(crate) fn run_all(
    group: &ProcessGroup,
    calls: Vec<CollectiveCall>,
) -> Result<CallOutcome, Error> {
    start(group, calls)?.recv().expect("`done` is called")
}

/// Carries a call out, and waits for it.
pub(crate) fn run(group: &ProcessGroup, call: CollectiveCall) -> Result<CallOutcome, Error> {
    run_all(group, vec![call])
}

/// Begins calls, whose result comes later.
pub(crate) fn start(
    group: &ProcessGroup,
    calls: Vec<CollectiveCall>,
) -> Result<mpsc::Receiver<Result<CallOutcome, Error>>, Error> {
    let (sender, receiver) = mpsc::channel();
    let pending = group.enqueue_all(
        calls,
        Box::new(move |result| {
            let _ = sender.send(result);
        }),
    )?;
    pending.ready();
    Ok(receiver)
}

/// A buffer over bytes that outlive the call.
pub(crate) fn buffer(bytes: &mut [u8]) -> DeviceBuffer {
    // SAFETY: tests keep the bytes until the call is over, and do not use them meanwhile.
    unsafe { DeviceBuffer::new(bytes.as_mut_ptr(), bytes.len(), bytes.len() as u64) }
}

/// A call of bytes.
pub(crate) fn call(
    collective: Collective,
    format: DataFormat,
    inputs: &mut [Vec<u8>],
    outputs: &mut [Vec<u8>],
) -> CollectiveCall {
    CollectiveCall {
        reduction: Some(ReduceOp::Sum),
        inputs: inputs.iter_mut().map(|bytes| buffer(bytes)).collect(),
        outputs: outputs.iter_mut().map(|bytes| buffer(bytes)).collect(),
        ..CollectiveCall::new(collective, format)
    }
}

/// Starts ranks as processes: this program, of which they run the test `process_of_a_rank` only.
pub(crate) fn spawn_ranks(folder: &Path, size: usize, variables: &[(&str, String)]) -> Vec<Child> {
    let ranks = (0..size).map(|rank| {
        Command::new(env::current_exe().expect("this program"))
            .args(["process_of_a_rank", "--exact", "--nocapture"])
            .env("SPYRE_CCL_TEST_FOLDER", folder)
            .env("SPYRE_CCL_TEST_RANK", rank.to_string())
            .env("SPYRE_CCL_TEST_SIZE", size.to_string())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .spawn()
            .expect("a process")
    });
    ranks.collect()
}

pub(crate) fn send(bytes: &mut [Vec<u8>], to: usize, tag: u32) -> CollectiveCall {
    CollectiveCall { root: to, tag, ..call(Collective::Send, DataFormat::UInt8, bytes, &mut []) }
}

pub(crate) fn receive(bytes: &mut [Vec<u8>], from: usize, tag: u32) -> CollectiveCall {
    CollectiveCall {
        root: from,
        tag,
        ..call(Collective::Receive, DataFormat::UInt8, &mut [], bytes)
    }
}

/// The last rank receives before it comes to a barrier; the first one's send is ready when it waits there.
pub(crate) fn begins_while_a_collective_waits(group: &Arc<ProcessGroup>) {
    let last = group.size() - 1;
    let mut bytes = [vec![7 + group.rank() as u8; 1000]];
    if group.rank() == last {
        run(group, receive(&mut bytes, 0, 0)).expect("received");
        assert_eq!(bytes[0], [7; 1000]);
    }
    let barrier = CollectiveCall::new(Collective::Barrier, DataFormat::UInt8);
    let over = start(group, vec![barrier]).expect("queued");
    if group.rank() == 0 {
        thread::sleep(Duration::from_millis(50));
        run(group, send(&mut bytes, last, 0)).expect("sent");
    }
    over.recv().expect("called").expect("barrier");
}
