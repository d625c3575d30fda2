//! The control word of the host's floating-point unit.
#![allow(unsafe_code, reason = "reads and writes a register")]

/// While it lives, this thread rounds to nearest and keeps subnormal numbers, whatever the host has
/// set it to: PyTorch's `set_flush_denormal` must not change what a card computes.
#[derive(Debug)]
pub(crate) struct UsualRounding {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    use super::UsualRounding;

    /// Control word that every thread starts with: round to nearest, subnormals kept, no traps.
    const USUAL: u32 = 0x1f80;

    impl UsualRounding {
        pub(crate) fn begin() -> Self {
            let before = read();
            write(USUAL);
            Self { before }
        }
    }

    impl Drop for UsualRounding {
        fn drop(&mut self) {
            write(self.before);
        }
    }

    pub(super) fn read() -> u32 {
        let mut word = 0_u32;
        // SAFETY: every x86-64 has the register; four bytes are written to `word`.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        word
    }

    pub(super) fn write(word: u32) {
        // SAFETY: `word` came from the register, or is what threads start with: no reserved bit is
        // set, which alone would fault. No Rust code runs in between that could be compiled for
        // another state than the one it finds.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl UsualRounding {
    pub(crate) fn begin() -> Self {
        Self {}
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Subnormal results and operands are zero, and rounding is upwards.
    const UNUSUAL: u32 = 0x1f80 | 0x8000 | 0x0040 | 0x4000;

    #[test]
    fn the_thread_gets_its_own_word_back() {
        let before = x86::read();
        x86::write(UNUSUAL);
        let usual = UsualRounding::begin();
        let inside = x86::read();
        drop(usual);
        let after = x86::read();
        x86::write(before);
        assert_eq!((inside, after), (0x1f80, UNUSUAL));
    }

    #[test]
    fn a_panic_gives_it_back_too() {
        let before = x86::read();
        x86::write(UNUSUAL);
        let outcome = std::panic::catch_unwind(|| {
            let _usual = UsualRounding::begin();
            panic!("in the midst of a block");
        });
        let after = x86::read();
        x86::write(before);
        assert!(outcome.is_err());
        assert_eq!(after & !0x3f, UNUSUAL);
    }
}
