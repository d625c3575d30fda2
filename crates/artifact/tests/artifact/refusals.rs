//! Every rule of a program, broken once.

use spyre_artifact::Instruction as I;
use spyre_artifact::*;
use spyre_numerics::DataFormat;

const D0: Dim = Dim(0);
const D1: Dim = Dim(1);

/// Registers: r0, r1 f32 [d0]; r2 f32 []; r3 i64 [d0]; r4 bool [d0]; r5 f32 [d0 d1]; r6 f64 [d0].
/// Operands: o0 read f16 [d0]; o1 write f16 [d0]; o2 both f32 []; o3 read f16 [d0 d1]; o4 read f64.
fn draft(instructions: Vec<Instruction>) -> Draft {
    let register = |lane: Lane, dims: &[Dim]| RegisterType { lane, span: Span::of(dims) };
    let operand = |format: DataFormat, access: Access, dims: &[Dim]| OperandType {
        format,
        access,
        span: Span::of(dims),
    };
    Draft {
        dims: 2,
        registers: vec![
            register(Lane::F32, &[D0]),
            register(Lane::F32, &[D0]),
            register(Lane::F32, &[]),
            register(Lane::I64, &[D0]),
            register(Lane::Bool, &[D0]),
            register(Lane::F32, &[D0, D1]),
            register(Lane::F64, &[D0]),
        ],
        operands: vec![
            operand(DataFormat::IeeeFp16, Access::Read, &[D0]),
            operand(DataFormat::IeeeFp16, Access::Write, &[D0]),
            operand(DataFormat::IeeeFp32, Access::Both, &[]),
            operand(DataFormat::IeeeFp16, Access::Read, &[D0, D1]),
            operand(DataFormat::IeeeFp64, Access::Read, &[D0]),
        ],
        scalars: 1,
        instructions,
    }
}

fn begin(dim: Dim) -> Instruction {
    I::Begin { dim, tile: Tile::All, is_parallel: false }
}

fn parallel(dim: Dim) -> Instruction {
    I::Begin { dim, tile: Tile::All, is_parallel: true }
}

fn load(target: u8, source: u8) -> Instruction {
    I::Load { target: Register(target.into()), source: Operand(source) }
}

fn store(target: u8, source: u8) -> Instruction {
    I::Store { target: Operand(target), source: Register(source.into()) }
}

fn zero(target: u8) -> Instruction {
    I::Constant { target: Register(target.into()), value: Constant::Float(0.0) }
}

fn add(target: u8, left: u8, right: u8) -> Instruction {
    let target = Register(target.into());
    let left = Register(left.into());
    let right = Register(right.into());
    I::Binary { op: BinaryOp::Add, target, left, right }
}

fn unary(op: UnaryOp, target: u8, source: u8) -> Instruction {
    I::Unary { op, target: Register(target.into()), source: Register(source.into()) }
}

fn reduce(op: ReduceOp, target: u8, source: u8) -> Instruction {
    I::Reduce { op, target: Register(target.into()), source: Register(source.into()) }
}

fn dot(target: u8, left: u8, right: u8, k: Dim) -> Instruction {
    I::Dot { target: Register(target.into()), left: Operand(left), right: Operand(right), k }
}

fn multiply(target: u16, left: u16, right: u16) -> Instruction {
    let target = Register(target);
    let left = Register(left);
    let right = Register(right);
    I::Multiply { target, left, right }
}

fn skip(instructions: u32) -> Instruction {
    I::SkipUnless { scalar: ScalarWord(0), instructions }
}

/// The refusal of the code, and the instruction that it names.
fn refusal(instructions: Vec<Instruction>) -> (Option<usize>, Refusal) {
    match draft(instructions).verify() {
        Err(Error::Instruction { at, refusal, .. }) => (Some(at), refusal),
        Err(Error::Program(refusal)) => (None, refusal),
        other => panic!("not refused by a rule: {other:?}"),
    }
}

fn refused(instructions: Vec<Instruction>, at: usize, words: &str) {
    let (found, refusal) = refusal(instructions);
    assert_eq!(found, Some(at), "{refusal}");
    assert!(refusal.to_string().contains(words), "{refusal} / {words}");
}

#[test]
fn the_draft_that_all_tests_break_is_sound() -> Result<(), Error> {
    let code = vec![begin(D0), load(0, 0), load(1, 0), add(1, 0, 1), store(1, 1), I::End];
    draft(code).verify().map(|_| ())
}

