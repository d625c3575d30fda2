//! Sends and receives beside collectives, and the flight record.

mod support;

use spyre_collectives::{CallState, Collective, CollectiveCall, GroupOptions, ProcessGroup};
use spyre_numerics::DataFormat;

use support::{
    begins_while_a_collective_waits, call, on_ranks, receive, run, run_all, send, start,
};

const BYTES: DataFormat = DataFormat::UInt8;

fn barrier(group: &ProcessGroup) {
    run(group, CollectiveCall::new(Collective::Barrier, BYTES)).expect("barrier");
}

#[test]
fn a_receive_from_any_rank_names_the_sender() {
    on_ranks(
        3,
        |options| options,
        |group| {
            if group.rank() > 0 {
                let mut bytes = [vec![group.rank() as u8; 5]];
                run(group, send(&mut bytes, 0, 3)).expect("sent");
                return;
            }
            let mut seen = Vec::new();
            for _ in 0..2 {
                let mut bytes = [vec![0; 5]];
                let any = CollectiveCall {
                    tag: 3,
                    ..call(Collective::ReceiveAny, BYTES, &mut [], &mut bytes)
                };
                let source = run(group, any).expect("received").source_rank.expect("a sender");
                assert_eq!(bytes[0], [source as u8; 5]);
                seen.push(source);
            }
            seen.sort_unstable();
            assert_eq!(seen, [1, 2]);
        },
    );
}

#[test]
fn a_send_does_not_hold_up_collectives() {
    on_ranks(
        2,
        |options| options,
        |group| {
            let mut bytes = [vec![7 + group.rank() as u8; 1000]];
            if group.rank() == 0 {
                let sent = start(group, vec![send(&mut bytes, 1, 0)]).expect("queued");
                barrier(group);
                sent.recv().expect("called").expect("sent");
                // And the other way round: a receive that comes later on the other side.
                let received = start(group, vec![receive(&mut bytes, 1, 0)]).expect("queued");
                barrier(group);
                received.recv().expect("called").expect("received");
                assert_eq!(bytes[0], [7; 1000]);
            } else {
                barrier(group);
                run(group, receive(&mut bytes, 0, 0)).expect("received");
                barrier(group);
                run(group, send(&mut bytes, 0, 0)).expect("sent");
                assert_eq!(bytes[0], [7; 1000]);
            }
        },
    );
}

#[test]
fn a_send_begins_while_a_collective_waits_for_its_receiver() {
    on_ranks(2, |options| options, begins_while_a_collective_waits);
}

#[test]
fn a_message_is_one_call_with_a_collective() {
    on_ranks(
        2,
        |options| options,
        |group| {
            let mut bytes = [vec![group.rank() as u8; 300]];
            let barrier = CollectiveCall::new(Collective::Barrier, BYTES);
            let message =
                if group.rank() == 0 { send(&mut bytes, 1, 4) } else { receive(&mut bytes, 0, 4) };
            run_all(group, vec![barrier.clone(), message, barrier]).expect("all three");
            assert_eq!(bytes[0], [0; 300]);
        },
    );
}

#[test]
fn messages_of_one_tag_keep_their_order_however_many_there_are() {
    for reads_peers in [true, false] {
        on_ranks(
            2,
            |options| GroupOptions { reads_peers, ..options },
            |group| {
                let of = |number: usize| vec![number as u8; 1 + number * 70_000];
                let mut buffers: Vec<Vec<u8>> = (0..40).map(of).collect();
                if group.rank() == 0 {
                    let calls = buffers.chunks_mut(1).map(|bytes| send(bytes, 1, 9)).collect();
                    run_all(group, calls).expect("sent");
                    return;
                }
                buffers.iter_mut().for_each(|bytes| bytes.fill(0xFF));
                let calls = buffers.chunks_mut(1).map(|bytes| receive(bytes, 0, 9)).collect();
                run_all(group, calls).expect("received");
                for (number, bytes) in buffers.iter().enumerate() {
                    assert!(*bytes == of(number), "message {number}");
                }
            },
        );
    }
}

#[test]
fn a_message_of_another_size_is_a_mismatch() {
    let errors = on_ranks(
        2,
        |options| options,
        |group| {
            let mut bytes = [vec![0; 4 + group.rank()]];
            let call =
                if group.rank() == 0 { send(&mut bytes, 1, 0) } else { receive(&mut bytes, 0, 0) };
            run(group, call).expect_err("sizes").to_string()
        },
    );
    for text in errors {
        assert!(text.contains("rank 0 sent 4 bytes of UINT8 with tag 0"), "{text}");
        assert!(text.contains("rank 1 receives 5 bytes"), "{text}");
    }
}

#[test]
fn the_flight_record_has_pytorchs_keys() {
    on_ranks(
        2,
        |options| options,
        |group| {
            let mut inputs = [vec![0; 8]];
            let mut outputs = [vec![0; 8]];
            let all_reduce =
                call(Collective::AllReduce, DataFormat::IeeeFp32, &mut inputs, &mut outputs);
            run(group, CollectiveCall { description: "bucket 3".into(), ..all_reduce })
                .expect("carried out");
            let waiting = CollectiveCall::new(Collective::Barrier, BYTES);
            let pending = group.enqueue(waiting, Box::new(drop)).expect("queued");

            let records = group.history();
            assert_eq!(records[0].state, CallState::Completed);
            assert!(records[0].ended >= records[0].started);
            assert_eq!(records[1].state, CallState::Scheduled);
            let record: serde_json::Value =
                serde_json::from_str(&group.history_json()).expect("JSON");
            let entry = &record["entries"][0];
            assert_eq!(entry["profiling_name"], "spyreccl:all_reduce");
            assert_eq!(entry["collective_seq_id"], 1);
            assert_eq!(entry["state"], "completed");
            assert_eq!(entry["input_dtypes"][0], "IEEE_FP32");
            assert_eq!(entry["process_group"][1], "bucket 3");
            assert_eq!(record["entries"][1]["state"], "scheduled");
            pending.ready();
            assert_eq!(group.sequence(), 2);
        },
    );
}
