use crate::programs::execute::fused::Fused;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

impl Machine<'_> {
    /// Does what the instructions from a place on do together, if these tiles are worth it. Returns
    /// their number, or 0 if it did nothing.
    pub(in crate::programs) fn fused(&mut self, at: usize, fused: Fused) -> Result<usize, Stop> {
        let is_done = match fused {
            Fused::Power { target, from } => self.power_of_difference(target, from),
            Fused::SumOfSquares { target, source } => self.sum_of_squares(target, source),
            Fused::SquaresOfDifference { target, place, from } => {
                self.squares_of_difference([target, place, from])
            }
            Fused::FoldedLoad { op, target, tile, source } => {
                self.load_folded(at, op, [target, tile], source)?
            }
            Fused::Links { count } => self.link(at, count),
            Fused::StoredLinks { count } => {
                let is_done = self.store_links(at, count)?;
                if !is_done && count > 1 && self.link(at, count) {
                    return Ok(count);
                }
                is_done
            }
        };
        Ok(if is_done { fused.count() } else { 0 })
    }
}
