//! Slices of one format into slices of another.
#![allow(unsafe_code, reason = "hands rows to kernels by address")]

mod codec;
mod direct;
mod half_lanes;
mod integer;
mod kernels;
mod route;
mod wire;

use crate::tier::Rows;
use crate::{DataFormat, Error, Tier};
use route::Route;

/// Rule for a number that is too large for a float format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// The format's own rule: infinity, or NaN where it has none; the largest number in
    /// [`Float8Kind::E4M3Fn`](crate::Float8Kind::E4M3Fn).
    #[default]
    Special,
    /// The largest finite number of the same sign, for infinities too; NaN stays NaN. A copy
    /// between equal formats stays a copy, and f64 keeps its infinities.
    Saturate,
}

/// Meaning of SEN169's merged NaN-Infinity, and what becomes one, on the way.
///
/// | | host to device | published | on the device, and to the host |
/// |---|---|---|---|
/// | half, exponent 31 | one more binade: infinity is 65536, NaN (0x7E00) 98304 | special | special |
/// | f32 or bfloat16, infinite or too large | the largest number of its sign | special | special |
/// | f32 or bfloat16, NaN | special | special | special, without a sign |
/// | the special | infinity of its sign | NaN | infinity of its sign |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Specials {
    /// Rules of the format's published tables: the special is a NaN.
    #[default]
    Published,
    /// Rules of copies to a device: an infinity is a number there.
    Arriving,
    /// Rules of a program's loads and stores, and of copies back to the host: the special is past
    /// every number of its sign.
    Ordered,
}

/// Carries elements from one format to another.
///
/// The result equals [`crate::Scalar`], element by element and bit by bit, on every tier, as long as no
/// other [`Specials`] are asked for. Rounding
/// is the default one: a thread that has set flush-to-zero gets subnormals of f32 and f64 flushed.
///
/// ```
/// use spyre_numerics::{Converter, DataFormat, Overflow};
///
/// let converter = Converter::new(DataFormat::Sen169Fp16, DataFormat::IeeeFp16)?;
/// let mut half = [0; 2];
/// converter.convert(&0x5E00_u16.to_le_bytes(), &mut half)?; // 65536 is past IEEE half
/// assert_eq!(u16::from_le_bytes(half), 0x7C00);
///
/// converter.with_overflow(Overflow::Saturate).convert(&0x5E00_u16.to_le_bytes(), &mut half)?;
/// assert_eq!(u16::from_le_bytes(half), 0x7BFF); // 65504
/// # Ok::<(), spyre_numerics::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Converter {
    from: DataFormat,
    to: DataFormat,
    tier: Tier,
    source_bytes: usize,
    target_bytes: usize,
    /// Numbers that the route converts per element: two between complex numbers.
    parts: usize,
    overflow: Overflow,
    specials: Specials,
    route: Route,
}

impl Converter {
    /// A converter with the best instructions of this CPU.
    pub fn new(from: DataFormat, to: DataFormat) -> Result<Self, Error> {
        Self::with_tier(from, to, Tier::detected())
    }

    /// A converter with the instructions of `tier`.
    pub fn with_tier(from: DataFormat, to: DataFormat, tier: Tier) -> Result<Self, Error> {
        let width =
            |format: DataFormat| format.element_bytes().ok_or(Error::NotAddressable { format });
        if !tier.is_available() {
            return Err(Error::TierMissing { tier });
        }
        Ok(Self {
            from,
            to,
            tier,
            source_bytes: width(from)?,
            target_bytes: width(to)?,
            parts: route::parts(from, to),
            overflow: Overflow::Special,
            specials: Specials::Published,
            route: Route::between(from, to, tier, Overflow::Special, Specials::Published),
        })
    }

    /// Returns the converter with another rule for numbers that are too large.
    #[must_use]
    pub fn with_overflow(self, overflow: Overflow) -> Self {
        Self { overflow, ..self }.rerouted()
    }

    /// Gives SEN169's special another meaning.
    ///
    /// ```
    /// use spyre_numerics::{Converter, DataFormat, Specials};
    ///
    /// let arriving = Converter::new(DataFormat::IeeeFp16, DataFormat::Sen169Fp16)?
    ///     .with_specials(Specials::Arriving);
    /// let mut code = [0; 2];
    /// arriving.convert(&0xFC00_u16.to_le_bytes(), &mut code)?; // minus infinity
    /// assert_eq!(u16::from_le_bytes(code), 0xDE00); // -65536
    /// # Ok::<(), spyre_numerics::Error>(())
    /// ```
    #[must_use]
    pub fn with_specials(self, specials: Specials) -> Self {
        Self { specials, ..self }.rerouted()
    }

    fn rerouted(self) -> Self {
        let Self { from, to, tier, overflow, specials, .. } = self;
        Self { route: Route::between(from, to, tier, overflow, specials), ..self }
    }

    /// The format it reads.
    pub fn from(&self) -> DataFormat {
        self.from
    }

    /// The format it writes.
    pub fn to(&self) -> DataFormat {
        self.to
    }

    /// Returns true if source and target have the same bytes.
    #[inline]
    pub fn is_copy(&self) -> bool {
        matches!(self.route, Route::Copy)
    }

    /// Converts all of `source` into all of `target`; on an error nothing is written.
    #[inline]
    pub fn convert(&self, source: &[u8], target: &mut [u8]) -> Result<(), Error> {
        let elements = target.len() / self.target_bytes;
        let whole = elements * self.target_bytes == target.len();
        if !whole || elements.checked_mul(self.source_bytes) != Some(source.len()) {
            return Err(self.length_mismatch(source.len(), target.len()));
        }
        // SAFETY: both slices hold `elements`.
        unsafe { self.convert_rows(source.as_ptr(), target.as_mut_ptr(), Rows::one(elements)) };
        Ok(())
    }

    /// Converts rows that lie apart at both ends.
    ///
    /// # Safety
    /// Both ends hold the rows, and the target's do not overlap the source's.
    #[inline]
    pub unsafe fn convert_rows(&self, source: *const u8, target: *mut u8, rows: Rows) {
        let rows = Rows { elements: rows.elements * self.parts, ..rows };
        let bytes = (self.source_bytes / self.parts, self.target_bytes / self.parts);
        // SAFETY: as the caller promises.
        unsafe { self.route.run(source, target, bytes, rows) }
    }

    /// Returns true if [`Converter::stream_rows`] may be called.
    #[inline]
    pub fn streams(&self) -> bool {
        self.route.streams()
    }

    /// Converts rows with stores that go past the cache, for results that are too large for it.
    /// They are ordered before what this thread does next only by a store fence.
    ///
    /// # Safety
    /// As for [`Converter::convert_rows`]; the converter streams; and the target's address, its
    /// stride and the bytes of its rows are multiples of 64.
    #[inline]
    pub unsafe fn stream_rows(&self, source: *const u8, target: *mut u8, rows: Rows) {
        let rows = Rows { elements: rows.elements * self.parts, ..rows };
        // SAFETY: as the caller promises.
        unsafe { self.route.stream(source, target, rows) }
    }

    #[cold]
    fn length_mismatch(&self, source_bytes: usize, target_bytes: usize) -> Error {
        Error::LengthMismatch { from: self.from, source_bytes, to: self.to, target_bytes }
    }
}

impl std::fmt::Debug for Converter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Converter({} -> {}, {})", self.from.name(), self.to.name(), self.tier)
    }
}
