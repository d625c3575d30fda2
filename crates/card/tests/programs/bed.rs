//! A card with programs and tensors on it, every allocation between sentinels.

use spyre_artifact::{
    Code, CodeImage, CorrectionImage, Dim, EntryImage, Operand, OperandWords, Program, ScalarWord,
    Span,
};
use spyre_card::{SoftwareCard, Threads, handle_words};
use spyre_hal::{
    ControlBlock, CopyFromDevice, CopyToDevice, DeviceHandle, DeviceRange, EngineIndex, HandleTag,
    Hardware, HostBuffer, Label, Location, MemoryMode, Outcome, RegionId, Regions, Started, Token,
    VFDeviceHandle,
};
use spyre_layout::SpyreTensorLayout;
use spyre_numerics::{DataFormat, Scalar};

/// Byte between allocations, and in padding: NaN in every float format.
const POISON: u8 = 0xff;
const STICK: u64 = 128;
const COPIES: EngineIndex = EngineIndex(0);
/// Engine that programs run on: to abort its block ends no copy.
pub(crate) const LAUNCHES: EngineIndex = EngineIndex(1);

pub(crate) struct Bed {
    pub(crate) card: SoftwareCard,
    region: u16,
    used_bytes: u64,
    /// Storages whose padding and surroundings must stay as they are.
    watched: Vec<Tensor>,
}

