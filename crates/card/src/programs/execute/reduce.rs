use std::convert::Infallible;

use spyre_artifact::{Lane, ReduceOp, Register};
use spyre_numerics::Tier;

use crate::programs::access::nest::Nest;
use crate::programs::execute::buffer::Element;
use crate::programs::execute::extremes::NanWins;
use crate::programs::execute::vector::{Job, LANES, run, vectorised};
use crate::programs::schedule::machine::Machine;
use crate::programs::schedule::stop::Stop;
use crate::programs::schedule::tiles::dims;

impl Machine<'_> {
    pub(in crate::programs) fn reduce(
        &mut self,
        op: ReduceOp,
        target: Register,
        source: Register,
    ) -> Result<(), Stop> {
        match (self.registers.type_of(source).lane, op) {
            // -0 leaves every number as it is, 0 does not.
            (Lane::F32, ReduceOp::Sum) => self.fold(target, source, -0.0_f32, |a, b| a + b),
            (Lane::F32, ReduceOp::Product) => self.fold(target, source, 1.0_f32, |a, b| a * b),
            (Lane::F32, ReduceOp::Min) => {
                self.fold_best(target, source, f32::INFINITY, f32::smaller, |a, b| a < b)
            }
            (Lane::F32, ReduceOp::Max) => {
                self.fold_best(target, source, f32::NEG_INFINITY, f32::larger, |a, b| a > b)
            }
            (Lane::F64, ReduceOp::Sum) => self.fold(target, source, -0.0_f64, |a, b| a + b),
            (Lane::F64, ReduceOp::Product) => self.fold(target, source, 1.0_f64, |a, b| a * b),
            (Lane::F64, ReduceOp::Min) => {
                self.fold_best(target, source, f64::INFINITY, f64::smaller, |a, b| a < b)
            }
            (Lane::F64, ReduceOp::Max) => {
                self.fold_best(target, source, f64::NEG_INFINITY, f64::larger, |a, b| a > b)
            }
            (Lane::I64, ReduceOp::Sum) => self.fold(target, source, 0, i64::wrapping_add),
            (Lane::I64, ReduceOp::Product) => self.fold(target, source, 1, i64::wrapping_mul),
            (Lane::I64, ReduceOp::Min) => self.fold(target, source, i64::MAX, i64::min),
            (Lane::I64, ReduceOp::Max) => self.fold(target, source, i64::MIN, i64::max),
            (Lane::Bool, ReduceOp::Any) => self.fold(target, source, 0, |a: u8, b| a | b),
            (Lane::Bool, ReduceOp::All) => self.fold(target, source, 1, |a: u8, b| a & b),
            (lane, _) => Err(Stop::refused(format!("{op} is not for {lane}"))),
        }
    }

    /// The smallest or largest one. Where no NaN is, one comparison does.
    fn fold_best<T: Element>(
        &mut self,
        target: Register,
        source: Register,
        neutral: T,
        of_any: impl Fn(T, T) -> T + Copy,
        wins: impl Fn(T, T) -> bool + Copy,
    ) -> Result<(), Stop> {
        let is_number = |register| {
            let tile = T::of(self.registers.tile(register));
            vectorised(
                #[inline(always)]
                || are_numbers(tile),
            )
        };
        if is_number(source) && is_number(target) {
            self.fold(target, source, neutral, |a, b| if wins(a, b) { a } else { b })
        } else {
            self.fold(target, source, neutral, of_any)
        }
    }

    fn fold<T: Element>(
        &mut self,
        target: Register,
        source: Register,
        neutral: T,
        act: impl Fn(T, T) -> T + Copy,
    ) -> Result<(), Stop> {
        self.fold_terms(target, source, neutral, |element| element, act);
        Ok(())
    }

    /// Like [`fold`](Self::fold), with the result of `term` for each element.
    fn fold_terms<T: Element>(
        &mut self,
        target: Register,
        source: Register,
        neutral: T,
        term: impl Fn(T) -> T + Copy,
        act: impl Fn(T, T) -> T + Copy,
    ) {
        let spans = [target, source].map(|register| self.registers.type_of(register).span);
        let nest = self.tiles.nest(spans[0], dims(spans[1]));
        let mut held = self.registers.take_from(target);
        let elements = T::of(self.registers.tile(source));
        let job = Fold { nest: &nest, held: &mut held, elements, neutral, term, act };
        run(Tier::detected(), job);
        self.registers.put(target, held);
    }
}

/// Returns true if none of them is NaN. A loop without an early exit, for vector code.
#[inline(always)]
#[expect(clippy::eq_op, reason = "NaN is what does not equal itself")]
fn are_numbers<T: Element>(elements: &[T]) -> bool {
    let mut are = true;
    for element in elements {
        are &= element == element;
    }
    are
}

/// Elements combined into what is held, row by row.
struct Fold<'a, T, F, G> {
    /// Loops over `held`, row by row of the elements.
    nest: &'a Nest,
    held: &'a mut [T],
    elements: &'a [T],
    neutral: T,
    term: F,
    act: G,
}

impl<T, F, G> Job for Fold<'_, T, F, G>
where
    T: Element,
    F: Fn(T) -> T + Copy,
    G: Fn(T, T) -> T + Copy,
{
    type Output = ();

    #[inline(always)]
    fn run<const TIER: u8>(self) {
        match self.nest.row().stride {
            _ if self.elements.is_empty() => {}
            0 => self.fold_rows(),
            _ => self.fold_elements(),
        }
    }
}

