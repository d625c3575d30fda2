//! Times of collectives among processes of this machine, beside a copy of as many bytes.
//!
//! `cargo run --release -p spyre-collectives --example collective-times -- 2`, where 2 is the number of ranks.
#![allow(
    unsafe_code,
    clippy::print_stdout,
    reason = "buffers are addresses; the output is a table"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use spyre_collectives::{
    Collective, CollectiveCall, DeviceBuffer, GroupOptions, KeyValueStore, ProcessGroup, ReduceOp,
};
use spyre_numerics::DataFormat;

const RANK: &str = "SPYRE_CCL_TIMES_RANK";
const FOLDER: &str = "SPYRE_CCL_TIMES_FOLDER";
const SIZES: [usize; 8] = [8, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

fn main() {
    let size: usize = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    if let Ok(rank) = env::var(RANK) {
        let folder = PathBuf::from(env::var_os(FOLDER).expect("a folder"));
        measure(&folder, rank.parse().expect("a number"), size);
        return;
    }
    let folder = env::temp_dir().join(format!("spyreccl-times-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let ranks = (0..size).map(|rank| {
        Command::new(env::current_exe().expect("this program"))
            .args(env::args().skip(1))
            .env(RANK, rank.to_string())
            .env(FOLDER, &folder)
            .spawn()
            .expect("a process")
    });
    let ranks: Vec<_> = ranks.collect();
    for mut rank in ranks {
        rank.wait().expect("a process");
    }
    let _ = fs::remove_dir_all(folder);
}

fn measure(folder: &Path, rank: usize, size: usize) {
    let store = Box::new(FileStore(folder.to_owned()));
    let group = ProcessGroup::connect(GroupOptions::new("times", rank, size, store));
    let group = group.expect("ranks meet");
    let say = |text: String| {
        if rank == 0 {
            println!("{text}");
        }
    };
    say(format!("{size} ranks, float32; microseconds, least / median"));
    say(format!(
        "{:>10} {:>20} {:>20} {:>20} {:>20} {:>20}",
        "bytes", "all_reduce", "all_gather", "all_to_all", "broadcast", "memcpy"
    ));
    for bytes in SIZES {
        let mut line = format!("{bytes:>10}");
        let mut input = vec![0_u8; bytes];
        let mut output = vec![0_u8; bytes * size];
        let whole = buffers(&mut input, 1);
        for collective in [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::AllToAll,
            Collective::Broadcast,
        ] {
            let mut call = CollectiveCall::new(collective, DataFormat::IeeeFp32);
            call.reduction = Some(ReduceOp::Sum);
            match collective {
                Collective::AllGather => {
                    call.inputs = whole.clone();
                    call.outputs = buffers(&mut output, size);
                }
                Collective::AllToAll if bytes >= 4 * size => {
                    call.inputs = buffers(&mut input, size);
                    call.outputs = buffers(&mut output[..bytes], size);
                }
                Collective::AllToAll => {
                    line += &format!(" {:>20}", "-");
                    continue;
                }
                Collective::Broadcast if rank == 0 => call.inputs = whole.clone(),
                Collective::Broadcast => call.outputs = whole.clone(),
                _ => {
                    call.inputs = whole.clone();
                    call.outputs = whole.clone();
                }
            }
            line += &times(bytes, || run(&group, call.clone()));
        }
        line += &times(bytes, || output[..bytes].copy_from_slice(std::hint::black_box(&input)));
        say(line);
    }
}

/// Least and median time of some runs.
fn times(bytes: usize, mut work: impl FnMut()) -> String {
    let runs = if bytes >= 16 << 20 { 10 } else { 200 };
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    format!(" {:>20}", format!("{:.1} / {:.1}", times[0], times[times.len() / 2]))
}

fn run(group: &ProcessGroup, call: CollectiveCall) {
    let (sender, receiver) = mpsc::channel();
    let done = Box::new(move |result| {
        let _ = sender.send(result);
    });
    group.enqueue(call, done).expect("queued").ready();
    receiver.recv().expect("called").expect("carried out");
}

fn buffers(bytes: &mut [u8], count: usize) -> Vec<DeviceBuffer> {
    let part = bytes.len() / count / 4 * 4;
    let parts = bytes.chunks_exact_mut(part).take(count);
    // SAFETY: the bytes outlive the calls, which are waited for, and are not used meanwhile.
    parts.map(|part| unsafe { DeviceBuffer::new(part.as_mut_ptr(), part.len(), 0) }).collect()
}

/// Store in a folder.
struct FileStore(PathBuf);

impl KeyValueStore for FileStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let path = self.0.join(key.replace('/', "-"));
        let draft = path.with_extension("draft");
        let result = fs::write(&draft, value).and_then(|()| fs::rename(&draft, &path));
        result.map_err(|error| error.to_string())
    }

    fn wait_get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, String> {
        let path = self.0.join(key.replace('/', "-"));
        let deadline = Instant::now() + timeout;
        loop {
            match fs::read(&path) {
                Ok(value) => return Ok(value),
                Err(error) if Instant::now() > deadline => return Err(error.to_string()),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}
