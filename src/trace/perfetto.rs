//! Perfetto's `Trace`: a `TracePacket` for each track, and two for each span.

use super::protobuf::Message;
use super::rows::{Argument, Process, Span};

/// Field numbers of `TracePacket`, `TrackDescriptor`, `ProcessDescriptor`, `TrackEvent` and
/// `DebugAnnotation`.
pub(super) mod field {
    pub(in super::super) const PACKET: u32 = 1;
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE_ID: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;

    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PROCESS: u32 = 3;
    pub(in super::super) const PARENT_UUID: u32 = 5;
    pub(in super::super) const CHILD_ORDERING: u32 = 11;
    pub(in super::super) const SIBLING_RANK: u32 = 12;
    pub(in super::super) const PID: u32 = 1;
    pub(in super::super) const PROCESS_NAME: u32 = 6;

    pub(in super::super) const ANNOTATION: u32 = 4;
    pub(in super::super) const KIND: u32 = 9;
    pub(in super::super) const TRACK_UUID: u32 = 11;
    pub(in super::super) const CATEGORY: u32 = 22;
    pub(in super::super) const EVENT_NAME: u32 = 23;
    pub(in super::super) const UNSIGNED: u32 = 3;
    pub(in super::super) const TEXT: u32 = 6;
    pub(in super::super) const ANNOTATION_NAME: u32 = 10;
}

pub(super) const BEGIN: u64 = 1;
pub(super) const END: u64 = 2;

/// All packets are of one writer, which starts anew with the first.
const SEQUENCE: u64 = 1;
const STATE_CLEARED: u64 = 1;
/// Children of a track by their rank.
const EXPLICIT: u64 = 3;

pub(super) fn encode(processes: &[Process]) -> Vec<u8> {
    let mut tracks = Vec::new();
    let mut events = Vec::new();
    let mut uuids = 1..;
    let mut uuid = || uuids.next().unwrap_or(0);
    for (process, pid) in processes.iter().zip(1..) {
        let parent = uuid();
        tracks.push(process_track(parent, pid, &process.name));
        for (row, rank) in process.rows.iter().zip(0..) {
            let track = uuid();
            tracks.push(row_track(track, parent, rank, &row.name));
            for span in &row.spans {
                events.push((span.start, begin(track, row.category, span)));
                events.push((span.end, event(track, END)));
            }
        }
    }
    // Those of a row are in order, and stay so where times are equal.
    events.sort_by_key(|(time, _)| *time);
    let tracks = tracks.into_iter().map(|track| packet().message(field::TRACK_DESCRIPTOR, &track));
    let events = events.into_iter().map(|(time, event)| {
        packet().number(field::TIMESTAMP, time).message(field::TRACK_EVENT, &event)
    });
    let cleared = packet().number(field::SEQUENCE_FLAGS, STATE_CLEARED);
    let packets = [cleared].into_iter().chain(tracks).chain(events);
    packets
        .fold(Message::default(), |trace, packet| trace.message(field::PACKET, &packet))
        .into_bytes()
}

fn packet() -> Message {
    Message::default().number(field::SEQUENCE_ID, SEQUENCE)
}

fn process_track(uuid: u64, pid: u64, name: &str) -> Message {
    let process = Message::default().number(field::PID, pid).text(field::PROCESS_NAME, name);
    Message::default()
        .number(field::UUID, uuid)
        .message(field::PROCESS, &process)
        .number(field::CHILD_ORDERING, EXPLICIT)
}

fn row_track(uuid: u64, parent: u64, rank: u64, name: &str) -> Message {
    Message::default()
        .number(field::UUID, uuid)
        .text(field::NAME, name)
        .number(field::PARENT_UUID, parent)
        .number(field::SIBLING_RANK, rank)
}

fn event(track: u64, kind: u64) -> Message {
    Message::default().number(field::KIND, kind).number(field::TRACK_UUID, track)
}

fn begin(track: u64, category: &str, span: &Span) -> Message {
    let event = event(track, BEGIN).text(field::CATEGORY, category);
    let event = event.text(field::EVENT_NAME, &span.name);
    span.arguments.iter().fold(event, |event, (name, value)| {
        let annotation = Message::default().text(field::ANNOTATION_NAME, name);
        let annotation = match value {
            Argument::Number(number) => annotation.number(field::UNSIGNED, *number),
            Argument::String(text) => annotation.text(field::TEXT, text),
        };
        event.message(field::ANNOTATION, &annotation)
    })
}
