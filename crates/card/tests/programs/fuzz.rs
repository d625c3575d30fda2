//! Hostile images and tables: whatever the bytes, a launch ends and nothing else is touched.

use spyre_artifact::{
    Access, BinaryOp, CompareOp, Coordinate, Coordinates, CorrectionImage, CorrectionProgram,
    EntryImage, Lane, OPERAND_WORDS, OrderOp, Patch, Program, ProgramBuilder, ReduceOp, ScanOp,
    ScatterOp, SeekOp, UnaryOp,
};
use spyre_card::{SoftwareCard, handle_words};
use spyre_hal::{DeviceHandle, DeviceRange, Fault, MemoryMode, Outcome};
use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32, IeeeInt64};

use crate::bed::{Bed, Tensor, code_image, entry};

const ROUNDS: usize = 200_000;
/// Enough for the launch as it should be, ten times over: none takes long.
const MOST_WORK: u64 = 10_000_000;

/// Marsaglia's xorshift: the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A number that a check may have forgotten: small, at an edge of its type, or any.
    fn word(&mut self) -> u64 {
        let near = self.next() % 5;
        match self.below(6) {
            0 => near,
            1 => near.wrapping_neg(),
            2 => (1_u64 << self.below(64)).wrapping_add(near).wrapping_sub(2),
            3 => i64::MAX as u64 - 2 + near,
            4 => self.next() % 300,
            _ => self.next(),
        }
    }
}

/// A little of everything: loops, loads, a product, reductions, choices, stores.
fn everything() -> Program {
    let mut code = ProgramBuilder::new();
    let m = code.dim();
    let n = code.dim();
    let k = code.dim();
    let v = code.dim();
    let flag = code.scalar_word();
    let limit = code.scalar_word();
    let a = code.operand(IeeeFp16, Access::Read, [m, k]);
    let b = code.operand(IeeeFp32, Access::Read, [k, n]);
    let c = code.operand(IeeeFp32, Access::Both, [m, n]);
    let counts = code.operand(IeeeInt64, Access::Write, [m]);
    let table = code.operand(IeeeFp32, Access::Read, [n, v]);
    let bins = code.operand(IeeeFp16, Access::Both, [m, v]);
    code.each_parallel(m, 4, |code| {
        code.each(n, 30, |code| {
            let sum = code.constant(Lane::F32, [m, n], 0.0);
            code.when(flag, |code| code.load_into(sum, c));
            code.each(k, 16, |code| code.dot(sum, a, b, k));
            let root = code.unary(UnaryOp::Exp, sum);
            let place = code.index(n);
            let limit = code.scalar(Lane::I64, limit);
            let is_early = code.compare(CompareOp::Less, place, limit);
            let chosen = code.select(is_early, root, sum);
            let chosen = code.round(chosen, IeeeFp16);
            code.store(c, chosen);
            let entries = code.constant(Lane::I64, [], 5_i64);
            let entry = code.binary(BinaryOp::Modulo, place, entries);
            let along = Coordinate { axis: 1, dim: v, register: entry };
            let at = Coordinates::new(&[along]).expect("one axis");
            let found = code.gather(table, at);
            let found = code.add(found, chosen);
            code.gather_inside(found, bins, at);
            code.scatter(ScatterOp::Add, bins, found, at, Some(is_early));
        });
        let count = code.constant(Lane::I64, [m], 0_i64);
        let [best, at] = [0, -1].map(|start: i64| code.constant(Lane::I64, [m], start));
        let carry = code.constant(Lane::F64, [m], 0.0);
        code.each(k, 0, |code| {
            let tile = code.load(a);
            let [places, sorted] = code.order(OrderOp::Descending, tile, k);
            let summed = code.scan(ScanOp::Sum, sorted, carry, k);
            let summed = code.convert(Lane::I64, summed);
            let length = code.extent(k);
            let index = code.index(k);
            let bits = code.random(1, summed, length, index);
            let mixed = code.binary(BinaryOp::Xor, bits, places);
            code.seek(SeekOp::ArgMax, best, at, mixed, k);
            code.reduce(ReduceOp::Max, count, mixed);
            let whole = code.convert(Lane::I64, tile);
            code.multiply(count, whole, whole);
        });
        let count = code.add(count, at);
        code.store(counts, count);
    });
    code.build().expect("it follows the rules")
}

/// Images and tensors of a launch, on one card, and how they were before anything was changed.
struct Range {
    bed: Bed,
    code: DeviceHandle,
    instance: DeviceHandle,
    corrector: DeviceHandle,
    program: Program,
    entry: EntryImage,
    correction: CorrectionImage,
    tensors: Vec<Tensor>,
    sentinel: Tensor,
}