#[test]
fn rule_1_sizes() {
    let broken = |change: &dyn Fn(&mut Draft)| {
        let mut draft = draft(Vec::new());
        change(&mut draft);
        draft.verify().expect_err("refused").to_string()
    };
    assert_eq!(broken(&|draft| draft.dims = 17), "program: rule 1: 17 dims, at most 16");
    let wide = broken(&|draft| {
        draft.dims = 16;
        draft.operands[0].span = Span::from_bits(0x1FF);
    });
    assert!(wide.contains("9 dims of an operand, at most 8"), "{wide}");
    assert!(broken(&|draft| draft.dims = 1).contains("r5 spans [d0 d1], but the program has 1"));
    assert!(broken(&|draft| draft.scalars = 257).contains("257 scalars, at most 256"));
    assert!(
        broken(&|draft| draft.registers = vec![draft.registers[0]; 65]).contains("65 registers")
    );
    assert!(broken(&|draft| draft.operands = vec![draft.operands[0]; 33]).contains("33 operands"));
    assert!(broken(&|draft| draft.instructions = vec![I::End; 65537]).contains("at most 65536"));
    let complex = broken(&|draft| draft.operands[1].format = DataFormat::Complex64);
    assert!(complex.contains("o1 holds DataFormats.COMPLEX64"), "{complex}");
}

#[test]
fn rule_2_names() {
    refused(vec![begin(Dim(2))], 0, "d2 is not one of the program's 2 dims");
    refused(vec![zero(7)], 0, "r7 is not one of the program's 7 registers");
    refused(vec![begin(D0), load(0, 5)], 1, "o5 is not one of the program's 5 operands");
    refused(vec![begin(D0), store(99, 0)], 1, "o99 is not");
    let far = I::Scalar { target: Register(2), scalar: ScalarWord(1) };
    refused(vec![far], 0, "s1 is not one of the program's 1 scalars");
    refused(vec![I::SkipUnless { scalar: ScalarWord(3), instructions: 1 }], 0, "s3");
    refused(vec![zero(2), zero(255)], 1, "r255");
    let patch = I::Patch { source_word: 0, target_word: 0, words: 1 };
    refused(vec![patch], 0, "patches belong in correction programs");
}

#[test]
fn rule_3_loops() {
    refused(vec![I::End], 0, "no loop to end");
    assert_eq!(refusal(vec![begin(D0)]), (None, Refusal::BeginWithoutEnd { open: 1 }));
    refused(vec![begin(D0), begin(D1), begin(D0)], 2, "d0 is already open");
    let beside = vec![begin(D0), I::End, begin(D0), I::End];
    assert!(draft(beside).verify().is_ok());
}

#[test]
fn rule_4_skips() {
    refused(vec![skip(0)], 0, "skip of nothing");
    refused(vec![skip(2), zero(2)], 0, "reaches instruction 3, past the end");
    refused(vec![begin(D0), skip(2), zero(0), I::End, I::End], 3, "past the end of its block");
    refused(vec![skip(2), begin(D0), zero(0), I::End], 3, "past the end of its block");
    refused(vec![skip(2), skip(2), zero(2), zero(2)], 1, "reaches instruction 4");
    refused(vec![skip(u32::MAX), zero(2)], 0, "past the end");
    let deep = (0..9).map(|at| skip(9 - at)).chain([zero(2)]).collect();
    refused(deep, 8, "deeper than 8");
    let whole_loop = vec![skip(3), begin(D0), zero(0), I::End, zero(2)];
    assert!(draft(whole_loop).verify().is_ok());
    let any = |condition| I::SkipUnlessAny { condition: Register(condition), instructions: 1 };
    refused(vec![begin(D0), any(4), zero(0)], 1, "r4 is read before every path has written it");
    refused(vec![begin(D0), zero(0), any(0), zero(2)], 2, "r0 has lane f32, expected bool");
    let false_everywhere = I::Constant { target: Register(4), value: Constant::Bool(false) };
    refused(vec![begin(D0), false_everywhere, any(4)], 2, "past the end");
    let sound = vec![begin(D0), false_everywhere, any(4), zero(0), I::End];
    assert!(draft(sound).verify().is_ok());
}

#[test]
fn rule_5_open_dims() {
    refused(vec![zero(0)], 0, "r0 spans [d0], but only [] is open here");
    refused(vec![begin(D1), load(0, 0)], 1, "o0 spans [d0], but only [d1]");
    refused(vec![zero(2), store(1, 2)], 1, "o1 spans [d0]");
    refused(vec![begin(D0), zero(0), dot(0, 3, 3, D1)], 2, "o3 spans [d0 d1], but only [d0]");
}

