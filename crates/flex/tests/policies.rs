//! Choice of the next block: one block at a time, in the order of the card's log.

mod support;

use std::collections::HashMap;

use spyre_flex::{Error, Event, FlexStream, Policy, Priority};
use spyre_hal::{BlockKind, DeviceHandle, DeviceRange, StreamIndex};
use support::{Stepped, whole};

/// Streams that are distinguished by the kind of their blocks.
struct Crowd {
    stepped: Stepped,
    setup: FlexStream,
    program: DeviceHandle,
    cells: DeviceHandle,
}

impl Crowd {
    fn open(policy: Policy) -> Result<Self, Error> {
        let stepped = Stepped::open(policy);
        let setup = stepped.stream(Priority::Low);
        let program = stepped.program(&setup)?;
        let cells = setup.allocate(256)?;
        Ok(Self { stepped, setup, program, cells })
    }

    fn low(&self) -> FlexStream {
        self.stepped.stream(Priority::Low)
    }

    fn high(&self) -> FlexStream {
        self.stepped.stream(Priority::High)
    }

    fn queue(&self, stream: &FlexStream, kind: BlockKind) -> Result<(), Error> {
        let cell = whole(self.cells, 1);
        let other = DeviceRange { handle: self.cells, offset: 128, bytes: 1 };
        match kind {
            BlockKind::Launch => stream.launch(self.program),
            BlockKind::Fill => stream.fill(cell, 1),
            BlockKind::CopyDevice => stream.copy_on_device(cell, other, None),
            BlockKind::CopyToDevice => stream.copy_to_device(vec![1], cell),
            other => panic!("{other} is not for a crowd"),
        }
        .map(drop)
    }

    /// Occupies the engine, so that all that is queued next is chosen from.
    fn occupy(&self) -> Result<(), Error> {
        self.setup.copy_to_device(vec![0], whole(self.cells, 1)).map(drop)
    }

    /// Kinds of the blocks that were started, from the n-th on.
    fn started_from(&self, nth: usize) -> Vec<BlockKind> {
        self.stepped.card.inner().log()[nth..].iter().map(|block| block.kind).collect()
    }

    fn started(&self) -> usize {
        self.stepped.card.inner().log().len()
    }

    /// Ends all blocks, and says in which order they were started, but for the first.
    fn order(&self) -> Vec<BlockKind> {
        let before = self.started();
        self.stepped.finish_all();
        self.started_from(before)[1..].to_vec()
    }
}

const LAUNCH: BlockKind = BlockKind::Launch;
const FILL: BlockKind = BlockKind::Fill;
const COPY: BlockKind = BlockKind::CopyDevice;

#[test]
fn round_robin_takes_one_block_of_each_stream_in_turn() -> Result<(), Error> {
    let crowd = Crowd::open(Policy::RoundRobin)?;
    let streams = [(crowd.low(), LAUNCH), (crowd.high(), FILL), (crowd.low(), COPY)];
    crowd.occupy()?;
    for (stream, kind) in &streams {
        (0..4).try_for_each(|_| crowd.queue(stream, *kind))?;
    }

    let order = crowd.order();
    assert_eq!(order.len(), 12);
    for round in order.chunks(3) {
        assert_eq!(round, [LAUNCH, FILL, COPY]);
    }
    Ok(())
}

#[test]
fn drain_one_stays_with_a_stream_until_it_is_empty() -> Result<(), Error> {
    let crowd = Crowd::open(Policy::DrainOne)?;
    let streams = [(crowd.low(), LAUNCH), (crowd.high(), FILL), (crowd.low(), COPY)];
    crowd.occupy()?;
    for (stream, kind) in &streams {
        (0..4).try_for_each(|_| crowd.queue(stream, *kind))?;
    }
    let order = crowd.order();
    assert_eq!(order, [[LAUNCH; 4], [FILL; 4], [COPY; 4]].concat());

    // A stream that waits is left, and not forgotten.
    let event = Event::new();
    crowd.occupy()?;
    crowd.queue(&streams[2].0, COPY)?;
    streams[2].0.record(&event)?;
    crowd.queue(&streams[0].0, LAUNCH)?;
    streams[0].0.wait(&event)?;
    crowd.queue(&streams[0].0, LAUNCH)?;
    crowd.queue(&streams[1].0, FILL)?;
    let mut order = crowd.order();
    assert_eq!(order.iter().filter(|&&kind| kind == LAUNCH).count(), 2);
    let last = order.iter().rposition(|&kind| kind == LAUNCH);
    assert!(last > order.iter().position(|&kind| kind == COPY));
    order.sort_by_key(ToString::to_string);
    assert_eq!(order, [COPY, FILL, LAUNCH, LAUNCH]);
    Ok(())
}