/// A storage on the card, and the view of it that a program has.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) handle: DeviceHandle,
    pub(crate) layout: SpyreTensorLayout,
    pub(crate) offset: i64,
    pub(crate) strides: Vec<i64>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::on(SoftwareCard::new(MemoryMode::Vf))
    }

    pub(crate) fn with_threads(threads: usize) -> Self {
        Self::on(SoftwareCard::new(MemoryMode::Vf).with_threads(Threads::new(threads)))
    }

    pub(crate) fn on(card: SoftwareCard) -> Self {
        let card = card.with_engines(2).guarded();
        let region = card.try_allocate(64 << 20).expect("there are eight");
        Self { card, region: region.id.0, used_bytes: 0, watched: Vec::new() }
    }

    /// Room for so many bytes, all poison, with a stick of it on both sides.
    pub(crate) fn allocate(&mut self, bytes: usize) -> DeviceHandle {
        let room = (bytes as u64).next_multiple_of(STICK) + 2 * STICK;
        let handle = self.handle(self.used_bytes);
        let poison = vec![POISON; room as usize];
        self.write(handle, &poison);
        self.used_bytes += room;
        self.handle(self.used_bytes - room + STICK)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> DeviceHandle {
        let handle = self.allocate(bytes.len());
        self.write(handle, bytes);
        handle
    }

    /// Like [`put`](Self::put), in an allocation for programs.
    pub(crate) fn put_program(&mut self, bytes: &[u8]) -> DeviceHandle {
        let handle = self.allocate(bytes.len());
        let room = (bytes.len() as u64).next_multiple_of(STICK);
        self.protect(handle, room);
        self.write(handle, bytes);
        handle
    }

    pub(crate) fn protect(&self, handle: DeviceHandle, bytes: u64) {
        self.card.protect(RegionId(self.region), offset(handle), bytes);
    }

    pub(crate) fn unprotect(&self, handle: DeviceHandle, bytes: u64) {
        self.card.unprotect(RegionId(self.region), offset(handle), bytes);
    }

    pub(crate) fn put_code(&mut self, program: &Program) -> DeviceHandle {
        self.put_program(&code_image(program))
    }

    pub(crate) fn put_correction(&mut self, image: &CorrectionImage) -> DeviceHandle {
        self.put_program(&image.encode())
    }

    /// A storage whose element `i` is `value(i)`; padding is poison.
    pub(crate) fn tensor(
        &mut self,
        size: &[usize],
        format: DataFormat,
        value: impl Fn(usize) -> f32,
    ) -> Tensor {
        let layout = SpyreTensorLayout::contiguous(size, format).expect("a layout");
        let mut bytes = vec![POISON; layout.device_bytes()];
        for element in 0..size.iter().product() {
            let at = layout.device_byte(element).expect("it has a place");
            let encoded = encode(value(element), format);
            bytes[at..at + encoded.len()].copy_from_slice(&encoded);
        }
        let handle = self.put(&bytes);
        let mut strides = vec![1; size.len()];
        for dim in (1..size.len()).rev() {
            strides[dim - 1] = strides[dim] * size[dim] as i64;
        }
        let tensor = Tensor { handle, layout, offset: 0, strides };
        self.watched.push(tensor.clone());
        tensor
    }

    /// Lets padding change from now on: for programs that may do anything.
    pub(crate) fn watch_nothing(&mut self) {
        self.watched.clear();
    }

    /// Returns true if all that is no element of a storage is poison still, up to its neighbours.
    fn is_poison_around(&self, tensor: &Tensor) -> bool {
        let width = tensor.layout.device_dtype().element_bytes().expect("whole bytes");
        let mut bytes = self.surroundings(tensor);
        for element in 0..tensor.layout.storage_elements().unwrap_or(0) {
            let at = STICK as usize + tensor.layout.device_byte(element).expect("it has a place");
            bytes[at..at + width].fill(POISON);
        }
        bytes.iter().all(|&byte| byte == POISON)
    }

    /// The value of a host element of a storage.
    pub(crate) fn element(&self, tensor: &Tensor, element: usize) -> f32 {
        let format = tensor.layout.device_dtype();
        let at = tensor.layout.device_byte(element).expect("it has a place") as u64;
        let bytes = format.element_bytes().expect("whole bytes") as u64;
        let range = DeviceRange { handle: tensor.handle, offset: at, bytes };
        Scalar::decode(format, &self.read(range)).expect("an element").to_f32()
    }

    /// The bytes of a storage, with the sentinels around it.
    pub(crate) fn surroundings(&self, tensor: &Tensor) -> Vec<u8> {
        let handle = self.handle(offset(tensor.handle) - STICK);
        let bytes = tensor.layout.device_bytes() as u64 + 2 * STICK;
        self.read(DeviceRange::start_of(handle, bytes))
    }

    pub(crate) fn run(&self, program: DeviceHandle) -> Outcome {
        self.start(LAUNCHES, ControlBlock::launch(program, Label::default()))
    }

    pub(crate) fn write(&self, handle: DeviceHandle, bytes: &[u8]) {
        self.write_at(handle, 0, bytes);
    }

    pub(crate) fn write_at(&self, handle: DeviceHandle, offset: u64, bytes: &[u8]) {
        let target = DeviceRange { handle, offset, bytes: bytes.len() as u64 };
        let copy = CopyToDevice { source: bytes.to_vec().into(), target, nest: None };
        assert_eq!(self.start(COPIES, ControlBlock::CopyToDevice(Box::new(copy))), Ok(()));
    }

    pub(crate) fn read(&self, source: DeviceRange) -> Vec<u8> {
        let host = HostBuffer::zeroed(source.bytes as usize);
        let target = host.lend_to_write().expect("no block uses it");
        let copy = CopyFromDevice { source, target, nest: None };
        assert_eq!(self.start(COPIES, ControlBlock::CopyFromDevice(Box::new(copy))), Ok(()));
        host.read().expect("it is back").to_vec()
    }

    pub(crate) fn start(&self, engine: EngineIndex, block: ControlBlock) -> Outcome {
        match self.card.start(engine, Token(0), block) {
            Started::Done(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn handle(&self, vf_offset: u64) -> DeviceHandle {
        let place = VFDeviceHandle { region_id: self.region, vf_offset };
        DeviceHandle::vf(place, HandleTag { epoch: 0, generation: 0, slot: 0 })
    }
}

/// Whatever a test launched, it wrote elements only.
impl Drop for Bed {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let strayed = self.watched.iter().position(|tensor| !self.is_poison_around(tensor));
            assert_eq!(strayed, None, "padding or a neighbour of this tensor was written");
        }
    }
}

fn offset(handle: DeviceHandle) -> u64 {
    match handle.location() {
        Location::Vf(place) => place.vf_offset,
        Location::Pf(_) => panic!("a VF card"),
    }
}

impl Tensor {
    /// View of the same storage, with another offset and other strides.
    pub(crate) fn seen(&self, offset: i64, strides: &[i64]) -> Self {
        Self { offset, strides: strides.to_vec(), ..self.clone() }
    }

    /// Its words for a program that spans some dims of it.
    pub(crate) fn words(&self, span: Span) -> OperandWords {
        let limit_bytes = self.layout.device_bytes() as u64;
        let words = OperandWords::of_layout(handle_words(self.handle), limit_bytes, &self.layout);
        let mut words = words.expect("small");
        words.offset = self.offset;
        let is_spanned = |(dim, _): &(usize, &i64)| span.contains(Dim(*dim as u8));
        let strides = self.strides.iter().enumerate();
        let others = strides.clone().filter(|stride| !is_spanned(stride) && *stride.1 != 0);
        let own = strides.filter(is_spanned).chain(others);
        words.strides.iter_mut().zip(own).for_each(|(word, (_, stride))| *word = *stride);
        words
    }
}

pub(crate) fn code_image(program: &Program) -> Vec<u8> {
    let image = CodeImage::new(Code::Compute(program.clone()), Vec::new());
    image.expect("small").encode()
}

pub(crate) fn encode(value: f32, format: DataFormat) -> Vec<u8> {
    Scalar::Single(value).encode(format).expect("an addressable format")
}

/// Value as it is after it was stored in a format.
pub(crate) fn rounded(value: f32, format: DataFormat) -> f32 {
    Scalar::decode(format, &encode(value, format)).expect("an element").to_f32()
}

/// An instance with its table filled by hand.
pub(crate) fn entry(
    code: DeviceHandle,
    program: &Program,
    tensors: &[Tensor],
    extents: &[u64],
    scalars: &[u64],
) -> EntryImage {
    let shape = program.table_shape();
    let mut entry = EntryImage::new(handle_words(code), shape, 0).expect("small");
    fill_table(entry.table_mut(), program, tensors, extents, scalars);
    entry
}

pub(crate) fn fill_table(
    table: &mut [u64],
    program: &Program,
    tensors: &[Tensor],
    extents: &[u64],
    scalars: &[u64],
) {
    let shape = program.table_shape();
    for (at, tensor) in tensors.iter().enumerate() {
        table[shape.operand_words(Operand(at as u8))]
            .copy_from_slice(&tensor.words(program.operands()[at].span).encode());
    }
    for (at, &extent) in extents.iter().enumerate() {
        table[shape.extent_word(Dim(at as u8))] = extent;
    }
    for (at, &scalar) in scalars.iter().enumerate() {
        table[shape.scalar_word(ScalarWord(at as u8))] = scalar;
    }
}