#[test]
fn rule_6_written_before_read() {
    refused(vec![begin(D0), store(1, 0)], 1, "r0 is read before every path has written it");
    refused(vec![begin(D0), load(0, 0), add(1, 0, 1)], 2, "r1 is read");
    refused(vec![begin(D0), load(0, 0), I::End, begin(D0), store(1, 0)], 4, "r0 is read");
    refused(vec![skip(1), zero(2), store(2, 2)], 2, "r2 is read");
    refused(vec![begin(D0), load(0, 0), reduce(ReduceOp::Sum, 2, 0)], 2, "r2 is read");
    refused(vec![begin(D0), begin(D1), dot(0, 3, 3, D1)], 2, "r0 is read");
}

#[test]
fn rule_7_loads_and_stores() {
    refused(vec![begin(D0), load(0, 1)], 1, "o1 is declared as write");
    refused(vec![begin(D0), zero(0), store(0, 0)], 2, "o0 is declared as read");
    refused(vec![begin(D0), load(2, 0)], 1, "o0 spans [d0], which does not fit r2 over []");
    refused(vec![begin(D0), zero(0), store(2, 0)], 2, "o2 spans [], which does not fit r0");
    refused(vec![begin(D0), load(3, 0)], 1, "r3 of lane i64 cannot carry");
    refused(vec![begin(D0), load(0, 4)], 1, "r0 of lane f32 cannot carry DataFormats.IEEE_FP64");
    let broadcast = vec![begin(D0), load(0, 2), zero(2), store(1, 2), I::End];
    assert!(draft(broadcast).verify().is_ok());
}

#[test]
fn rule_8_elementwise() {
    let loaded = |last: Instruction| vec![begin(D0), load(0, 0), zero(2), last];
    refused(loaded(add(2, 0, 2)), 3, "r2 spans [], but its inputs span [d0] together");
    refused(loaded(add(0, 2, 2)), 3, "r0 spans [d0], but its inputs span []");
    refused(loaded(add(3, 0, 0)), 3, "r3 has lane i64, expected f32");
    refused(loaded(unary(UnaryOp::Not, 0, 0)), 3, "r0 has lane f32, expected one that");
    refused(loaded(unary(UnaryOp::IsNan, 0, 0)), 3, "r0 has lane f32, expected bool");
    let index = I::Index { target: Register(0), dim: D0 };
    refused(loaded(index), 3, "r0 has lane f32, expected i64");
    let index = I::Index { target: Register(3), dim: D1 };
    refused(loaded(index), 3, "r3 spans [d0], but its inputs span [d1]");
    let value = Constant::Int(1);
    refused(loaded(I::Constant { target: Register(0), value }), 3, "expected i64");
    let target = Register(0);
    let yes = Register(0);
    let no = Register(0);
    let select = I::Select { target, condition: Register(0), yes, no };
    refused(loaded(select), 3, "r0 has lane f32, expected bool");
    let target = Register(0);
    let source = Register(0);
    let round = I::Round { target, source, format: DataFormat::IeeeInt32 };
    refused(loaded(round), 3, "r0 of lane f32 cannot carry DataFormats.IEEE_INT32");
    let convert = I::Convert { target: Register(2), source };
    refused(loaded(convert), 3, "r2 spans []");
    let op = CompareOp::Less;
    let target = Register(4);
    let mixed = I::Compare { op, target, left: Register(0), right: Register(6) };
    let code = vec![begin(D0), load(0, 0), zero(6), mixed];
    refused(code, 3, "r6 has lane f64, expected f32");
}

#[test]
fn rule_9_reductions() {
    let loaded = |last: Instruction| vec![begin(D0), load(0, 0), zero(2), zero(1), last];
    refused(loaded(reduce(ReduceOp::Sum, 1, 0)), 4, "expected some but not all dims of [d0]");
    refused(loaded(reduce(ReduceOp::Sum, 0, 2)), 4, "r0 spans [d0]");
    refused(loaded(reduce(ReduceOp::Any, 2, 0)), 4, "r0 has lane f32, expected one that");
    let mixed = vec![begin(D0), zero(6), zero(2), reduce(ReduceOp::Sum, 2, 6)];
    refused(mixed, 3, "r2 has lane f32, expected the source's");
}