#[test]
fn a_high_block_starts_after_at_most_one_other() -> Result<(), Error> {
    let crowd = Crowd::open(Policy::Priority)?;
    let lows = [crowd.low(), crowd.low(), crowd.low()];
    let high = crowd.high();
    for round in 0..500_usize {
        for low in &lows {
            (0..3).try_for_each(|_| crowd.queue(low, LAUNCH))?;
        }
        // At any point of what the low ones do.
        (0..round % 5).for_each(|_| assert!(crowd.stepped.step()));
        let before = crowd.started();
        crowd.queue(&high, FILL)?;
        crowd.stepped.steps(2);
        let started = crowd.started_from(before);
        assert!(started.contains(&FILL), "round {round}: {started:?}");
        crowd.stepped.finish_all();
    }
    Ok(())
}

/// Number of blocks that each stream got of so many, all of them always ready.
fn shares(highs: usize, lows: usize, blocks: usize) -> Result<HashMap<StreamIndex, usize>, Error> {
    let crowd = Crowd::open(Policy::Priority)?;
    let highs: Vec<_> = (0..highs).map(|_| (crowd.high(), FILL)).collect();
    let lows: Vec<_> = (0..lows).map(|_| (crowd.low(), LAUNCH)).collect();
    let all: Vec<_> = highs.iter().chain(&lows).collect();
    crowd.occupy()?;
    for (stream, kind) in &all {
        (0..blocks).try_for_each(|_| crowd.queue(stream, *kind))?;
    }
    crowd.stepped.steps(1);
    let before = crowd.started();
    crowd.stepped.steps(blocks);

    // No sixteen blocks in a row are all of high streams.
    let started = crowd.started_from(before);
    assert!(started.windows(16).all(|turns| turns.contains(&LAUNCH)));
    let records = crowd.stepped.context.scheduler().flight_record();
    let records = records.iter().filter(|record| record.kind != BlockKind::CopyToDevice);
    let mut shares: HashMap<_, _> = all.iter().map(|(stream, _)| (stream.index(), 0)).collect();
    records.for_each(|record| *shares.entry(record.stream).or_insert(0) += 1);
    Ok(shares)
}

#[test]
fn a_low_stream_gets_one_turn_in_sixteen() -> Result<(), Error> {
    let shares = shares(2, 1, 3200)?;
    let low = shares[&StreamIndex(3)];
    assert!((200..=210).contains(&low), "{low} of 3200");
    assert!(shares.values().all(|&share| share >= 200), "{shares:?}");
    Ok(())
}

#[test]
fn low_streams_share_their_turns() -> Result<(), Error> {
    let shares = shares(1, 4, 3200)?;
    let high = shares[&StreamIndex(1)];
    assert!((2990..=3001).contains(&high), "{high} of 3200");
    for low in 2..=5 {
        let share = shares[&StreamIndex(low)];
        assert!((49..=52).contains(&share), "stream {low} got {share} of 200: {shares:?}");
    }
    Ok(())
}

#[test]
fn high_streams_share_theirs() -> Result<(), Error> {
    let shares = shares(3, 2, 3200)?;
    for high in 1..=3 {
        let share = shares[&StreamIndex(high)];
        assert!((990..=1010).contains(&share), "stream {high} got {share}: {shares:?}");
    }
    for low in 4..=5 {
        let share = shares[&StreamIndex(low)];
        assert!((99..=102).contains(&share), "stream {low} got {share}: {shares:?}");
    }
    Ok(())
}

