//! Philox 4x32-10 for one counter, as its authors write it down.

/// One of the words that a seed, an offset and an index give.
pub(super) fn word(nth: u8, [seed, offset, index]: [u64; 3]) -> u32 {
    let mut key = halves(seed);
    let mut counter = [halves(offset), halves(index)].concat();
    for _ in 0..10 {
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let second = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = vec![
            halves(second)[1] ^ counter[1] ^ key[0],
            halves(second)[0],
            halves(first)[1] ^ counter[3] ^ key[1],
            halves(first)[0],
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter[usize::from(nth)]
}

/// The low half of a word, and the high one.
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_give_the_words_that_the_authors_publish() {
        let words = |sources| [0, 1, 2, 3].map(|nth| word(nth, sources));
        assert_eq!(words([0; 3]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(words([u64::MAX; 3]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let offset = 0x85a3_08d3_243f_6a88;
        let index = 0x0370_7344_1319_8a2e;
        assert_eq!(
            words([0x299f_31d0_a409_3822, offset, index]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
