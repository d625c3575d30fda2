//! Programs are data in device memory: what lies there is what runs, and nothing that is no program.

use std::collections::BTreeSet;

use spyre::artifact::{
    Access, Code, CodeImage, Dim, EntryImage, HEADER_BYTES, HandleWords, Operand, OperandWords,
    Program, ProgramBuilder, Register,
};
use spyre::card::SoftwareCard;
use spyre::flex::{Context, Error, FlexStream, Priority, SchedulerSettings, Settings};
use spyre::hal::{DeviceHandle, DeviceRange, HostBuffer, MemoryMode};
use spyre::layout::SpyreTensorLayout;
use spyre::numerics::DataFormat::IeeeFp32;

const ELEMENTS: usize = 70;
const BYTES: u64 = 3 * 128;
const CRC: std::ops::Range<usize> = HEADER_BYTES - 4..HEADER_BYTES;

/// y = f(x), number by number.
fn program(f: impl Fn(&mut ProgramBuilder, Register) -> Register) -> Vec<u8> {
    let program = built(f);
    CodeImage::new(Code::Compute(program), Vec::new()).expect("small").encode()
}

fn built(f: impl Fn(&mut ProgramBuilder, Register) -> Register) -> Program {
    let mut code = ProgramBuilder::new();
    let i = code.dim();
    let x = code.operand(IeeeFp32, Access::Read, [i]);
    let y = code.operand(IeeeFp32, Access::Write, [i]);
    code.each_parallel(i, 32, |code| {
        let tile = code.load(x);
        let result = f(code, tile);
        code.store(y, result);
    });
    code.build().expect("it follows the rules")
}

fn twice() -> Vec<u8> {
    program(|code, x| code.add(x, x))
}

fn square() -> Vec<u8> {
    program(|code, x| code.mul(x, x))
}

/// Makes an image's checksum right again.
fn seal(image: &mut [u8]) {
    let mut crc = Crc::new();
    crc.update(&image[..CRC.start]);
    crc.update(&image[HEADER_BYTES..]);
    image[CRC].copy_from_slice(&crc.finish().to_le_bytes());
}

/// CRC-32, bit by bit.
struct Crc(u32);

impl Crc {
    fn new() -> Self {
        Self(u32::MAX)
    }

    fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 ^= u32::from(byte);
            for _ in 0..8 {
                self.0 = self.0 >> 1 ^ (0xedb8_8320 * (self.0 & 1));
            }
        }
    }

    fn finish(self) -> u32 {
        !self.0
    }
}

/// A card with two tensors, and an instance of whatever code lies at a handle.
struct Bed {
    context: Context,
    stream: FlexStream,
    x: DeviceHandle,
    y: DeviceHandle,
}

impl Bed {
    fn open() -> Result<Self, Error> {
        let card = std::sync::Arc::new(SoftwareCard::new(MemoryMode::Vf));
        // A program that was made to run for hours by a bit is ended.
        let watchdog_nanoseconds = Some(200_000_000);
        let scheduler = SchedulerSettings { watchdog_nanoseconds, ..SchedulerSettings::default() };
        let machine = std::sync::Arc::new(spyre::flex::Machine::default());
        let context = Context::open_with(card, Settings::default(), scheduler, machine)?;
        let stream = context.stream(Priority::Low)?;
        let x = stream.allocate(BYTES)?;
        let y = stream.allocate(BYTES)?;
        let numbers: Vec<u8> = (0..96_u8).flat_map(|at| f32::from(at).to_le_bytes()).collect();
        stream.copy_to_device(numbers, DeviceRange::start_of(x, BYTES))?;
        Ok(Self { context, stream, x, y })
    }

    fn put(&self, image: &[u8]) -> Result<DeviceHandle, Error> {
        let handle = self.stream.allocate_program(image.len() as u64)?;
        self.write(handle, image)?;
        Ok(handle)
    }

