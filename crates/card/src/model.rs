//! What blocks would take on a real card: a function of their sizes alone.
//!
//! Kernels follow the fitted model of measured ones: time is that of the products or of device
//! memory, whichever is longer. Where the front end would choose, such as how rows are divided among
//! cores, the model takes its usual choice. Transfers are an assumption: nobody has published them.

/// Device memory, one way: bytes per nanosecond.
const MEMORY_RATE: f64 = 150.0;
/// What a byte costs more that is read and one that is written for it: the bus turns around.
const TURNAROUND: f64 = 0.00574;
/// Copies from device memory to device memory: bytes per nanosecond, both ways counted.
const COPY_RATE: f64 = 118.0;
/// Products per nanosecond of one core, as sustained.
const CORE_RATE: f64 = 1140.0;
const CORES: f64 = 32.0;
/// Assumed: bytes per nanosecond between host and card.
const TRANSFER_RATE: f64 = 25.0;
/// Assumed: what a transfer takes before its first byte.
const TRANSFER_NANOSECONDS: f64 = 10_000.0;
/// Assumed: the same of a fill.
const FILL_NANOSECONDS: f64 = 20_000.0;

/// What a kernel moves and multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Bytes of device memory, in whole sticks, each tensor once.
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) products: u64,
}

impl Traffic {
    pub(crate) fn nanoseconds(self) -> u64 {
        let (read, written) = (self.read_bytes as f64, self.written_bytes as f64);
        let memory = (read + written) / MEMORY_RATE + TURNAROUND * read.min(written);
        let products = self.products as f64 / CORES / CORE_RATE;
        whole(memory.max(products))
    }
}

/// Between host and card, or from card to card.
pub(crate) fn transfer(bytes: u64) -> u64 {
    whole(TRANSFER_NANOSECONDS + bytes as f64 / TRANSFER_RATE)
}

pub(crate) fn fill(bytes: u64) -> u64 {
    whole(FILL_NANOSECONDS + bytes as f64 / MEMORY_RATE)
}

pub(crate) fn copy_on_device(bytes: u64) -> u64 {
    whole(2.0 * bytes as f64 / COPY_RATE)
}

/// Rounded up. Without a call: not every x86-64 has an instruction for `ceil`.
fn whole(nanoseconds: f64) -> u64 {
    let down = nanoseconds as u64;
    down + u64::from(down as f64 != nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_examples_come_out() {
        let add = Traffic { read_bytes: 8 << 20, written_bytes: 4 << 20, products: 0 };
        assert_eq!(add.nanoseconds() / 1000, 107); // 108 us, rounded
        let products = 512 * 4096 * 4096;
        let (read_bytes, written_bytes) = ((4 << 20) + (32 << 20), 4 << 20);
        let matmul = Traffic { read_bytes, written_bytes, products };
        let of_products = Traffic { products, ..Traffic::default() };
        assert_eq!(of_products.nanoseconds() / 1000, 235);
        assert_eq!(matmul.nanoseconds() / 1000, 303);
    }

    #[test]
    fn a_transfer_starts_late_and_goes_at_its_rate() {
        assert_eq!([transfer(0), transfer(25_000)], [10_000, 11_000]);
        assert_eq!([fill(0), copy_on_device(118)], [20_000, 2]);
    }
}