#[test]
fn rule_8_random_bits_and_extents() {
    let indexed =
        |last: Instruction| vec![begin(D0), I::Index { target: Register(3), dim: D0 }, last];
    let random = |word: u8, target: u16, seed: u16| {
        let target = Register(target);
        let seed = Register(seed);
        I::Random { word, target, seed, offset: Register(3), index: Register(3) }
    };
    refused(indexed(random(4, 3, 3)), 2, "a counter gives 4 words, not one more at 4");
    refused(indexed(random(0, 0, 3)), 2, "r0 has lane f32, expected i64");
    refused(indexed(random(0, 3, 2)), 2, "r2 is read before every path has written it");
    assert!(draft([indexed(random(3, 3, 3)), vec![I::End]].concat()).verify().is_ok());
    let extent = |target: u16, dim: Dim| I::Extent { target: Register(target), dim };
    refused(indexed(extent(3, D1)), 2, "r3 spans [d0], but its inputs span [] together");
    refused(indexed(extent(2, D1)), 2, "r2 has lane f32, expected i64");
    refused(indexed(extent(3, Dim(2))), 2, "d2 is not one of the program's 2 dims");
}

#[test]
fn rule_9_what_goes_along_a_dim() {
    let index = I::Index { target: Register(3), dim: D0 };
    let ready = |last: Instruction| vec![begin(D0), load(0, 0), zero(2), zero(6), index, last];
    let scan = |op: ScanOp, target: u16, source: u16, carry: u16, dim: Dim| {
        let target = Register(target);
        let source = Register(source);
        let carry = Register(carry);
        I::Scan { op, target, source, carry, dim }
    };
    refused(ready(scan(ScanOp::Sum, 1, 2, 2, D0)), 5, "r2 spans [], so nothing goes along d0");
    refused(ready(scan(ScanOp::Sum, 1, 0, 2, D1)), 5, "r0 spans [d0], so nothing goes along d1");
    refused(ready(scan(ScanOp::Sum, 1, 0, 6, D0)), 5, "r6 spans [d0], expected []");
    refused(ready(scan(ScanOp::Sum, 1, 3, 2, D0)), 5, "r2 has lane f32, expected the source's");
    refused(ready(scan(ScanOp::LogSumExp, 3, 3, 2, D0)), 5, "r3 has lane i64, expected one that");
    refused(ready(scan(ScanOp::Sum, 6, 0, 2, D0)), 5, "r6 has lane f64, expected f32");
    let ended = |last: Instruction| draft([ready(last), vec![I::End]].concat()).verify();
    assert!(ended(scan(ScanOp::Sum, 0, 0, 2, D0)).is_ok());

    let seek = |value: u16, place: u16, source: u16| {
        let value = Register(value);
        let place = Register(place);
        let source = Register(source);
        I::Seek { op: SeekOp::ArgMax, value, place, source, dim: D0 }
    };
    refused(ready(seek(2, 2, 0)), 5, "r2 would hold two results at once");
    refused(ready(seek(2, 3, 0)), 5, "r3 spans [d0], expected []");
    refused(ready(seek(2, 5, 0)), 5, "r5 is read before every path has written it");

    let order = |places: u16, values: u16, source: u16| {
        let places = Register(places);
        let values = Register(values);
        let source = Register(source);
        I::Order { op: OrderOp::Ascending, places, values, source, dim: D0 }
    };
    refused(ready(order(3, 3, 3)), 5, "r3 would hold two results at once");
    refused(ready(order(3, 6, 0)), 5, "r6 has lane f64, expected f32");
    assert!(ended(order(3, 0, 0)).is_ok());
    let mut cut = ready(order(3, 1, 0));
    cut[0] = I::Begin { dim: D0, tile: Tile::from(8), is_parallel: false };
    refused(cut, 5, "the loop over d0 cuts what is sorted along it");
}

#[test]
fn rule_11_a_scan_does_not_go_along_a_parallel_loop() {
    let target = Register(0);
    let source = Register(0);
    let carry = Register(2);
    let scan = I::Scan { op: ScanOp::Sum, target, source, carry, dim: D0 };
    refused(vec![zero(2), parallel(D0), load(0, 0), scan], 3, "r2 held a value before");
}

