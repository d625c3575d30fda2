//! Entries are not lost, doubled or torn, and each producer's entries stay in order.

use std::sync::Arc;

use super::explore;
use crate::stream::ring::{Cursor, Full, Ring, RingSizes};
use crate::sync::spin_loop;

type Value = (usize, usize);

#[test]
fn loom_producers_of_one_and_of_two_slots_lose_nothing() {
    explore("ring, one segment", Some(4), || {
        produce_and_consume(RingSizes { first: 4, bound: 4 });
    });
}

#[test]
fn loom_a_ring_that_grows_loses_nothing() {
    explore("ring, growth from one slot", Some(1), || {
        produce_and_consume(RingSizes { first: 1, bound: 4 });
    });
}

#[test]
fn loom_producers_that_make_a_ring_grow_at_once_lose_nothing() {
    explore("ring, two producers, growth from one slot", Some(3), || {
        let ring = Arc::new(Ring::new(RingSizes { first: 1, bound: 4 }));
        let producers = [0, 1].map(|producer| {
            let ring = Arc::clone(&ring);
            loom::thread::spawn(move || push_when_there_is_room(&ring, producer, &[1, 2]))
        });
        end(producers);
        let mut seen = pop(&ring, &mut Cursor::default(), 4);
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (0, 2), (1, 1), (1, 2)]);
    });
}

#[test]
fn loom_a_ring_that_grows_once_loses_nothing() {
    explore("ring, growth from two slots", Some(3), || {
        produce_and_consume(RingSizes { first: 2, bound: 4 });
    });
}

#[test]
fn loom_a_full_ring_refuses_until_an_entry_was_taken() {
    explore("ring, at its bound", Some(3), || {
        let ring = Arc::new(Ring::new(RingSizes { first: 1, bound: 2 }));
        let producer = loom::thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                let mut refused = 0;
                for value in 0..4 {
                    refused += push_when_there_is_room(&ring, 0, &[value]);
                }
                refused
            }
        });
        let mut cursor = Cursor::default();
        let seen = pop(&ring, &mut cursor, 4);
        producer.join().expect("the producer ends");
        assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (0, 3)]);
        assert_eq!(ring.pop(&mut cursor), None);
    });
}

#[test]
fn loom_a_slot_is_used_again_only_when_it_was_taken() {
    explore("ring, two producers at the bound", Some(3), || {
        let ring = Arc::new(Ring::new(RingSizes { first: 1, bound: 1 }));
        let producers = [0, 1].map(|producer| {
            let ring = Arc::clone(&ring);
            loom::thread::spawn(move || push_when_there_is_room(&ring, producer, &[7]))
        });
        let mut seen = pop(&ring, &mut Cursor::default(), 2);
        end(producers);
        seen.sort_unstable();
        assert_eq!(seen, [(0, 7), (1, 7)]);
    });
}

/// Two producers, one of which takes two slots in one step, against the consumer.
fn produce_and_consume(sizes: RingSizes) {
    let ring = Arc::new(Ring::new(sizes));
    let values: [&[usize]; 2] = [&[10, 11], &[20]];
    let producers = [0, 1].map(|producer| {
        let ring = Arc::clone(&ring);
        loom::thread::spawn(move || push_when_there_is_room(&ring, producer, values[producer]))
    });
    let mut cursor = Cursor::default();
    let seen = pop(&ring, &mut cursor, 3);
    end(producers);

    for producer in [0, 1] {
        let own = seen.iter().filter(|value| value.0 == producer).map(|value| value.1);
        assert_eq!(own.collect::<Vec<_>>(), values[producer]);
    }
    assert_eq!(ring.pop(&mut cursor), None);
    assert_eq!(ring.reserved(), 3);
}

/// Publishes the last slot first: the consumer must wait for the one before. Returns how often there
/// was no room.
fn push_when_there_is_room(ring: &Ring<Value>, producer: usize, values: &[usize]) -> usize {
    let mut refused = 0;
    let reservation = loop {
        let slots = values.len() as u64;
        match ring
            .reserve(slots)
            .or_else(|Full| ring.grow(slots).and_then(|()| ring.reserve(slots)))
        {
            Ok(reservation) => break reservation,
            Err(Full) => refused += 1,
        }
        spin_loop();
    };
    for (nth, value) in values.iter().enumerate().rev() {
        ring.publish(&reservation, nth as u64, (producer, *value));
    }
    refused
}

fn end(producers: [loom::thread::JoinHandle<usize>; 2]) {
    for producer in producers {
        producer.join().expect("a producer ends");
    }
}

fn pop(ring: &Ring<Value>, cursor: &mut Cursor, count: usize) -> Vec<Value> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match ring.pop(cursor) {
            Some(value) => seen.push(value),
            None => spin_loop(),
        }
    }
    seen
}
