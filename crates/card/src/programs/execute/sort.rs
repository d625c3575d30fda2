use spyre_artifact::{Dim, Lane, OrderOp, Register};

use crate::programs::execute::buffer::Element;
use crate::programs::execute::dim_walk::DimWalk;
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;

/// An element that can be sorted: a key, smaller for what comes first, and the same for equals.
trait Sorted: Element {
    /// Integer with as many bits as the key needs, and 32 more for where the element was. Keys of two
    /// elements differ by their places at least, so that any sort is a stable one.
    type Key: Copy + Ord;

    fn key(self, is_descending: bool, place: u32) -> Self::Key;
    fn place(key: Self::Key) -> usize;
}

macro_rules! sorted {
    ($type:ty, $bits:ty, $key:ty, $ascending:expr) => {
        impl Sorted for $type {
            type Key = $key;

            fn key(self, is_descending: bool, place: u32) -> $key {
                let ascending: $bits = $ascending(self);
                let bits = if is_descending { !ascending } else { ascending };
                <$key>::from(bits) << 32 | <$key>::from(place)
            }

            fn place(key: $key) -> usize {
                (key & <$key>::from(u32::MAX)) as usize
            }
        }
    };
}

/// Floats as whole numbers in the same order: zeros are equal, NaN is the largest.
macro_rules! float_bits {
    ($type:ty, $bits:ty) => {
        |value: $type| match value {
            _ if value.is_nan() => <$bits>::MAX,
            _ if value == 0.0 => 1 << (<$bits>::BITS - 1),
            _ if value < 0.0 => !value.to_bits(),
            _ => value.to_bits() | 1 << (<$bits>::BITS - 1),
        }
    };
}

sorted!(f32, u32, u64, float_bits!(f32, u32));
sorted!(f64, u64, u128, float_bits!(f64, u64));
sorted!(i64, u64, u128, |value: i64| value.cast_unsigned() ^ 1 << 63);
sorted!(u8, u32, u64, u32::from);

impl Machine<'_> {
    pub(in crate::programs) fn order(
        &mut self,
        op: OrderOp,
        places: Register,
        values: Register,
        source: Register,
        dim: Dim,
    ) -> Result<(), Stop> {
        let is_descending = op == OrderOp::Descending;
        match self.registers.type_of(source).lane {
            Lane::F64 => self.sort::<f64>(is_descending, places, values, source, dim),
            Lane::I64 => self.sort::<i64>(is_descending, places, values, source, dim),
            Lane::Bool => self.sort::<u8>(is_descending, places, values, source, dim),
            _ => self.sort::<f32>(is_descending, places, values, source, dim),
        }
    }

    fn sort<T: Sorted>(
        &mut self,
        is_descending: bool,
        places: Register,
        values: Register,
        source: Register,
        dim: Dim,
    ) -> Result<(), Stop> {
        let along = DimWalk::of(&self.tiles, self.registers.type_of(source).span, dim);
        if u32::try_from(along.steps).is_err() {
            return Err(Stop::refused(format!("{} elements are too many to sort", along.steps)));
        }
        let mut found = self.registers.take();
        let mut sorted = self.registers.take();
        let elements = T::of(self.registers.tile(source));
        found.clear();
        found.resize(elements.len(), 0);
        sorted.clear();
        sorted.extend_from_slice(elements);
        let mut keys = Vec::with_capacity(along.steps);
        for start in (0..along.rows()).map(|nth| nth / along.row * along.block() + nth % along.row)
        {
            let row = || elements[start..].iter().step_by(along.row).take(along.steps);
            keys.clear();
            keys.extend(row().zip(0..).map(|(&value, place)| value.key(is_descending, place)));
            keys.sort_unstable();
            for (nth, &key) in keys.iter().enumerate() {
                let at = start + nth * along.row;
                let place = T::place(key);
                found[at] = place as i64;
                sorted[at] = elements[start + place * along.row];
            }
        }
        self.registers.put(places, found);
        self.registers.put(values, sorted);
        Ok(())
    }
}