impl<T, F, G> Fold<'_, T, F, G>
where
    T: Element,
    F: Fn(T) -> T + Copy,
    G: Fn(T, T) -> T + Copy,
{
    /// Each row into one place.
    #[inline(always)]
    fn fold_rows(self) {
        let Self { nest, held, elements, neutral, term, act } = self;
        let mut starts = nest.starts();
        let length = nest.row().elements;
        for group in elements.chunks(GROUP * length) {
            let mut lanes = [[neutral; LANES]; GROUP];
            let rows = group.len() / length;
            let abreast = rows / ABREAST * ABREAST;
            for nth in (0..abreast).step_by(ABREAST) {
                let some: [_; ABREAST] =
                    lanes_of(&group[nth * length..], length, neutral, term, act);
                lanes[nth..nth + ABREAST].copy_from_slice(&some);
            }
            for nth in abreast..rows {
                [lanes[nth]] = lanes_of(&group[nth * length..], length, neutral, term, act);
            }
            let values = values_of(&lanes, act);
            for &value in &values[..rows] {
                let place = starts.next();
                held[place] = act(held[place], value);
            }
        }
    }

    /// Each element into a place of its own.
    #[inline(always)]
    fn fold_elements(self) {
        let Self { nest, held, elements: mut rest, term, act, .. } = self;
        let folded = nest.each_row(0, |row| {
            let start = row.start as usize;
            let stride = row.stride as usize;
            let (now, later) = rest.split_at(row.elements);
            rest = later;
            match stride {
                1 => held[start..].iter_mut().zip(now).for_each(|(h, &x)| *h = act(*h, term(x))),
                _ => {
                    let held = held[start..].iter_mut().step_by(stride);
                    held.zip(now).for_each(|(h, &x)| *h = act(*h, term(x)));
                }
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = folded;
    }
}

/// Rows whose lanes become one value together.
const GROUP: usize = 16;

/// Rows that are walked at once: where one waits for its last step, the others fill the time.
pub(in crate::programs) const ABREAST: usize = 4;

/// The partial results of the first rows of some.
#[inline(always)]
fn lanes_of<T: Copy, const ROWS: usize>(
    elements: &[T],
    length: usize,
    neutral: T,
    term: impl Fn(T) -> T + Copy,
    act: impl Fn(T, T) -> T + Copy,
) -> [[T; LANES]; ROWS] {
    let row = |nth: usize| elements[nth * length..][..length].as_chunks::<LANES>();
    let rows: [_; ROWS] = std::array::from_fn(row);
    let mut lanes = lanes_of_chunks(rows.map(|(chunks, _)| chunks), neutral, term, act);
    if !length.is_multiple_of(LANES) {
        add_rests(&mut lanes, rows.map(|(_, rest)| rest), term, act);
    }
    lanes
}

/// Written with indices, which keep all lanes in vector registers.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "iterators would go by way of memory")]
fn lanes_of_chunks<T: Copy, const ROWS: usize>(
    rows: [&[[T; LANES]]; ROWS],
    neutral: T,
    term: impl Fn(T) -> T + Copy,
    act: impl Fn(T, T) -> T + Copy,
) -> [[T; LANES]; ROWS] {
    let chunks = rows[0].len();
    let rows = rows.map(|row| &row[..chunks]);
    let mut lanes = [[neutral; LANES]; ROWS];
    for at in 0..chunks {
        for nth in 0..ROWS {
            for lane in 0..LANES {
                lanes[nth][lane] = act(lanes[nth][lane], term(rows[nth][at][lane]));
            }
        }
    }
    lanes
}

/// Combines the elements of rows that are no whole lanes. Not inlined: the compiler would take the lanes
/// apart for it, in the loop before, too.
#[inline(never)]
fn add_rests<T: Copy, const ROWS: usize>(
    lanes: &mut [[T; LANES]; ROWS],
    rests: [&[T]; ROWS],
    term: impl Fn(T) -> T,
    act: impl Fn(T, T) -> T,
) {
    for (lanes, rest) in lanes.iter_mut().zip(rests) {
        lanes.iter_mut().zip(rest).for_each(|(lane, &value)| *lane = act(*lane, term(value)));
    }
}

/// Each row's lanes as one value.
#[inline(always)]
pub(in crate::programs) fn values_of<T: Copy, const ROWS: usize>(
    lanes: &[[T; LANES]; ROWS],
    act: impl Fn(T, T) -> T + Copy,
) -> [T; ROWS] {
    let eight: [[T; 8]; ROWS] = halved(lanes, act);
    let four: [[T; 4]; ROWS] = halved(&eight, act);
    let two: [[T; 2]; ROWS] = halved(&four, act);
    halved(&two, act).map(|[value]| value)
}

/// The first half of each row's lanes with the second one.
#[inline(always)]
fn halved<T: Copy, const FROM: usize, const TO: usize, const ROWS: usize>(
    lanes: &[[T; FROM]; ROWS],
    act: impl Fn(T, T) -> T,
) -> [[T; TO]; ROWS] {
    let mut halves = [[lanes[0][0]; TO]; ROWS];
    for (half, lanes) in halves.iter_mut().zip(lanes) {
        for (at, half) in half.iter_mut().enumerate() {
            *half = act(lanes[at], lanes[at + FROM / 2]);
        }
    }
    halves
}

/// A row as one value.
#[inline(always)]
pub(in crate::programs) fn fold_row<T: Copy>(
    row: &[T],
    neutral: T,
    act: impl Fn(T, T) -> T + Copy,
) -> T {
    let lanes: [_; 1] = lanes_of(row, row.len(), neutral, |element| element, act);
    let [value] = values_of(&lanes, act);
    value
}