    fn write(&self, handle: DeviceHandle, image: &[u8]) -> Result<(), Error> {
        let target = DeviceRange::start_of(handle, image.len() as u64);
        self.stream.copy_to_device(image.to_vec(), target)?;
        Ok(())
    }

    /// The instance that runs the code at a handle.
    fn entry(&self, code: DeviceHandle) -> Vec<u8> {
        let shape = built(|code, x| code.add(x, x)).table_shape();
        let mut entry = EntryImage::new(HandleWords(code.to_words()), shape, 0).expect("small");
        let layout = SpyreTensorLayout::contiguous(&[ELEMENTS], IeeeFp32).expect("a layout");
        for (at, tensor) in [self.x, self.y].into_iter().enumerate() {
            let words = OperandWords::of_layout(HandleWords(tensor.to_words()), BYTES, &layout);
            let mut words = words.expect("small");
            words.strides[0] = 1;
            let place = shape.operand_words(Operand(at as u8));
            entry.table_mut()[place].copy_from_slice(&words.encode());
        }
        entry.table_mut()[shape.extent_word(Dim(0))] = ELEMENTS as u64;
        entry.encode()
    }

    /// Result of an instance for x; after a fault the stream goes on.
    fn run(&self, entry: DeviceHandle) -> Result<Vec<u8>, Error> {
        self.stream.fill(DeviceRange::start_of(self.y, BYTES), 0xff_u8)?;
        self.stream.launch(entry)?;
        if let Err(error) = self.stream.synchronize() {
            self.stream.reset()?;
            return Err(error);
        }
        let host = HostBuffer::zeroed(BYTES as usize);
        self.stream.copy_from_device(DeviceRange::start_of(self.y, BYTES), &host)?;
        self.stream.synchronize()?;
        Ok(host.read()?.to_vec())
    }

    fn refusal(&self, program: DeviceHandle) -> String {
        self.run(program).expect_err("it is no program").to_string()
    }
}

/// Bytes of y after f; no program writes the padding.
fn expected(f: impl Fn(f32) -> f32) -> Vec<u8> {
    let mut bytes = vec![0xff; BYTES as usize];
    for at in 0..ELEMENTS {
        bytes[4 * at..][..4].copy_from_slice(&f(at as f32).to_le_bytes());
    }
    bytes
}

#[test]
fn every_flipped_bit_is_found() -> Result<(), Error> {
    let bed = Bed::open()?;
    let image = twice();
    let code = bed.put(&image)?;
    let entry = bed.put(&bed.entry(code))?;
    let good = bed.run(entry)?;
    assert_eq!(good, expected(|x| x + x));

    for bit in 0..8 * image.len() {
        let mut flipped = image.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        bed.write(code, &flipped)?;
        let refusal = bed.refusal(entry);
        assert!(refusal.contains("holds no program that runs"), "bit {bit}: {refusal}");
    }
    bed.write(code, &image)?;
    assert_eq!(bed.run(entry)?, good);
    Ok(())
}

#[test]
fn a_flipped_bit_with_a_good_checksum_is_refused_or_is_another_program() -> Result<(), Error> {
    let bed = Bed::open()?;
    let image = twice();
    let code = bed.put(&image)?;
    let entry = bed.put(&bed.entry(code))?;
    let good = bed.run(entry)?;

    let mut refusals = BTreeSet::new();
    let mut others = 0;
    for bit in (0..8 * image.len()).filter(|bit| !CRC.contains(&(bit / 8))) {
        let mut flipped = image.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        seal(&mut flipped);
        bed.write(code, &flipped)?;
        // It is what a decoder says it is: no bit is without a meaning.
        let decoded = CodeImage::decode(&flipped);
        match bed.run(entry) {
            Ok(result) => {
                assert!(decoded.is_ok(), "bit {bit}");
                others += usize::from(result != good);
            }
            Err(error) => drop(refusals.insert(error.to_string())),
        }
    }
    assert!(refusals.len() > 20 && others > 0, "{} refusals, {others} results", refusals.len());
    bed.write(code, &image)?;
    assert_eq!(bed.run(entry)?, good);
    Ok(())
}