#[test]
fn low_streams_alone_take_turns() -> Result<(), Error> {
    let crowd = Crowd::open(Policy::Priority)?;
    let streams = [(crowd.low(), LAUNCH), (crowd.low(), FILL), (crowd.low(), COPY)];
    crowd.occupy()?;
    for (stream, kind) in &streams {
        (0..4).try_for_each(|_| crowd.queue(stream, *kind))?;
    }
    let order = crowd.order();
    for round in order.chunks(3) {
        assert_eq!(round, [LAUNCH, FILL, COPY]);
    }
    Ok(())
}

#[test]
fn a_stream_that_a_high_one_waits_for_is_high_too() -> Result<(), Error> {
    let crowd = Crowd::open(Policy::Priority)?;
    let crowds: Vec<_> = (0..4).map(|_| crowd.low()).collect();
    let low = crowd.low();
    let high = crowd.high();
    let event = Event::new();
    crowd.occupy()?;
    for other in &crowds {
        (0..50).try_for_each(|_| crowd.queue(other, LAUNCH))?;
    }
    (0..6).try_for_each(|_| crowd.queue(&low, COPY))?;
    low.record(&event)?;
    (0..6).try_for_each(|_| crowd.queue(&low, COPY))?;
    high.wait(&event)?;
    crowd.queue(&high, FILL)?;

    let order = crowd.order();
    let at = order.iter().position(|&kind| kind == FILL).expect("it ran");
    let copies = |order: &[BlockKind]| order.iter().filter(|&&kind| kind == COPY).count();
    // What it waits for, and at most one other.
    assert!(copies(&order[..at]) >= 6 && at <= 7, "others went first: {:?}", &order[..at]);
    // With the event reached, the low stream is as low as before: one in five.
    assert!(copies(&order[at + 1..][..10]) <= 3, "{:?}", &order[at..][..11]);
    Ok(())
}

#[test]
fn priority_is_lent_along_a_chain_of_waits() -> Result<(), Error> {
    for is_early in [true, false] {
        let crowd = Crowd::open(Policy::Priority)?;
        let crowds: Vec<_> = (0..4).map(|_| crowd.low()).collect();
        let links = [crowd.low(), crowd.low(), crowd.low()];
        let high = crowd.high();
        let events = [Event::new(), Event::new(), Event::new()];
        crowd.occupy()?;
        for other in &crowds {
            (0..50).try_for_each(|_| crowd.queue(other, LAUNCH))?;
        }
        for (at, link) in links.iter().enumerate() {
            // A link that has work before its wait comes to the wait only when it is high.
            if !is_early {
                crowd.queue(link, COPY)?;
            }
            if at > 0 {
                link.wait(&events[at - 1])?;
            }
            crowd.queue(link, COPY)?;
            link.record(&events[at])?;
        }
        if is_early {
            crowd.stepped.steps(8);
        }
        high.wait(&events[2])?;
        crowd.queue(&high, FILL)?;

        let order = crowd.order();
        let at = order.iter().position(|&kind| kind == FILL).expect("it ran");
        let others = order[..at].iter().filter(|&&kind| kind == LAUNCH).count();
        assert!(others <= 1, "{others} others went first: {:?}", &order[..=at]);
    }
    Ok(())
}

#[test]
fn a_policy_may_change_while_blocks_wait() -> Result<(), Error> {
    let crowd = Crowd::open(Policy::RoundRobin)?;
    let low = crowd.low();
    let high = crowd.high();
    crowd.occupy()?;
    for _ in 0..8 {
        crowd.queue(&low, LAUNCH)?;
        crowd.queue(&high, FILL)?;
    }
    crowd.stepped.steps(5);
    crowd.stepped.context.scheduler().set_policy(Policy::Priority);
    let before = crowd.started();
    crowd.stepped.finish_all();

    // One was chosen before the change.
    let order = &crowd.started_from(before)[1..];
    let fills = order.iter().filter(|&&kind| kind == FILL).count();
    assert!(fills > 3 && order[..fills] == vec![FILL; fills], "{order:?}");
    assert_eq!(order.len(), 11);
    Ok(())
}
