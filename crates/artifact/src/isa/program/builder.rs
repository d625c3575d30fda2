use spyre_numerics::DataFormat;

use super::{Access, Draft, OperandType, Program, Refusal, RegisterType};
use crate::Error;
use crate::isa::{
    BinaryOp, CompareOp, Constant, Coordinates, Dim, Instruction, Lane, MAX_DIMS, MAX_OPERANDS,
    MAX_REGISTERS, MAX_SCALARS, Operand, OrderOp, ReduceOp, Register, ScalarWord, ScanOp,
    ScatterOp, SeekOp, Span, Tile, UnaryOp,
};

/// Assembles a [`Program`]: loops are closures, registers come from the operations that fill them.
///
/// Nothing here fails: what breaks a rule is reported by [`ProgramBuilder::build`]. A register made
/// inside a loop or a [`when`](ProgramBuilder::when) means nothing after it, and its buffer is used
/// again.
///
/// The sum of each row:
/// ```
/// use spyre_artifact::{Access, Lane, ProgramBuilder, ReduceOp};
/// use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32};
///
/// let mut code = ProgramBuilder::new();
/// let (row, column) = (code.dim(), code.dim());
/// let x = code.operand(IeeeFp16, Access::Read, [row, column]);
/// let y = code.operand(IeeeFp32, Access::Write, [row]);
/// code.each_parallel(row, 64, |code| {
///     let sum = code.constant(Lane::F32, [row], 0.0);
///     code.each(column, 1024, |code| {
///         let tile = code.load(x);
///         code.reduce(ReduceOp::Sum, sum, tile);
///     });
///     code.store(y, sum);
/// });
/// assert_eq!(code.build()?.instructions().len(), 8);
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
///
/// A matrix product for one tile of `k` at a time: the partial sums wait in an f32 scratch tensor
/// between launches, and flags, patched at each launch, say whether this one is the first or last.
/// ```
/// use spyre_artifact::{Access, Lane, ProgramBuilder};
/// use spyre_numerics::DataFormat::{IeeeFp16, IeeeFp32};
///
/// let mut code = ProgramBuilder::new();
/// let (m, n, k) = (code.dim(), code.dim(), code.dim());
/// let (is_later, is_last) = (code.scalar_word(), code.scalar_word());
/// let a = code.operand(IeeeFp16, Access::Read, [m, k]);
/// let b = code.operand(IeeeFp16, Access::Read, [k, n]);
/// let c = code.operand(IeeeFp16, Access::Write, [m, n]);
/// let partial = code.operand(IeeeFp32, Access::Both, [m, n]);
/// code.each_parallel(m, 64, |code| {
///     code.each_parallel(n, 64, |code| {
///         let sum = code.constant(Lane::F32, [m, n], 0.0);
///         code.when(is_later, |code| code.load_into(sum, partial));
///         code.each(k, 256, |code| code.dot(sum, a, b, k));
///         code.store(partial, sum);
///         code.when(is_last, |code| code.store(c, sum)); // the one rounding
///     });
/// });
/// let text = code.build()?.to_string();
/// assert!(text.contains("
///     skip 1 unless s0
///       r0 = load o3
///     begin d2 tile 256
///       dot r0 o0 o1 over d2
///     end
///     store o3 r0
///     skip 1 unless s1
///       store o2 r0
/// "));
/// # Ok::<(), spyre_artifact::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    draft: Draft,
    /// Registers that no code after this place can mean: their buffers are free.
    free: Vec<Register>,
    /// Registers of each open block.
    owned: Vec<Vec<Register>>,
    /// The first thing that could not be written down.
    refusal: Option<Refusal>,
    /// True if no buffer is reused: a later pass lets registers share them.
    shares_later: bool,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty draft whose registers are each filled for one purpose, and may be thousands: for a
    /// pass that lets them share buffers, between [`ProgramBuilder::draft`] and [`Draft::verify`].
    pub fn with_registers_to_share() -> Self {
        Self { shares_later: true, ..Self::default() }
    }

    /// One more dim to walk over.
    pub fn dim(&mut self) -> Dim {
        self.draft.dims += 1;
        Dim(self.id(self.draft.dims, "dims", MAX_DIMS))
    }

    /// One more patched word.
    pub fn scalar_word(&mut self) -> ScalarWord {
        self.draft.scalars += 1;
        ScalarWord(self.id(self.draft.scalars, "scalars", MAX_SCALARS))
    }

    /// One more tensor; `span` holds the dims that move it.
    pub fn operand(
        &mut self,
        format: DataFormat,
        access: Access,
        span: impl Into<Span>,
    ) -> Operand {
        self.draft.operands.push(OperandType { format, access, span: span.into() });
        Operand(self.id(self.draft.operands.len(), "operands", MAX_OPERANDS))
    }

    /// A tile buffer that holds nothing yet.
    pub fn register(&mut self, lane: Lane, span: impl Into<Span>) -> Register {
        let wanted = RegisterType { lane, span: span.into() };
        let mut free = self.free.iter().filter(|_| !self.shares_later);
        let spare = free.position(|&register| self.type_of(register) == Some(wanted));
        let register = match spare {
            Some(at) => self.free.swap_remove(at),
            None => self.new_register(wanted),
        };
        if let Some(block) = self.owned.last_mut() {
            block.push(register);
        }
        register
    }

    /// Runs `body` for each tile of `dim`, in order; a tile of 0 is the whole dim.
    pub fn each(&mut self, dim: Dim, tile: impl Into<Tile>, body: impl FnOnce(&mut Self)) {
        self.nest(Instruction::Begin { dim, tile: tile.into(), is_parallel: false }, body);
    }

    /// Runs `body` for each tile of `dim`, in any order, also at once.
    pub fn each_parallel(&mut self, dim: Dim, tile: impl Into<Tile>, body: impl FnOnce(&mut Self)) {
        self.nest(Instruction::Begin { dim, tile: tile.into(), is_parallel: true }, body);
    }

    /// Runs `body` where the patched word is not zero; an empty one leaves nothing behind.
    pub fn when(&mut self, scalar: ScalarWord, body: impl FnOnce(&mut Self)) {
        self.skip(|instructions| Instruction::SkipUnless { scalar, instructions }, body);
    }

    /// Runs `body` where any element of the register is true; an empty one leaves nothing behind.
    pub fn when_any(&mut self, condition: Register, body: impl FnOnce(&mut Self)) {
        self.skip(|instructions| Instruction::SkipUnlessAny { condition, instructions }, body);
    }

    /// The operand's tile, in its format's own lane.
    pub fn load(&mut self, source: Operand) -> Register {
        let operand = self.draft.operands.get(source.index()).copied();
        let lane = operand.and_then(|operand| Lane::of(operand.format)).unwrap_or(Lane::F32);
        let target = self.register(lane, operand.map_or(Span::NONE, |operand| operand.span));
        self.load_into(target, source);
        target
    }

    /// The operand's tile, in a register that there is.
    pub fn load_into(&mut self, target: Register, source: Operand) {
        self.emit(Instruction::Load { target, source });
    }

    /// Writes the register's tile to device memory.
    pub fn store(&mut self, target: Operand, source: Register) {
        self.emit(Instruction::Store { target, source });
    }

    /// The operand's elements at these coordinates, in its format's own lane.
    pub fn gather(&mut self, source: Operand, at: Coordinates) -> Register {
        let operand = self.draft.operands.get(source.index()).copied();
        let lane = operand.and_then(|operand| Lane::of(operand.format)).unwrap_or(Lane::F32);
        let own = operand.map_or(Span::NONE, |operand| operand.span).minus(at.dims());
        let span = at.given().fold(own, |span, one| span | self.type_or_default(one.register).span);
        let target = self.register(lane, span);
        self.gather_into(target, source, at);
        target
    }

    /// The operand's elements at these coordinates, in a register that there is.
    pub fn gather_into(&mut self, target: Register, source: Operand, at: Coordinates) {
        self.emit(Instruction::Gather { target, source, at, keeps_outside: false });
    }

    /// Like [`gather_into`](Self::gather_into), where coordinates are inside; elsewhere the register
    /// stays as it is.
    pub fn gather_inside(&mut self, target: Register, source: Operand, at: Coordinates) {
        self.emit(Instruction::Gather { target, source, at, keeps_outside: true });
    }

    /// Combines a register's elements with those at these coordinates.
    pub fn scatter(
        &mut self,
        op: ScatterOp,
        target: Operand,
        source: Register,
        at: Coordinates,
        mask: Option<Register>,
    ) {
        self.emit(Instruction::Scatter { op, target, source, at, mask });
    }

    /// A register with one value everywhere.
    pub fn constant(
        &mut self,
        lane: Lane,
        span: impl Into<Span>,
        value: impl Into<Constant>,
    ) -> Register {
        let target = self.register(lane, span);
        self.emit(Instruction::Constant { target, value: value.into() });
        target
    }

    /// A patched word as one value.
    pub fn scalar(&mut self, lane: Lane, scalar: ScalarWord) -> Register {
        let target = self.register(lane, Span::NONE);
        self.emit(Instruction::Scalar { target, scalar });
        target
    }

    /// Coordinates along `dim`.
    pub fn index(&mut self, dim: Dim) -> Register {
        let target = self.register(Lane::I64, [dim]);
        self.emit(Instruction::Index { target, dim });
        target
    }

    /// The extent of `dim`, as one value.
    pub fn extent(&mut self, dim: Dim) -> Register {
        let target = self.register(Lane::I64, Span::NONE);
        self.emit(Instruction::Extent { target, dim });
        target
    }

    /// 32 random bits for each index: one of the four words that its counter gives.
    pub fn random(
        &mut self,
        word: u8,
        seed: Register,
        offset: Register,
        index: Register,
    ) -> Register {
        let span = self.joined(seed, offset).span | self.type_or_default(index).span;
        let target = self.register(Lane::I64, span);
        self.emit(Instruction::Random { word, target, seed, offset, index });
        target
    }

    /// One value in, one out.
    pub fn unary(&mut self, op: UnaryOp, source: Register) -> Register {
        let RegisterType { lane, span } = self.type_or_default(source);
        let target = self.register(op.result(lane).unwrap_or(lane), span);
        self.emit(Instruction::Unary { op, target, source });
        target
    }

    /// Two values in, one out.
    pub fn binary(&mut self, op: BinaryOp, left: Register, right: Register) -> Register {
        let RegisterType { lane, span } = self.joined(left, right);
        let target = self.register(op.result(lane).unwrap_or(lane), span);
        self.emit(Instruction::Binary { op, target, left, right });
        target
    }

    /// The sum of two registers.
    pub fn add(&mut self, left: Register, right: Register) -> Register {
        self.binary(BinaryOp::Add, left, right)
    }

    /// The product of two registers.
    pub fn mul(&mut self, left: Register, right: Register) -> Register {
        self.binary(BinaryOp::Mul, left, right)
    }

    /// Two values in, a truth value out.
    pub fn compare(&mut self, op: CompareOp, left: Register, right: Register) -> Register {
        let target = self.register(Lane::Bool, self.joined(left, right).span);
        self.emit(Instruction::Compare { op, target, left, right });
        target
    }

    /// `yes` where the condition is true, `no` elsewhere.
    pub fn select(&mut self, condition: Register, yes: Register, no: Register) -> Register {
        let RegisterType { lane, span } = self.joined(yes, no);
        let target = self.register(lane, span | self.type_or_default(condition).span);
        self.emit(Instruction::Select { target, condition, yes, no });
        target
    }

    /// Values of `source`, converted to another lane.
    pub fn convert(&mut self, lane: Lane, source: Register) -> Register {
        let target = self.register(lane, self.type_or_default(source).span);
        self.copy(target, source);
        target
    }

    /// Copies to a register that there is, from lane to lane.
    pub fn copy(&mut self, target: Register, source: Register) {
        self.emit(Instruction::Convert { target, source });
    }

    /// Values of `source`, rounded as by a store to `format` and a load.
    pub fn round(&mut self, source: Register, format: DataFormat) -> Register {
        let RegisterType { lane, span } = self.type_or_default(source);
        let target = self.register(lane, span);
        self.emit(Instruction::Round { target, source, format });
        target
    }

    /// Combines the source's tile into what `target` holds.
    pub fn reduce(&mut self, op: ReduceOp, target: Register, source: Register) {
        self.emit(Instruction::Reduce { op, target, source });
    }

    /// Adds the product of two operands' tiles over `k` to what `target` holds.
    pub fn dot(&mut self, target: Register, left: Operand, right: Operand, k: Dim) {
        self.emit(Instruction::Dot { target, left, right, k });
    }

    /// Prefix scan along `dim`: for each element, the result of all up to it and of what `carry` holds.
    pub fn scan(&mut self, op: ScanOp, source: Register, carry: Register, dim: Dim) -> Register {
        let RegisterType { lane, span } = self.type_or_default(source);
        let target = self.register(lane, span);
        self.emit(Instruction::Scan { op, target, source, carry, dim });
        target
    }

    /// Finds the sought element along `dim`, unless `value` and `place` hold a better one.
    pub fn seek(
        &mut self,
        op: SeekOp,
        value: Register,
        place: Register,
        source: Register,
        dim: Dim,
    ) {
        self.emit(Instruction::Seek { op, value, place, source, dim });
    }

    /// The places of all elements along `dim` in their order, and the elements.
    pub fn order(&mut self, op: OrderOp, source: Register, dim: Dim) -> [Register; 2] {
        let RegisterType { lane, span } = self.type_or_default(source);
        let places = self.register(Lane::I64, span);
        let values = self.register(lane, span);
        self.emit(Instruction::Order { op, places, values, source, dim });
        [places, values]
    }

    /// Adds the product of two registers, over the dims that `target` does not span, to what it
    /// holds.
    pub fn multiply(&mut self, target: Register, left: Register, right: Register) {
        self.emit(Instruction::Multiply { target, left, right });
    }

    /// Any instruction, as it is: where the others do not say what is meant.
    pub fn emit(&mut self, instruction: Instruction) {
        self.draft.instructions.push(instruction);
    }

    /// The program, if it follows all rules.
    pub fn build(self) -> Result<Program, Error> {
        self.draft()?.verify()
    }

    /// Draft of the program, to be worked on before it is verified.
    pub fn draft(self) -> Result<Draft, Error> {
        match self.refusal {
            Some(refusal) => Err(Error::Program(refusal)),
            None => Ok(self.draft),
        }
    }

    fn skip(&mut self, over: impl Fn(u32) -> Instruction, body: impl FnOnce(&mut Self)) {
        let at = self.draft.instructions.len();
        self.emit(over(0));
        self.block(body);
        match self.draft.instructions.len() - at - 1 {
            0 => self.draft.instructions.truncate(at),
            count => self.draft.instructions[at] = over(u32::try_from(count).unwrap_or(u32::MAX)),
        }
    }

    fn nest(&mut self, begin: Instruction, body: impl FnOnce(&mut Self)) {
        self.emit(begin);
        self.block(body);
        self.emit(Instruction::End);
    }

    /// Runs `body`; registers made inside it are free afterwards.
    fn block(&mut self, body: impl FnOnce(&mut Self)) {
        self.owned.push(Vec::new());
        body(self);
        self.free.extend(self.owned.pop().unwrap_or_default());
    }

    fn new_register(&mut self, wanted: RegisterType) -> Register {
        self.draft.registers.push(wanted);
        let count = self.draft.registers.len();
        let most = self.most_registers();
        if count > most {
            self.refuse("registers", count, most);
        }
        Register((count.min(most) - 1) as u16)
    }

    /// The id of the last of `count` things.
    fn id(&mut self, count: usize, what: &'static str, most: usize) -> u8 {
        if count > most {
            self.refuse(what, count, most);
        }
        (count - 1).min(most - 1) as u8
    }

    fn refuse(&mut self, what: &'static str, given: usize, most: usize) {
        self.refusal.get_or_insert(Refusal::TooMany { what, given, most });
    }

    fn most_registers(&self) -> usize {
        if self.shares_later { usize::from(u16::MAX) } else { MAX_REGISTERS }
    }

    fn type_of(&self, register: Register) -> Option<RegisterType> {
        self.draft.registers.get(register.index()).copied()
    }

    /// A register of another program is refused when this one is built.
    fn type_or_default(&self, register: Register) -> RegisterType {
        let none = RegisterType { lane: Lane::F32, span: Span::NONE };
        self.type_of(register).unwrap_or(none)
    }

    fn joined(&self, left: Register, right: Register) -> RegisterType {
        let left = self.type_or_default(left);
        let right = self.type_or_default(right);
        RegisterType { lane: left.lane, span: left.span | right.span }
    }
}