#[test]
fn rule_10_dot() {
    let zeroed = |last: Instruction| vec![begin(D0), begin(D1), zero(0), zero(5), last];
    refused(zeroed(dot(0, 3, 0, D1)), 4, "d1 is not spanned by both o3 and o0");
    refused(zeroed(dot(5, 3, 3, D1)), 4, "r5 spans [d0 d1], but its inputs span [d0]");
    refused(zeroed(dot(0, 3, 4, D0)), 4, "r0 of lane f32 cannot carry DataFormats.IEEE_FP64");
    refused(zeroed(dot(0, 3, 1, D1)), 4, "o1 is declared as write");
    refused(zeroed(dot(0, 3, 3, Dim(5))), 4, "d5 is not one of");
    let mut wrong_lane = zeroed(dot(4, 3, 3, D1));
    wrong_lane[2] = I::Constant { target: Register(4), value: Constant::Bool(false) };
    refused(wrong_lane, 4, "r4 has lane bool, expected f32 or f64");
    for sound in [dot(0, 3, 3, D1), dot(2, 3, 3, D1)] {
        let code = [vec![begin(D0), begin(D1), zero(0), zero(2), sound, I::End, I::End]].concat();
        assert!(draft(code).verify().is_ok(), "{sound:?}");
    }
}

#[test]
fn rule_10_multiply() {
    let zeroed = |last: Instruction| vec![begin(D0), begin(D1), zero(0), zero(2), zero(5), last];
    refused(zeroed(multiply(5, 5, 5)), 5, "r5 spans [d0 d1], expected all dims of r5 over [d0 d1]");
    refused(zeroed(multiply(2, 5, 0)), 5, "but some that both span");
    refused(zeroed(multiply(5, 0, 0)), 5, "r5 spans [d0 d1]");
    refused(zeroed(multiply(1, 5, 5)), 5, "r1 is read");
    refused(zeroed(multiply(0, 5, 1)), 5, "r1 is read");
    let mut mixed = zeroed(multiply(6, 5, 5));
    mixed.insert(5, zero(6));
    refused(mixed, 6, "r5 has lane f32, expected f64");
    let mut truths = zeroed(multiply(4, 4, 4));
    truths.insert(5, I::Constant { target: Register(4), value: Constant::Bool(false) });
    refused(truths, 6, "r4 has lane bool, expected f32, f64 or i64");
    for sound in [multiply(0, 5, 5), multiply(2, 0, 0), multiply(2, 5, 5)] {
        let code = zeroed(sound).into_iter().chain([I::End, I::End]).collect();
        assert!(draft(code).verify().is_ok(), "{sound}");
    }
}

#[test]
fn rule_11_parallel_loops() {
    let sum = vec![zero(2), parallel(D0), load(0, 0), reduce(ReduceOp::Sum, 2, 0)];
    refused(sum, 3, "r2 held a value before the parallel loop over d0");
    let race = vec![parallel(D0), begin(D1), zero(2), store(2, 2)];
    refused(race, 3, "tiles of the parallel loop over d0 would all write one part of o2");
}

#[test]
fn rule_12_patches() {
    let refuse = |patches: Vec<Patch>| CorrectionProgram::new(4, 8, patches).expect_err("refused");
    let patch = |source_word, target_word, words| Patch { source_word, target_word, words };
    let error = refuse(vec![patch(0, 0, 1), patch(1, 7, 2)]).to_string();
    assert!(error.starts_with("instruction 1, `patch 2 words from input 1 to table 7`"), "{error}");
    assert!(error.contains("target ends at word 9, past 8"), "{error}");
    assert!(refuse(vec![patch(3, 0, 2)]).to_string().contains("source ends at word 5, past 4"));
    assert!(refuse(vec![patch(0, 0, 0)]).to_string().contains("no words"));
    assert!(refuse(vec![patch(u32::MAX, 0, u32::MAX)]).to_string().contains("8589934590"));
    assert!(
        refuse(vec![patch(0, 2, 2), patch(0, 1, 2)])
            .to_string()
            .contains("word 2 is patched twice")
    );
    assert!(CorrectionProgram::new(5000, 1, Vec::new()).is_err());
}

#[test]
fn an_unknown_opcode_says_where() -> Result<(), Error> {
    let mut bytes = draft(vec![begin(D0), I::End]).verify()?.encode();
    let at = bytes.len() - 16;
    bytes[at] = 0x7E;
    let error = Program::decode(&bytes).expect_err("unknown").to_string();
    assert_eq!(error, format!("instruction, byte {at}: opcode is 0x7e, expected a known opcode"));
    bytes[at] = 0x02;
    bytes[at + 9] = 1;
    let error = Program::decode(&bytes).expect_err("spare bits").to_string();
    assert_eq!(error, format!("instruction, byte {}: unused byte is 0x1, expected 0x0", at + 9));
    Ok(())
}