#[test]
fn a_program_is_the_same_wherever_it_lies() -> Result<(), Error> {
    let bed = Bed::open()?;
    let image = twice();
    let here = bed.put(&image)?;
    let there = bed.put(&image)?;
    assert_ne!(here, there);
    let entry = bed.put(&bed.entry(here))?;
    let result = bed.run(entry)?;

    bed.write(here, &vec![0; image.len()])?; // no launch may still read here
    bed.write(entry, &bed.entry(there))?;
    assert_eq!(bed.run(entry)?, result);
    Ok(())
}

#[test]
fn what_was_written_last_is_what_runs() -> Result<(), Error> {
    let bed = Bed::open()?;
    let code = bed.put(&twice())?;
    let entry = bed.put(&bed.entry(code))?;
    for _ in 0..3 {
        bed.write(code, &twice())?;
        assert_eq!(bed.run(entry)?, expected(|x| x + x));
        bed.write(code, &square())?;
        assert_eq!(bed.run(entry)?, expected(|x| x * x));
    }

    // One copy of a part is enough, and one that leaves half a program is a fault.
    let one = twice();
    let other = square();
    assert_eq!(one.len(), other.len());
    let differing: Vec<usize> = (0..one.len()).filter(|&at| one[at] != other[at]).collect();
    for &at in &differing {
        let target = DeviceRange { handle: code, offset: at as u64, bytes: 1 };
        bed.stream.copy_to_device(vec![one[at]], target)?;
        if at != differing[differing.len() - 1] {
            assert!(bed.refusal(entry).contains("checksum"));
        }
    }
    assert_eq!(bed.run(entry)?, expected(|x| x + x));
    Ok(())
}

#[test]
fn memory_that_is_freed_and_taken_again_holds_the_new_program() -> Result<(), Error> {
    let bed = Bed::open()?;
    let mut places = BTreeSet::new();
    for round in 0..6 {
        let code = bed.put(&if round % 2 == 0 { twice() } else { square() })?;
        let entry = bed.put(&bed.entry(code))?;
        places.insert(code.to_words()[0]);
        let f = |x: f32| if round % 2 == 0 { x + x } else { x * x };
        assert_eq!(bed.run(entry)?, expected(f), "round {round}");
        bed.context.free(code)?;
        let refusal = bed.refusal(entry);
        assert!(refusal.contains("code") || refusal.contains("program"), "{refusal}");
        bed.context.free(entry)?;
    }
    assert!(places.len() < 6, "the same places come round again");
    Ok(())
}

#[test]
fn what_is_no_instance_cannot_be_launched() -> Result<(), Error> {
    let bed = Bed::open()?;
    let code = bed.put(&twice())?;
    let text = bed.refusal(code);
    assert!(text.contains("it is shared code: launch an entry image of it"), "{text}");

    let garbage = bed.put(&[0xa5; 512])?;
    let text = bed.refusal(garbage);
    assert!(text.contains("magic is 0xa5a5a5a5a5a5a5a5"), "{text}");
    let empty = bed.put(&[0; 512])?;
    assert!(bed.refusal(empty).contains("magic is 0x0"));
    let short = bed.put(&twice()[..128])?;
    let text = bed.refusal(short);
    assert!(text.contains("are left of its allocation"), "{text}");

    let entry = bed.put(&bed.entry(garbage))?;
    assert!(bed.refusal(entry).contains("magic"));
    bed.write(entry, &bed.entry(bed.x))?;
    assert!(bed.refusal(entry).contains("not in an allocation for programs"));
    bed.write(entry, &bed.entry(entry))?;
    let text = bed.refusal(entry);
    assert!(text.contains("what it names as its code is none"), "{text}");
    Ok(())
}
