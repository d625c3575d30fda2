//! Streams that are composed once and replayed.

use std::sync::Arc;

use spyre_flex::{Context, ControlBlockStream, Error, Priority};
use spyre_hal::{ControlBlock, HostCallback, NullCard};

use super::{copy, fill, launch};
use crate::support::{on_each_card, program, read, whole};

#[test]
fn a_composed_stream_is_replayed_as_one() {
    on_each_card(|card| {
        let stream = card.stream();
        let program = program(&stream)?;
        let a = whole(stream.allocate(4)?, 4);
        let b = whole(stream.allocate(4)?, 4);
        let mut blocks = ControlBlockStream::new();
        blocks.append(stream.stage(&[1, 2, 3, 4], a))?;
        blocks.append(launch(program))?;
        blocks.append(copy(a, b))?;
        blocks.append(fill(a, 0))?;
        assert_eq!((blocks.len(), blocks.is_empty(), blocks.is_final()), (4, false, false));
        blocks.finalize()?;
        assert!(blocks.is_final());

        let first = blocks.replay(&stream)?;
        for _ in 0..20 {
            blocks.replay(&stream)?;
        }
        let last = blocks.replay(&card.stream())?;

        assert_eq!(read(&stream, b)?, [1, 2, 3, 4]);
        assert_eq!(read(&stream, a)?, [0; 4]);
        assert_eq!(first.sequence % 4, 1, "behind the program's copy");
        card.context.synchronize()?;
        assert_eq!(last.sequence, 4);
        Ok(())
    });
}

#[test]
fn a_composed_stream_says_what_it_cannot_do() -> Result<(), Error> {
    let context = Context::open(Arc::new(NullCard::new()))?;
    let stream = context.stream(Priority::Low)?;
    let program = stream.allocate(128)?;
    let mut blocks = ControlBlockStream::new();
    let refused = |result: Result<(), Error>| result.expect_err("refused").to_string();

    assert_eq!(
        refused(blocks.finalize()),
        "the control block stream is empty: append blocks before it is finalized"
    );
    blocks.append(launch(program))?;
    assert_eq!(
        refused(blocks.replay(&stream).map(drop)),
        "the control block stream is open: finalize it first"
    );
    assert_eq!(
        refused(blocks.append(ControlBlock::HostCallback(HostCallback::new(|| Ok(()))))),
        "a block of kind host callback cannot be replayed: submit it beside the composed stream"
    );
    assert_eq!(
        refused(blocks.append(fill(whole(program, 0), 1))),
        format!("0 bytes at offset 0 of {program}: there is nothing to copy or fill; leave it out")
    );
    assert_eq!(blocks.len(), 1);
    blocks.finalize()?;
    assert_eq!(
        refused(blocks.append(launch(program))),
        "the control block stream is finalized: compose a new one"
    );

    context.free(program)?;
    let error = blocks.replay(&stream).expect_err("its program is gone");
    assert!(matches!(error, Error::BadHandle { handle, .. } if handle == program), "{error}");
    assert_eq!(context.scheduler().flight_record(), []);
    Ok(())
}
