//! Times of collectives among cards, over the links that cards have to their host: an assumption.

use super::transfer;

/// Way in which the data of a collective goes from card to card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// A ring, twice around: shares are added on the first round, and spread on the second.
    AllReduce,
    /// A share to each of the other cards, or from each of them: gather, scatter, all to all.
    Shares,
    /// All bytes through a chain of cards, piece by piece: broadcast and reduce.
    Chain,
    /// All bytes to one other card.
    Message,
    /// Messages without data, in as many rounds as the number of cards has binary digits.
    Barrier,
}

/// Nanoseconds of a collective on each of the cards. `bytes` is the larger of what a card gives and gets.
///
/// Cards send and receive at once, each at the rate of a [`transfer`]; a step begins when the one before it is over.
///
/// ```
/// use spyre_artifact::cost::{Exchange, collective};
///
/// let megabytes = |count: u64| count << 20;
/// let times = [1, 16, 64].map(|count| collective(Exchange::AllReduce, megabytes(count), 8) / 1000);
/// assert_eq!(times, [213, 1314, 4837]); // us, of 8 cards
/// ```
pub fn collective(exchange: Exchange, bytes: u64, cards: u64) -> u64 {
    let others = cards.saturating_sub(1);
    let share = bytes.div_ceil(cards.max(1));
    match exchange {
        _ if others == 0 => 0,
        Exchange::AllReduce => 2 * others * transfer(share),
        Exchange::Shares => others * transfer(share),
        Exchange::Chain => transfer(bytes) + (others - 1) * transfer(0),
        Exchange::Message => transfer(bytes),
        Exchange::Barrier => u64::from(others.ilog2() + 1) * transfer(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_alone_takes_no_time_and_two_exchange_halves_twice() {
        let exchanges = [
            Exchange::AllReduce,
            Exchange::Shares,
            Exchange::Chain,
            Exchange::Message,
            Exchange::Barrier,
        ];
        assert_eq!(exchanges.map(|exchange| collective(exchange, 1000, 1)), [0; 5]);
        assert_eq!(collective(Exchange::AllReduce, 50_000, 2), 2 * transfer(25_000));
        assert_eq!(collective(Exchange::Chain, 50_000, 2), transfer(50_000));
    }

    #[test]
    fn a_barrier_takes_a_round_for_each_doubling() {
        let rounds =
            [2, 3, 4, 8, 9].map(|cards| collective(Exchange::Barrier, 0, cards) / transfer(0));
        assert_eq!(rounds, [1, 2, 2, 3, 4]);
    }
}
