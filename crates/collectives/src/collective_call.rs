use std::fmt;
use std::time::Duration;

use spyre_numerics::DataFormat;

use crate::{DeviceBuffer, Error, ReduceOp};

/// Operation of a group, with the buffers that it takes in a group of `n` ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Collective {
    /// One input, one output of as many bytes: the reduction of all inputs.
    AllReduce = 1,
    /// One input; one output on the root, none or one that is left alone elsewhere.
    Reduce = 2,
    /// One input on the root, one output elsewhere. The root may name its output: it is a copy of its input.
    Broadcast = 3,
    /// One input, `n` outputs: output `r` has the bytes of rank `r`'s input. Inputs may differ in size.
    AllGather = 4,
    /// One input; `n` outputs on the root.
    Gather = 5,
    /// `n` inputs on the root; one output.
    Scatter = 6,
    /// `n` inputs, one output: the reduction of input `rank` of all ranks.
    ReduceScatter = 7,
    /// `n` inputs, `n` outputs, of any sizes: output `r` is input `rank` of rank `r`.
    AllToAll = 8,
    /// One input, for rank `root`.
    Send = 9,
    /// One output, from rank `root`.
    Receive = 10,
    /// One output, from the rank whose message is there first.
    ReceiveAny = 11,
    /// No buffers: it is over when all ranks have called it.
    Barrier = 12,
}

impl Collective {
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Send => "send",
            Self::Receive => "recv",
            Self::ReceiveAny => "recv_any_source",
            Self::Barrier => "barrier",
        }
    }

    /// Returns true if it is a matter of two ranks only, and takes no place in the order of the others.
    pub fn is_point_to_point(self) -> bool {
        matches!(self, Self::Send | Self::Receive | Self::ReceiveAny)
    }

    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    pub(crate) fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter)
    }

    pub(crate) fn from_word(word: u64) -> Option<Self> {
        Some(match word {
            1 => Self::AllReduce,
            2 => Self::Reduce,
            3 => Self::Broadcast,
            4 => Self::AllGather,
            5 => Self::Gather,
            6 => Self::Scatter,
            7 => Self::ReduceScatter,
            8 => Self::AllToAll,
            9 => Self::Send,
            10 => Self::Receive,
            11 => Self::ReceiveAny,
            12 => Self::Barrier,
            _ => return None,
        })
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Call of a collective: what one rank contributes, and where its results go.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveCall {
    /// Operation, which says how many buffers there are.
    pub collective: Collective,
    /// Format of the elements of all buffers.
    pub format: DataFormat,
    /// Reduction, if the operation has one.
    pub reduction: Option<ReduceOp>,
    /// Root, or the peer of a send or a receive: a rank of the group.
    pub root: usize,
    /// Tag of a send or a receive: they meet if their tags are equal.
    pub tag: u32,
    /// Buffers that are read.
    pub inputs: Vec<DeviceBuffer>,
    /// Buffers that are written.
    pub outputs: Vec<DeviceBuffer>,
    /// Time from its start to its end; without it, the group's.
    pub timeout: Option<Duration>,
    /// Text for the flight record and for messages, as the caller likes.
    pub description: String,
}

impl CollectiveCall {
    /// A call without buffers, from rank 0, with the group's timeout; fill in the fields that matter.
    pub fn new(collective: Collective, format: DataFormat) -> Self {
        Self {
            collective,
            format,
            reduction: None,
            root: 0,
            tag: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            timeout: None,
            description: String::new(),
        }
    }

    /// Checks all that one rank can know of its call.
    pub(crate) fn check(&self, group: &str, rank: usize, size: usize) -> Result<(), Error> {
        self.check_root(group, rank, size)?;
        self.check_counts(rank, size)?;
        self.check_bytes(rank)?;
        self.check_reduction()
    }

    fn check_root(&self, group: &str, rank: usize, size: usize) -> Result<(), Error> {
        let collective = self.collective;
        let has_peer = matches!(collective, Collective::Send | Collective::Receive);
        if (has_peer || collective.has_root()) && self.root >= size {
            let group = group.to_owned();
            return Err(Error::RankOutOfRange {
                collective,
                group,
                rank: self.root,
                last: size - 1,
            });
        }
        if has_peer && self.root == rank {
            return Err(Error::SelfPeer { collective, rank });
        }
        Ok(())
    }

    fn check_counts(&self, rank: usize, size: usize) -> Result<(), Error> {
        let is_root = self.root == rank;
        let on_root = |count: usize| if is_root { count } else { 0 };
        let (inputs, outputs) = match self.collective {
            Collective::AllReduce => (1, 1),
            Collective::Reduce => (1, on_root(1)),
            Collective::Broadcast => (on_root(1), usize::from(!is_root)),
            Collective::AllGather => (1, size),
            Collective::Gather => (1, on_root(size)),
            Collective::Scatter => (on_root(size), 1),
            Collective::ReduceScatter => (size, 1),
            Collective::AllToAll => (size, size),
            Collective::Send => (1, 0),
            Collective::Receive | Collective::ReceiveAny => (0, 1),
            Collective::Barrier => (0, 0),
        };
        let is_optional = match self.collective {
            Collective::Reduce | Collective::Broadcast => self.outputs.len() <= 1,
            _ => false,
        };
        self.check_count("inputs", inputs, self.inputs.len())?;
        if is_optional && self.outputs.len() >= outputs {
            return Ok(());
        }
        self.check_count("outputs", outputs, self.outputs.len())
    }

    fn check_count(&self, role: &'static str, expected: usize, given: usize) -> Result<(), Error> {
        if expected == given {
            return Ok(());
        }
        Err(Error::BufferCount { collective: self.collective, role, expected, given })
    }

    fn check_bytes(&self, rank: usize) -> Result<(), Error> {
        let collective = self.collective;
        let width = self.format.element_bytes().unwrap_or(1);
        for buffer in self.inputs.iter().chain(&self.outputs) {
            if !buffer.bytes().is_multiple_of(width) {
                let bytes = buffer.bytes();
                return Err(Error::PartialElement { collective, format: self.format, bytes });
            }
        }
        // An output of this rank that holds what an input of this rank holds.
        let own = match collective {
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast => Some((0, 0)),
            Collective::AllGather | Collective::Gather => Some((0, rank)),
            Collective::Scatter | Collective::ReduceScatter => Some((rank, 0)),
            Collective::AllToAll => Some((rank, rank)),
            _ => None,
        };
        let Some((input, output)) = own else { return Ok(()) };
        let (Some(source), Some(target)) = (self.inputs.get(input), self.outputs.get(output))
        else {
            return Ok(());
        };
        let expected = source.bytes();
        let given = target.bytes();
        if expected == given {
            return Ok(());
        }
        let what = format!("output {output}");
        Err(Error::BufferBytes { collective, what, expected, given })
    }

    fn check_reduction(&self) -> Result<(), Error> {
        if !self.collective.reduces() {
            return Ok(());
        }
        let Some(op) = self.reduction else {
            return Err(Error::NoReduction { collective: self.collective });
        };
        crate::reduction::Reducer::new(op, self.format, 1).map(|_| ())
    }
}

/// Result of a call that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOutcome {
    /// Rank that sent, for a receive.
    pub source_rank: Option<usize>,
}