#[test]
fn a_correction_program_holds_patches_only() -> Result<(), Error> {
    let mut bytes = CorrectionProgram::new(1, 1, Vec::new())?.encode();
    bytes[8] = 1;
    bytes.extend(I::End.encode());
    let error = CorrectionProgram::decode(&bytes).expect_err("no patch").to_string();
    assert!(error.contains("holds patches only"), "{error}");
    Ok(())
}

#[test]
fn a_builder_that_runs_out_says_of_what() {
    let mut code = ProgramBuilder::new();
    for _ in 0..65 {
        code.constant(Lane::F32, Span::NONE, 0.0);
    }
    let error = code.build().expect_err("65 registers").to_string();
    assert_eq!(error, "program: rule 1: 65 registers, at most 64");
    let mut code = ProgramBuilder::new();
    for _ in 0..300 {
        code.dim();
    }
    assert!(code.build().is_err());
}

/// Registers of the draft that all tests break, as coordinates of axis 0.
fn along(dim: Dim, register: u16) -> Coordinates {
    let one = Coordinate { axis: 0, dim, register: Register(register) };
    Coordinates::new(&[one]).expect("one axis")
}

fn gather(target: u16, source: u8, at: Coordinates) -> Instruction {
    let target = Register(target);
    let source = Operand(source);
    I::Gather { target, source, at, keeps_outside: false }
}

fn scatter(op: ScatterOp, target: u8, source: u16, at: Coordinates) -> Instruction {
    I::Scatter { op, target: Operand(target), source: Register(source), at, mask: None }
}

#[test]
fn rule_13_coordinates() -> Result<(), Error> {
    let places = I::Index { target: Register(3), dim: D0 };
    let around = |inside: Vec<Instruction>| {
        let mut code = vec![begin(D0), places, zero(0)];
        code.extend(inside);
        code
    };
    // d1 is not open: only a coordinate moves along it.
    draft([around(vec![gather(0, 3, along(D1, 3))]), vec![I::End]].concat()).verify()?;

    refused(around(vec![gather(0, 3, along(D0, 3))]), 3, "o3 spans [d1], but only [d0] is open");
    refused(around(vec![gather(0, 0, along(D1, 3))]), 3, "d1 is not part of it");
    refused(around(vec![gather(2, 0, along(D0, 3))]), 3, "not all of the [d0] that it needs");
    refused(around(vec![gather(0, 0, along(D0, 0))]), 3, "r0 has lane f32, expected i64");
    refused(vec![begin(D0), gather(0, 0, along(D0, 3))], 1, "r3 is read before");
    refused(around(vec![gather(0, 1, along(D0, 3))]), 3, "o1 is declared as write");
    refused(around(vec![scatter(ScatterOp::Set, 0, 0, along(D0, 3))]), 3, "declared as read");
    refused(around(vec![scatter(ScatterOp::Add, 1, 0, along(D0, 3))]), 3, "declared as write");
    let keeps = I::Gather {
        target: Register(1),
        source: Operand(0),
        at: along(D0, 3),
        keeps_outside: true,
    };
    refused(around(vec![keeps]), 3, "r1 is read before");
    let masked = I::Scatter {
        op: ScatterOp::Set,
        target: Operand(1),
        source: Register(0),
        at: along(D0, 3),
        mask: Some(Register(0)),
    };
    refused(around(vec![masked]), 3, "r0 has lane f32, expected bool");
    let shared = vec![parallel(D0), places, zero(0), scatter(ScatterOp::Set, 1, 0, along(D0, 3))];
    refused(shared, 3, "would all write one part of o1");
    Ok(())
}

#[test]
fn rule_13_what_is_gathered_across_tiles_is_not_stored_by_them() {
    let places = I::Index { target: Register(3), dim: D0 };
    for is_stored_first in [true, false] {
        let mut pair = vec![gather(0, 1, along(D0, 3)), store(1, 1)];
        if is_stored_first {
            pair.reverse();
        }
        let code = [vec![parallel(D0), places, zero(1)], pair].concat();
        let mut draft = draft(code);
        draft.operands[1].access = Access::Both;
        let error = draft.verify().expect_err("refused").to_string();
        assert!(error.contains("would read what others write of o1"), "{error}");
    }
}
