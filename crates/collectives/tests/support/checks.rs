//! Every collective against the oracle.

use spyre_collectives::{Collective, CollectiveCall, ProcessGroup, ReduceOp};
use spyre_numerics::DataFormat;

use super::oracle::{self, FORMATS, OPS};
use super::{call, run, run_all};

/// Checks everything, or a part; `SPYRE_CCL_EXHAUSTIVE=1` says which.
pub(crate) fn check_all(group: &ProcessGroup) {
    for &count in sizes() {
        for (format, op) in cases() {
            check_reductions(group, format, op, count);
        }
        let formats = if is_exhaustive() { &FORMATS[..] } else { &FORMATS[1..3] };
        for &format in formats {
            check_copies(group, format, count);
            check_messages(group, format, count);
        }
    }
}

/// Checks a few formats, whatever is asked for.
pub(crate) fn check_part(group: &std::sync::Arc<ProcessGroup>) {
    for count in [0, 1, 65, 300_001] {
        for (format, op) in [
            (DataFormat::IeeeFp32, ReduceOp::Sum),
            (DataFormat::BFloat16, ReduceOp::Avg),
            (DataFormat::SenInt8, ReduceOp::Product),
        ] {
            check_reductions(group, format, op, count);
        }
        check_copies(group, DataFormat::IeeeFp16, count);
        check_messages(group, DataFormat::IeeeFp32, count);
    }
}

pub(crate) fn is_exhaustive() -> bool {
    std::env::var_os("SPYRE_CCL_EXHAUSTIVE").is_some()
}

pub(crate) fn sizes() -> &'static [usize] {
    if is_exhaustive() { &[0, 1, 63, 64, 65, 1_000_001] } else { &[0, 1, 65, 70_001] }
}

pub(crate) fn cases() -> Vec<(DataFormat, ReduceOp)> {
    let all = FORMATS.iter().flat_map(|&format| OPS.map(|op| (format, op)));
    let defined = all.filter(|&(format, op)| oracle::is_defined(op, format));
    let part = defined.enumerate().filter(|(at, _)| is_exhaustive() || at % 7 == 0);
    part.map(|(_, case)| case).collect()
}

pub(crate) fn input(format: DataFormat, count: usize, rank: usize, piece: usize) -> Vec<u8> {
    oracle::elements(format, count, (rank * 1000 + piece + 1) as u64)
}

pub(crate) fn zeros(format: DataFormat, count: usize) -> Vec<u8> {
    vec![0xA5; count * format.element_bytes().expect("whole bytes")]
}

pub(crate) fn check_reductions(
    group: &ProcessGroup,
    format: DataFormat,
    op: ReduceOp,
    count: usize,
) {
    let rank = group.rank();
    let size = group.size();
    let ranks: Vec<_> = (0..size).map(|rank| input(format, count, rank, 0)).collect();
    let expected = oracle::reduce(op, format, &ranks);
    let what = format!("{op} of {count} {format} on rank {rank} of {size}");

    let mut outputs = [zeros(format, count)];
    let mut inputs = [ranks[rank].clone()];
    let all_reduce = call(Collective::AllReduce, format, &mut inputs, &mut outputs);
    let with = |call: CollectiveCall| CollectiveCall { reduction: Some(op), ..call };
    run(group, with(all_reduce)).expect("all_reduce");
    assert!(outputs[0] == expected, "all_reduce {what}");
    assert!(inputs[0] == ranks[rank], "all_reduce {what} leaves its input");

    let mut in_place = call(Collective::AllReduce, format, &mut inputs, &mut []);
    in_place.outputs = in_place.inputs.clone();
    run(group, with(in_place)).expect("all_reduce in place");
    assert!(inputs[0] == expected, "all_reduce in place {what}");

    let root = count % size;
    let mut inputs = [ranks[rank].clone()];
    let mut outputs = [zeros(format, count)];
    let reduce = call(Collective::Reduce, format, &mut inputs, &mut outputs);
    run(group, CollectiveCall { root, ..with(reduce) }).expect("reduce");
    assert!(
        outputs[0] == if rank == root { expected } else { zeros(format, count) },
        "reduce {what}"
    );

    let mut inputs: Vec<_> = (0..size).map(|piece| input(format, count, rank, piece)).collect();
    let own: Vec<_> = (0..size).map(|from| input(format, count, from, rank)).collect();
    let mut outputs = [zeros(format, count)];
    let reduce_scatter = call(Collective::ReduceScatter, format, &mut inputs, &mut outputs);
    run(group, with(reduce_scatter)).expect("reduce_scatter");
    assert!(outputs[0] == oracle::reduce(op, format, &own), "reduce_scatter {what}");
}

