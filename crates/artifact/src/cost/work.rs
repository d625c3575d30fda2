use super::{CORES, MEMORY_RATE, Pattern, whole};

/// Extra nanoseconds for each byte read that has a byte written for it: the bus turns around.
const TURNAROUND: f64 = 0.00574;
/// Nanoseconds to add one partial sum of another core.
const PARTIAL_SUM: f64 = 0.14;

/// Bytes and products of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes read from device memory, in whole sticks, each tensor once.
    pub read_bytes: u64,
    /// Bytes written to device memory, in whole sticks, each tensor once.
    pub written_bytes: u64,
    /// Multiplications of matrix products.
    pub products: u64,
    /// Sums that go over the ring, where a product's depth is divided among cores.
    pub partial_sums: u64,
    /// Access pattern in memory.
    pub pattern: Pattern,
}

/// Time of work on a card, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CardTime {
    /// Time of device memory.
    pub memory: f64,
    /// Time of the arrays of multipliers.
    pub products: f64,
    /// Time of the ring between cores.
    pub ring: f64,
}

impl Work {
    /// Time of each part.
    pub fn time(self) -> CardTime {
        let read = self.read_bytes as f64;
        let written = self.written_bytes as f64;
        let memory = match self.pattern.memory_rate() {
            Some(rate) => (read + written) / rate,
            None => (read + written) / MEMORY_RATE + TURNAROUND * read.min(written),
        };
        let products = self.products as f64 / CORES as f64 / self.pattern.product_rate();
        CardTime { memory, products, ring: self.partial_sums as f64 * PARTIAL_SUM }
    }

    /// Total time, in whole nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        whole(self.time().total())
    }
}

impl CardTime {
    /// All of it: memory and products overlap.
    pub fn total(self) -> f64 {
        self.memory.max(self.products) + self.ring
    }
}

#[cfg(test)]
mod tests {
    use super::super::Batch;
    use super::*;

    /// Microseconds, rounded up as the published numbers are.
    fn us(nanoseconds: f64) -> f64 {
        (nanoseconds / 1000.0).ceil()
    }

    #[test]
    fn an_addition_takes_as_long_as_published() {
        let add = Work { read_bytes: 8 << 20, written_bytes: 4 << 20, ..Work::default() };
        assert_eq!(us(add.time().total()), 108.0);
    }

    #[test]
    fn softmax_takes_as_long_as_published() {
        let bytes = 4096 * 2048 * 2;
        let read_bytes = bytes;
        let written_bytes = bytes;
        let pattern = Pattern::Fused;
        let softmax = Work { read_bytes, written_bytes, pattern, ..Work::default() };
        assert_eq!(format!("{:.1}", softmax.time().total() / 1000.0), "320.0");
    }

    #[test]
    fn products_take_as_long_as_published() {
        let pattern = Pattern::Product(Batch::One);
        for (m, k, n, products, memory) in [
            (512, 4096, 4096, 236.0, 304.0),
            (512, 4096, 12800, 736.0, 890.0),
            (4, 4096, 12800, 6.0, 701.0),
        ] {
            let read_bytes = 2 * (m * k + k * n);
            let written_bytes = 2 * m * n;
            let products_done = m * k * n;
            let work = Work {
                read_bytes,
                written_bytes,
                products: products_done,
                pattern,
                ..Work::default()
            };
            let time = work.time();
            assert_eq!((us(time.products), us(time.memory)), (products, memory));
            assert_eq!(us(time.total()), memory);
        }
    }

    #[test]
    fn batches_multiply_at_rates_of_their_own() {
        let time = |batch| {
            let pattern = Pattern::Product(batch);
            Work { products: 32 * 160 * 470 * 705, pattern, ..Work::default() }.time().products
        };
        assert_eq!(time(Batch::Both), 470.0 * 705.0);
        assert_eq!([time(Batch::Left(4)), time(Batch::Left(5))], [160.0 * 470.0, 160.0 * 705.0]);
    }

    #[test]
    fn partial_sums_come_on_top() {
        let work = Work { read_bytes: 150, partial_sums: 100, ..Work::default() };
        assert!((work.time().total() - 15.0).abs() < 1e-9);
    }
}
