//! Blocks as rows of spans that do not overlap: what both formats write.

use std::collections::BTreeMap;

use spyre_artifact::cost;
use spyre_flex::RecordState;
use spyre_hal::BlockKind;

use super::{Trace, TracedBlock};

/// A group of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// A line of a viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) category: &'static str,
    pub(super) spans: Vec<Span>,
}

/// A time and what it was spent on, in nanoseconds from the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) arguments: Vec<(&'static str, Argument)>,
}

/// Value of a span's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Number(u64),
    String(String),
}

/// Processes of each device: one in the host's clock, and if any block has a modelled time, one in the
/// card's.
pub(super) fn processes(traces: &[Trace]) -> Vec<Process> {
    let clock = Clock::of(traces);
    let several = traces.len() > 1;
    traces.iter().flat_map(|trace| of_device(trace, &clock, several)).collect()
}

fn of_device(trace: &Trace, clock: &Clock, is_one_of_several: bool) -> Vec<Process> {
    let device = trace.device;
    let blocks = &trace.blocks;
    let mut rows = Vec::new();
    for stream in by_key(blocks, |block| Some(block.stream.0)).values() {
        rows.extend(stream_rows(stream, clock));
    }
    for (engine, blocks) in by_key(blocks, |block| block.engine.map(|engine| engine.0)) {
        rows.push(engine_row(engine, blocks, clock));
    }
    let host = Process { name: format!("spyre device {device}"), rows };
    let mut modelled = modelled(blocks);
    if let Some(modelled) = modelled.as_mut().filter(|_| is_one_of_several) {
        modelled.name = format!("{} {device}", modelled.name);
    }
    [Some(host), modelled].into_iter().flatten().collect()
}

fn by_key(
    blocks: &[TracedBlock],
    key: impl Fn(&TracedBlock) -> Option<u16>,
) -> BTreeMap<u16, Vec<&TracedBlock>> {
    let mut groups: BTreeMap<u16, Vec<&TracedBlock>> = BTreeMap::new();
    for block in blocks {
        if let Some(key) = key(block) {
            groups.entry(key).or_default().push(block);
        }
    }
    groups
}

fn stream_rows(blocks: &[&TracedBlock], clock: &Clock) -> [Row; 2] {
    let name = format!("stream {}", blocks[0].stream.0);
    let ran = || blocks.iter().copied().filter(|block| block.has_run());
    let mut before = 0;
    let queued = ran().filter(|block| block.queued_at > 0).map(|block| {
        let first_in_line = block.queued_at.max(before).min(block.started_at);
        before = block.started_at;
        span(block, clock.at(first_in_line), clock.at(block.started_at))
    });
    let queue = Row { name: format!("{name} queue"), category: "queued", spans: queued.collect() };
    let spans = ran().map(|block| run(block, clock)).collect();
    [queue, Row { name, category: "run", spans }]
}

fn engine_row(engine: u16, mut blocks: Vec<&TracedBlock>, clock: &Clock) -> Row {
    blocks.retain(|block| block.has_run());
    blocks.sort_by_key(|block| block.started_at);
    let spans = blocks.into_iter().map(|block| run(block, clock)).collect();
    Row { name: format!("engine {engine}"), category: "engine", spans }
}

fn run(block: &TracedBlock, clock: &Clock) -> Span {
    let end = if block.state == RecordState::Running { clock.last } else { block.done_at };
    span(block, clock.at(block.started_at), clock.at(end.max(block.started_at)))
}

/// The blocks of each stream, one behind the other, and before each kernel its launch.
fn modelled(blocks: &[TracedBlock]) -> Option<Process> {
    let timed = |block: &TracedBlock| block.modelled_nanoseconds.map(|_| block.stream.0);
    let rows = by_key(blocks, timed).into_iter().map(|(stream, blocks)| {
        let mut now = 0;
        let mut spans = Vec::new();
        for block in blocks {
            if block.is_kernel() {
                spans.push(launch(block, now));
                now += cost::launch();
            }
            let end = now + block.modelled_nanoseconds.unwrap_or(0);
            let is_assumed = !block.is_kernel() && block.kind != BlockKind::CopyDevice;
            spans.push(with_basis(span(block, now, end), is_assumed));
            now = end;
        }
        Row { name: format!("stream {stream}"), category: "modelled", spans }
    });
    let rows: Vec<Row> = rows.collect();
    (!rows.is_empty()).then(|| Process { name: "modelled card".to_owned(), rows })
}

/// Span of a kernel's launch, which comes before it runs.
fn launch(block: &TracedBlock, start: u64) -> Span {
    let mut span = span(block, start, start + cost::launch());
    span.name = format!("launch of {}", span.name);
    with_basis(span, true)
}

fn with_basis(mut span: Span, is_assumed: bool) -> Span {
    let basis = if is_assumed { "assumed" } else { "modelled after measured kernels" };
    span.arguments.push(("basis", Argument::String(basis.to_owned())));
    span
}

fn span(block: &TracedBlock, start: u64, end: u64) -> Span {
    let state = match block.state {
        RecordState::Running => "running",
        RecordState::Done => "done",
        RecordState::Failed => "failed",
        RecordState::Cancelled => "cancelled",
    };
    let mut arguments = vec![
        ("stream", Argument::Number(block.stream.0.into())),
        ("sequence", Argument::Number(block.sequence)),
        ("kind", Argument::String(block.kind.to_string())),
        ("state", Argument::String(state.to_owned())),
    ];
    if block.queued_at > 0 {
        let queued = block.started_at.saturating_sub(block.queued_at);
        arguments.push(("queued_ns", Argument::Number(queued)));
    }
    if let Some(shapes) = &block.shapes {
        arguments.push(("shapes", Argument::String(shapes.clone())));
    }
    Span { name: block.title(), start, end, arguments }
}

/// The time from the first event of a trace on.
struct Clock {
    first: u64,
    last: u64,
}

impl Clock {
    fn of(traces: &[Trace]) -> Self {
        let times = || {
            let of = |block: &TracedBlock| [block.queued_at, block.started_at, block.done_at];
            let blocks = traces.iter().flat_map(|trace| &trace.blocks);
            blocks.flat_map(of).filter(|&time| time > 0)
        };
        Self { first: times().min().unwrap_or(0), last: times().max().unwrap_or(0) }
    }

    fn at(&self, time: u64) -> u64 {
        time.saturating_sub(self.first)
    }
}
