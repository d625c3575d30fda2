use crate::programs::access::operand::Piece;

/// Pieces that are on their way from memory while those before them are used.
#[derive(Debug, Default)]
pub(in crate::programs) struct Ahead {
    pieces: [Option<Piece>; DEPTH],
    next: usize,
}

const DEPTH: usize = 3;

impl Ahead {
    /// Puts a piece behind the others; the first one that was waiting, if it must wait no longer.
    #[inline]
    pub(in crate::programs) fn push(&mut self, piece: Piece) -> Option<Piece> {
        let first = self.pieces[self.next].replace(piece);
        self.next = (self.next + 1) % DEPTH;
        first
    }

    /// Those that are waiting, in their order.
    pub(in crate::programs) fn rest(self) -> impl Iterator<Item = Piece> {
        (0..DEPTH).filter_map(move |at| self.pieces[(self.next + at) % DEPTH])
    }
}
