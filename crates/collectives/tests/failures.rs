//! Ranks that do wrong, leave, stop or die.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use spyre_collectives::{Collective, CollectiveCall, Error, GroupOptions, ProcessGroup};
use spyre_numerics::DataFormat;

use support::{call, on_ranks, options, run, start};

const FLOATS: DataFormat = DataFormat::IeeeFp32;

fn all_reduce(group: &ProcessGroup, bytes: usize) -> Result<(), Error> {
    let mut inputs = [vec![0; bytes]];
    let mut outputs = [vec![0; bytes]];
    run(group, call(Collective::AllReduce, FLOATS, &mut inputs, &mut outputs)).map(|_| ())
}

fn barrier(group: &ProcessGroup) -> Result<(), Error> {
    run(group, CollectiveCall::new(Collective::Barrier, FLOATS)).map(|_| ())
}

#[test]
fn a_mismatch_is_reported_by_every_rank_with_both_descriptions() {
    let errors = on_ranks(
        3,
        |options| options,
        |group| {
            all_reduce(group, 64).expect("equal calls");
            let before = Instant::now();
            let error =
                all_reduce(group, if group.rank() == 1 { 32 } else { 64 }).expect_err("sizes");
            assert!(before.elapsed() < Duration::from_secs(20), "at once");
            assert_eq!(all_reduce(group, 64).expect_err("the group has failed"), error);
            assert_eq!(group.last_error(), Some(error.clone()));
            error
        },
    );
    for error in errors {
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("rank 1 called all_reduce #2 of 32 elements"), "{text}");
        assert!(text.contains("all_reduce #2 of 64 elements (64 bytes) IEEE_FP32, SUM"), "{text}");
    }
}

#[test]
fn other_operations_and_formats_are_mismatches() {
    let errors = on_ranks(
        2,
        |options| options,
        |group| {
            if group.rank() == 0 { barrier(group) } else { all_reduce(group, 8) }
        },
    );
    for error in errors {
        let text = error.expect_err("different operations").to_string();
        assert!(text.contains("barrier #1") && text.contains("all_reduce #1"), "{text}");
    }
    let errors = on_ranks(
        2,
        |options| options,
        |group| {
            let format = if group.rank() == 0 { FLOATS } else { DataFormat::IeeeInt32 };
            let mut inputs = [vec![0; 8]];
            let mut outputs = [vec![0; 8]];
            run(group, call(Collective::AllReduce, format, &mut inputs, &mut outputs))
        },
    );
    for error in errors {
        let text = error.expect_err("different formats").to_string();
        assert!(text.contains("IEEE_FP32") && text.contains("IEEE_INT32"), "{text}");
    }
    let errors = on_ranks(
        3,
        |options| options,
        |group| {
            let bytes = |pair: (usize, usize)| if pair == (0, 2) { 8 } else { 4 };
            let mut inputs: Vec<_> = (0..3).map(|to| vec![0; bytes((group.rank(), to))]).collect();
            let mut outputs = vec![vec![0; 4]; 3];
            run(group, call(Collective::AllToAll, FLOATS, &mut inputs, &mut outputs))
        },
    );
    for error in errors {
        let text = error.expect_err("sizes of one pair").to_string();
        assert!(text.contains("rank 0 gives rank 2 8 bytes, which expects 4"), "{text}");
    }
}

#[test]
fn a_mistake_of_the_caller_queues_nothing() {
    on_ranks(
        2,
        |options| options,
        |group| {
            let mut inputs = [vec![0; 8]];
            let mut outputs = [vec![0; 4]];
            let uneven = call(Collective::AllReduce, FLOATS, &mut inputs, &mut outputs);
            assert!(matches!(
                run(group, uneven),
                Err(Error::BufferBytes { expected: 8, given: 4, .. })
            ));
            let far =
                CollectiveCall { root: 2, ..call(Collective::Send, FLOATS, &mut inputs, &mut []) };
            assert!(run(group, far).expect_err("no such rank").is_argument());
            let odd = call(Collective::Barrier, FLOATS, &mut inputs, &mut []);
            assert!(matches!(run(group, odd), Err(Error::BufferCount { given: 1, .. })));
            assert_eq!(group.sequence(), 0);
            barrier(group)
        },
    )
    .into_iter()
    .for_each(|result| assert_eq!(result, Ok(())));
}

#[test]
fn a_rank_that_does_not_come_is_named_at_the_timeout() {
    let others_are_over = std::sync::Barrier::new(3);
    let errors = on_ranks(
        3,
        |options| options,
        |group| {
            barrier(group).expect("all come");
            let error = (group.rank() != 1).then(|| {
                group.set_timeout(Duration::from_millis(300));
                all_reduce(group, 64).expect_err("rank 1 does not come")
            });
            others_are_over.wait();
            error
        },
    );
    for error in errors.into_iter().flatten() {
        assert!(error.is_timeout(), "{error}");
        let text = error.to_string();
        assert!(text.contains("all_reduce #2 was not over after 0.3 s"), "{text}");
        assert!(text.contains("rank 1 (pid "), "{text}");
        assert!(text.contains("its last call is barrier #1"), "{text}");
    }
}

#[test]
fn an_abort_wakes_every_rank() {
    let errors = on_ranks(
        3,
        |options| options,
        |group| {
            // Two ranks wait in a collective, one for a message.
            let mut outputs = [vec![0; 8]];
            let receive = call(Collective::Receive, FLOATS, &mut [], &mut outputs);
            let waits = match group.rank() {
                1 => start(group, vec![receive]),
                _ => start(group, vec![CollectiveCall::new(Collective::Barrier, FLOATS)]),
            };
            let before = Instant::now();
            if group.rank() == 0 {
                thread::sleep(Duration::from_millis(50));
                group.abort("the user pressed a key");
            }
            let error = waits.expect("queued").recv().expect("called").expect_err("aborted");
            (error.to_string(), before.elapsed())
        },
    );
    for (text, elapsed) in errors {
        assert!(text.contains("the user pressed a key"), "{text}");
        assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    }
}