pub(crate) fn check_copies(group: &ProcessGroup, format: DataFormat, count: usize) {
    let rank = group.rank();
    let size = group.size();
    let what = format!("{count} {format} on rank {rank} of {size}");
    let root = (count + 1) % size;
    let at_root = |call| CollectiveCall { root, ..call };

    let mut buffers = [input(format, count, rank, 0)];
    let mut broadcast = call(Collective::Broadcast, format, &mut buffers, &mut []);
    if rank != root {
        std::mem::swap(&mut broadcast.inputs, &mut broadcast.outputs);
    }
    run(group, at_root(broadcast)).expect("broadcast");
    assert!(buffers[0] == input(format, count, root, 0), "broadcast {what}");

    // Ranks contribute different sizes.
    let of = |from: usize| count + from;
    let mut inputs = [input(format, of(rank), rank, 0)];
    let expected: Vec<_> = (0..size).map(|from| input(format, of(from), from, 0)).collect();
    let blank: Vec<_> = (0..size).map(|from| zeros(format, of(from))).collect();
    let mut outputs = blank.clone();
    run(group, call(Collective::AllGather, format, &mut inputs, &mut outputs)).expect("all_gather");
    assert!(outputs == expected, "all_gather {what}");

    let mut outputs = if rank == root { blank } else { Vec::new() };
    let gather = call(Collective::Gather, format, &mut inputs, &mut outputs);
    run(group, at_root(gather)).expect("gather");
    assert!(rank != root || outputs == expected, "gather {what}");

    let pieces =
        |from: usize| -> Vec<_> { (0..size).map(|to| input(format, of(to), from, to)).collect() };
    let mut inputs = if rank == root { pieces(root) } else { Vec::new() };
    let mut outputs = [zeros(format, of(rank))];
    let scatter = call(Collective::Scatter, format, &mut inputs, &mut outputs);
    run(group, at_root(scatter)).expect("scatter");
    assert!(outputs[0] == input(format, of(rank), root, rank), "scatter {what}");

    // Every pair has its own size; some are empty.
    let of = |from: usize, to: usize| count * ((from + 2 * to) % 3) / 2;
    let mut inputs: Vec<_> = (0..size).map(|to| input(format, of(rank, to), rank, to)).collect();
    let mut outputs: Vec<_> = (0..size).map(|from| zeros(format, of(from, rank))).collect();
    run(group, call(Collective::AllToAll, format, &mut inputs, &mut outputs)).expect("all_to_all");
    for (from, output) in outputs.iter().enumerate() {
        assert!(
            *output == input(format, of(from, rank), from, rank),
            "all_to_all {what} from {from}"
        );
    }
    run(group, CollectiveCall::new(Collective::Barrier, format)).expect("barrier");
}

/// All ranks send to all others at once, with two messages for each.
pub(crate) fn check_messages(group: &ProcessGroup, format: DataFormat, count: usize) {
    let rank = group.rank();
    let size = group.size();
    let others = || (0..size).filter(move |&other| other != rank);
    let mut inputs: Vec<_> = others()
        .flat_map(|to| [input(format, count, rank, to), input(format, count + 1, rank, to + 50)])
        .collect();
    let mut outputs: Vec<_> =
        others().flat_map(|_| [zeros(format, count), zeros(format, count + 1)]).collect();
    let mut calls = Vec::new();
    for (at, peer) in others().enumerate() {
        for (message, tag) in [(0, 7), (1, 9)] {
            let input = &mut inputs[2 * at + message..][..1];
            let send = call(Collective::Send, format, input, &mut []);
            calls.push(CollectiveCall { root: peer, tag, ..send });
        }
        // The second message first: tags tell them apart.
        for (message, tag) in [(1, 9), (0, 7)] {
            let output = &mut outputs[2 * at + message..][..1];
            let receive = call(Collective::Receive, format, &mut [], output);
            calls.push(CollectiveCall { root: peer, tag, ..receive });
        }
    }
    run_all(group, calls).expect("messages");
    for (at, peer) in others().enumerate() {
        assert!(
            outputs[2 * at] == input(format, count, peer, rank),
            "{count} {format} from {peer}"
        );
        assert!(outputs[2 * at + 1] == input(format, count + 1, peer, rank + 50));
    }
}
