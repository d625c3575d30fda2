use proptest::prelude::*;
use spyre_artifact::*;
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::DataFormat;

use crate::{random, samples};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_program_survives_its_bytes(tape in prop::collection::vec(any::<u16>(), 0..400)) {
        let program = random::program(&tape).expect("the author follows the rules");
        let bytes = program.encode();
        let decoded = Program::decode(&bytes).expect("its own bytes");
        prop_assert_eq!(&decoded, &program);
        prop_assert_eq!(decoded.encode(), bytes);
        prop_assert_eq!(decoded.to_string(), program.to_string());
        let declared = 1 + program.operands().len() + program.registers().len();
        let lines = program.to_string().lines().count();
        prop_assert_eq!(lines, declared + program.instructions().len());
    }

    #[test]
    fn every_code_image_survives_its_bytes(
        tape in prop::collection::vec(any::<u16>(), 0..200),
        constants in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let code = Code::Compute(random::program(&tape).expect("the author follows the rules"));
        let image = CodeImage::new(code, constants).expect("small");
        let bytes = image.encode();
        prop_assert_eq!(bytes.len() % 128, 0);
        prop_assert_eq!(CodeImage::decode(&bytes), Ok(image.clone()));
        prop_assert_eq!(Image::decode(&bytes), Ok(Image::Code(image)));
    }

    #[test]
    fn every_instance_survives_its_bytes(
        operands in 0_usize..=32,
        scalars in 0_usize..=256,
        code in any::<[u64; 3]>(),
        scratch_bytes in 0_u64..1 << 40,
        seed in any::<u64>(),
    ) {
        let shape = TableShape { operands, scalars };
        let mut entry = EntryImage::new(HandleWords(code), shape, scratch_bytes).expect("in range");
        let fill = |(at, word): (usize, &mut u64)| *word = seed.wrapping_mul(at as u64 | 1);
        entry.table_mut().iter_mut().enumerate().for_each(fill);
        let bytes = entry.encode();
        prop_assert_eq!(bytes.len(), entry.header().image_bytes());
        prop_assert_eq!(EntryHeader::decode(&bytes[..128]), Ok(*entry.header()));
        prop_assert_eq!(EntryImage::decode(&bytes), Ok(entry));
    }

    #[test]
    fn every_layout_survives_its_words(
        sizes in prop::collection::vec(1_usize..200, 1..6),
        at in 0_usize..4,
    ) {
        use DataFormat::{Bool, IeeeFp32, IeeeFp64, Sen169Fp16};
        let format = [Sen169Fp16, IeeeFp32, Bool, IeeeFp64][at];
        let layout = SpyreTensorLayout::contiguous(&sizes, format).expect("small");
        let words = OperandWords::of_layout(HandleWords([1, 2, 3]), 7, &layout).expect("small");
        let read = OperandWords::decode(&words.encode()).expect("its own words");
        prop_assert_eq!(read, words);
        let read = read.layout(format).expect("its own layout");
        let elements: usize = sizes.iter().product();
        for element in (0..elements).step_by(1 + elements / 64) {
            prop_assert_eq!(read.device_element(element), layout.device_element(element));
        }
    }
}

#[test]
fn a_correction_image_survives_its_bytes_and_its_input() -> Result<(), Error> {
    let (program, _) = CompilerOutput::full_correction(&samples::add()?)?;
    let mut image = CorrectionImage::new(HandleWords([4, 5, 6]), program);
    image.input_mut()[3] = 99;
    let mut bytes = image.encode();
    assert_eq!(CorrectionImage::decode(&bytes)?, image);

    // Each launch writes the input area: that is no damage.
    bytes[image.input_offset()..][..8].copy_from_slice(&7_u64.to_le_bytes());
    assert_eq!(CorrectionImage::decode(&bytes)?.input()[0], 7);
    Ok(())
}

#[test]
fn correction_fills_the_table_of_an_entry() -> Result<(), Error> {
    let program = samples::add()?;
    let (correction, metadata) = CompilerOutput::full_correction(&program)?;
    let mut entry = EntryImage::new(HandleWords::NONE, program.table_shape(), 0)?;
    entry.header().check_program(&program)?;
    assert_eq!(
        entry.operand(Operand(0)).expect("operand 0"),
        Err(Error::OperandWords(OperandFlaw::Unfilled))
    );

    let layout = SpyreTensorLayout::contiguous(&[100], DataFormat::IeeeFp16)?;
    let mut operand = OperandWords::of_layout(HandleWords([9, 9, 9]), 256, &layout)?;
    operand.strides[0] = 1;
    let mut input: Vec<u64> = operand.encode().repeat(3);
    input.extend([100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(input.len(), metadata.words.len());
    correction.apply(&input, entry.table_mut());

    assert_eq!(entry.operand(Operand(2)).expect("operand 2")?, operand);
    assert_eq!(entry.operand(Operand(3)), None);
    assert_eq!((entry.extent(Dim(0)), entry.extent(Dim(17))), (100, 0));
    Ok(())
}

#[test]
fn an_entry_of_another_shape_is_refused() -> Result<(), Error> {
    let shape = TableShape { operands: 2, scalars: 0 };
    let entry = EntryImage::new(HandleWords::NONE, shape, 0)?;
    let error = entry.header().check_program(&samples::add()?).expect_err("two of three");
    assert_eq!(error.to_string(), "operands of the word table: 2, but the program needs 3");
    assert!(
        EntryImage::new(HandleWords::NONE, TableShape { operands: 33, scalars: 0 }, 0).is_err()
    );
    Ok(())
}

#[test]
fn random_programs_use_every_instruction() -> Result<(), Error> {
    let mut opcodes = std::collections::BTreeSet::new();
    let mut state = 1_u32;
    for _ in 0..500 {
        let mut next = || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            (state >> 16) as u16
        };
        let tape: Vec<u16> = (0..400).map(|_| next()).collect();
        let program = random::program(&tape)?;
        opcodes.extend(program.instructions().iter().map(|code| code.encode()[0]));
    }
    assert_eq!(opcodes.len(), 25, "all but patch: {opcodes:x?}");
    Ok(())
}