#[test]
fn groups_that_are_entered_in_different_order_do_not_wait_for_each_other() {
    let folder = support::folder();
    thread::scope(|scope| {
        for rank in 0..2 {
            let folder = &folder;
            scope.spawn(move || {
                let connect = |name| ProcessGroup::connect(options(folder, name, rank, 2));
                let groups: [Arc<ProcessGroup>; 2] =
                    [connect("one").expect("one"), connect("two").expect("two")];
                let first = &groups[rank];
                let second = &groups[1 - rank];
                for _ in 0..50 {
                    let barrier = || vec![CollectiveCall::new(Collective::Barrier, FLOATS)];
                    let a = start(first, barrier()).expect("queued");
                    let b = start(second, barrier()).expect("queued");
                    assert!(a.recv().expect("called").is_ok());
                    assert!(b.recv().expect("called").is_ok());
                }
                // A group that has failed leaves the other alone.
                first.abort("enough");
                groups.iter().for_each(|group| group.shutdown());
            });
        }
    });
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn a_call_that_is_given_up_fails_its_group() {
    let errors = on_ranks(
        2,
        |options| options,
        |group| {
            if group.rank() == 1 {
                return barrier(group);
            }
            let call = CollectiveCall::new(Collective::Barrier, FLOATS);
            let (sender, receiver) = std::sync::mpsc::channel();
            drop(group.enqueue(call, Box::new(move |result| drop(sender.send(result)))));
            receiver.recv().expect("called").map(|_| ())
        },
    );
    for error in errors {
        assert!(error.expect_err("given up").to_string().contains("given up"));
    }
}

/// A rank in a process of its own: it calls all_reduce until it fails, and writes why.
#[test]
fn process_of_a_rank() {
    let Ok(folder) = env::var("SPYRE_CCL_TEST_FOLDER") else { return };
    let number = |name: &str| env::var(name).expect("set").parse::<usize>().expect("a number");
    let rank = number("SPYRE_CCL_TEST_RANK");
    let size = number("SPYRE_CCL_TEST_SIZE");
    let folder = std::path::PathBuf::from(folder);
    let options = GroupOptions {
        timeout: Duration::from_millis(number("SPYRE_CCL_TEST_TIMEOUT") as u64),
        ..options(&folder, "world", rank, size)
    };
    let timeout = options.timeout;
    let group = ProcessGroup::connect(GroupOptions { timeout: Duration::from_secs(60), ..options });
    let group = group.expect("ranks meet");
    group.set_timeout(timeout);
    let mut count = 0;
    let error = loop {
        // Large and small in turn.
        if let Err(error) = all_reduce(&group, if count % 2 == 0 { 1 << 20 } else { 4096 }) {
            break error;
        }
        count += 1;
        if count == 4 {
            fs::write(folder.join(format!("ready-{rank}")), "").expect("written");
        }
    };
    fs::write(folder.join(format!("draft-{rank}")), error.to_string()).expect("written");
    fs::rename(folder.join(format!("draft-{rank}")), folder.join(format!("error-{rank}")))
        .expect("named");
    drop(group);
    // The process lives on, with a new group in place of the one that failed.
    let alone = ProcessGroup::connect(support::options(&folder, &format!("alone-{rank}"), 0, 1));
    all_reduce(&alone.expect("a new group"), 64).expect("the process goes on");
    fs::write(folder.join(format!("end-{rank}")), "").expect("written");
}

fn wait_for(path: &std::path::Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        assert!(Instant::now() < deadline, "{} is not there", path.display());
        thread::sleep(Duration::from_millis(2));
    }
}

/// Sends rank 1 of three a signal, and returns what the others say, and after which time.
fn signal(signal: i32, timeout: Duration) -> (Vec<String>, Duration) {
    let folder = support::folder();
    let timeout = ("SPYRE_CCL_TEST_TIMEOUT", timeout.as_millis().to_string());
    let mut ranks = support::spawn_ranks(&folder, 3, &[timeout]);
    for rank in 0..3 {
        wait_for(&folder.join(format!("ready-{rank}")));
    }
    let before = Instant::now();
    let sent =
        Command::new("kill").args([format!("-{signal}"), ranks[1].id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let errors = [0, 2].map(|rank| wait_for(&folder.join(format!("error-{rank}")))).to_vec();
    let elapsed = before.elapsed();
    for rank in [0, 2] {
        wait_for(&folder.join(format!("end-{rank}")));
    }
    for rank in &mut ranks {
        let _ = rank.kill();
        let _ = rank.wait();
    }
    let _ = fs::remove_dir_all(folder);
    (errors, elapsed)
}

#[test]
fn a_rank_that_is_killed_is_named_within_a_second() {
    let (errors, elapsed) = signal(9, Duration::from_secs(60));
    for text in errors {
        assert!(text.contains("rank 1 (pid "), "{text}");
        assert!(text.contains("was killed (SIGKILL) during all_reduce #"), "{text}");
    }
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
}

#[test]
fn a_rank_that_is_stopped_is_named_at_the_timeout() {
    let (errors, elapsed) = signal(19, Duration::from_secs(2));
    for text in errors {
        assert!(text.contains("rank 1 (pid ") && text.contains("stopped (T)"), "{text}");
        assert!(text.contains("its last call is all_reduce #"), "{text}");
    }
    assert!(elapsed >= Duration::from_millis(1500), "{elapsed:?}");
}