impl Range {
    fn new() -> Self {
        let card = SoftwareCard::new(MemoryMode::Vf).with_most_work(MOST_WORK);
        let mut bed = Bed::on(card);
        let program = everything();
        let small = |at: usize| (at % 5) as f32 - 2.0;
        let sentinel = bed.tensor(&[4096], IeeeFp32, small);
        let tensors = vec![
            bed.tensor(&[9, 33], IeeeFp16, small).seen(0, &[33, 0, 1]),
            bed.tensor(&[33, 65], IeeeFp32, small).seen(0, &[0, 1, 65]),
            bed.tensor(&[9, 65], IeeeFp32, small),
            bed.tensor(&[9], IeeeInt64, small),
            bed.tensor(&[65, 5], IeeeFp32, small).seen(0, &[0, 5, 0, 1]),
            bed.tensor(&[9, 5], IeeeFp16, small).seen(0, &[5, 0, 0, 1]),
        ];
        bed.watch_nothing(); // a hostile table may name any byte of a storage
        let code = bed.put_code(&program);
        let entry = entry(code, &program, &tensors, &[9, 65, 33, 5], &[1, 40]);
        let instance = bed.put_program(&entry.encode());
        let words = entry.table().len() as u32;
        let patch = Patch { source_word: 0, target_word: 0, words };
        let patches = CorrectionProgram::new(words, words, vec![patch]).expect("inside");
        let mut correction = CorrectionImage::new(handle_words(instance), patches);
        correction.input_mut().copy_from_slice(entry.table());
        let corrector = bed.put_program(&correction.encode());
        Self { bed, code, instance, corrector, program, entry, correction, tensors, sentinel }
    }

    /// Puts everything back that a round may have changed, but for numbers in tensors.
    fn restore(&self) {
        self.bed.write(self.code, &code_image(&self.program));
        self.bed.write(self.instance, &self.entry.encode());
        self.bed.write(self.corrector, &self.correction.encode());
    }

    /// A few words of the table that a launch reads, by hand or by correction.
    fn change_table(&self, random: &mut Random) -> Outcome {
        let mut table = self.entry.table().to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(table.len());
            // Handles and limits of what is stored stay: with others, other bytes are its own.
            let is_stored = matches!(at / OPERAND_WORDS, 2 | 3 | 5);
            if !is_stored || at % OPERAND_WORDS >= 4 {
                table[at] = random.word();
            }
        }
        if random.below(2) == 0 {
            let mut entry = self.entry.clone();
            entry.table_mut().copy_from_slice(&table);
            self.bed.write(self.instance, &entry.encode());
        } else {
            let mut correction = self.correction.clone();
            correction.input_mut().copy_from_slice(&table);
            self.bed.write(self.corrector, &correction.encode());
            assert_eq!(self.bed.run(self.corrector), Ok(()), "words may be anything");
        }
        self.bed.run(self.instance)
    }

    /// Bytes of an image, its checksum left as it was.
    fn change_image(&self, random: &mut Random) -> Outcome {
        let (place, mut image) = match random.below(3) {
            0 => (self.code, code_image(&self.program)),
            1 => (self.instance, self.entry.header().encode()),
            _ => (self.corrector, self.correction.encode()),
        };
        for _ in 0..1 + random.below(4) {
            let at = random.below(image.len());
            image[at] = random.next() as u8;
        }
        self.bed.write(place, &image);
        let launched = if place == self.corrector { place } else { self.instance };
        self.bed.run(launched)
    }

    /// Code with bytes changed, where it still is a program.
    fn change_code(&self, random: &mut Random) -> Outcome {
        let mut bytes = self.program.encode();
        for _ in 0..1 + random.below(2) {
            let at = random.below(bytes.len());
            bytes[at] =
                if random.below(2) == 0 { random.below(20) as u8 } else { random.next() as u8 };
        }
        let Ok(program) = Program::decode(&bytes) else { return Ok(()) };
        self.bed.write(self.code, &code_image(&program));
        self.bed.run(self.instance)
    }
}

fn check_outcome(outcome: &Outcome) {
    let is_known = matches!(
        outcome,
        Ok(())
            | Err(Fault::BadProgram { .. }
                | Fault::BadOperand { .. }
                | Fault::IllegalAccess { .. }
                | Fault::IndexOutOfRange { .. }
                | Fault::DivisionByZero)
    );
    assert!(is_known, "{outcome:?}");
}

#[test]
fn no_bytes_make_a_launch_panic_hang_or_leave_its_operands() {
    let range = Range::new();
    assert_eq!(range.bed.run(range.corrector), Ok(()));
    assert_eq!(range.bed.run(range.instance), Ok(()));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut tally = [0_usize; 2];
    let guarded = |range: &Range| {
        let mut all = range.bed.surroundings(&range.sentinel);
        for tensor in &range.tensors {
            let around = range.bed.surroundings(tensor);
            all.extend(&around[..128]);
            all.extend(&around[around.len() - 128..]);
        }
        all
    };
    let before = guarded(&range);
    for round in 0..ROUNDS {
        let outcome = match round % 4 {
            0 | 1 => range.change_table(&mut random),
            2 => range.change_image(&mut random),
            _ => range.change_code(&mut random),
        };
        check_outcome(&outcome);
        tally[usize::from(outcome.is_ok())] += 1;
        range.restore();
    }
    assert!(tally.iter().all(|&count| count > ROUNDS / 20), "faults and successes: {tally:?}");
    assert!(guarded(&range) == before, "something else was touched");
    let image = DeviceRange::start_of(range.code, code_image(&range.program).len() as u64);
    assert!(range.bed.read(image) == code_image(&range.program));
}
