//! Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3): what is
//! random is a function of key and counter alone, so that it does not show who computed it.

use spyre_artifact::Register;
use spyre_numerics::Tier;

use crate::programs::execute::vector::{Job, run};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

/// Counters at a time: too many for the compiler to unroll the loop over them, which it would then
/// not make vector code of.
const LANES: usize = 64;
const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of the key from round to round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

type Words = [u32; LANES];

impl Machine<'_> {
    pub(in crate::programs) fn random(
        &mut self,
        word: u8,
        target: Register,
        sources: [Register; 3],
    ) -> Result<(), Stop> {
        let word = usize::from(word & 3);
        self.registers.join(&self.tiles, target, sources, |[seeds, offsets, indices], bits| {
            run(Tier::detected(), Fill { word, sources: [seeds, offsets, indices], bits });
            Ok(())
        })
    }
}

/// One word for each seed, offset and index.
struct Fill<'a> {
    word: usize,
    sources: [&'a [i64]; 3],
    bits: &'a mut [i64],
}

/// Large enough for the compiler to leave a closure around it alone: so it is a job of its own.
impl Job for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        for (at, bits) in self.bits.chunks_mut(LANES).enumerate() {
            let [seeds, offsets, indices] = self.sources.map(|source| lanes(&source[at * LANES..]));
            let counter = [low(offsets), high(offsets), low(indices), high(indices)];
            let words = philox(counter, [low(seeds), high(seeds)]);
            bits.iter_mut().zip(words[self.word]).for_each(|(bits, word)| *bits = word.into());
        }
    }
}

/// The next elements; zeros where there are fewer.
#[inline(always)]
fn lanes(source: &[i64]) -> [i64; LANES] {
    match source.first_chunk() {
        Some(lanes) => *lanes,
        None => std::array::from_fn(|lane| source.get(lane).copied().unwrap_or(0)),
    }
}

#[inline(always)]
fn low(words: [i64; LANES]) -> Words {
    words.map(|word| word as u32)
}

#[inline(always)]
fn high(words: [i64; LANES]) -> Words {
    words.map(|word| (word >> 32) as u32)
}

/// Four random words for each counter.
#[inline(always)]
fn philox(mut counter: [Words; 4], mut key: [Words; 2]) -> [Words; 4] {
    for _ in 0..ROUNDS {
        let [c0, c1, c2, c3] = &mut counter;
        let [k0, k1] = &mut key;
        for lane in 0..LANES {
            let first = u64::from(MULTIPLIERS[0]) * u64::from(c0[lane]);
            let second = u64::from(MULTIPLIERS[1]) * u64::from(c2[lane]);
            c0[lane] = (second >> 32) as u32 ^ c1[lane] ^ k0[lane];
            c1[lane] = second as u32;
            c2[lane] = (first >> 32) as u32 ^ c3[lane] ^ k1[lane];
            c3[lane] = first as u32;
            k0[lane] = k0[lane].wrapping_add(WEYL[0]);
            k1[lane] = k1[lane].wrapping_add(WEYL[1]);
        }
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counter, key and words: the known answers that come with the authors' own Random123.
    const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];

    #[test]
    fn counters_give_the_words_that_the_authors_publish() {
        for (counter, key, words) in KNOWN {
            let found = philox(counter.map(|word| [word; LANES]), key.map(|word| [word; LANES]));
            assert_eq!(found, words.map(|word| [word; LANES]));
        }
    }
}
