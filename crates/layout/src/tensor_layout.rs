mod dims;
mod tiled;

use std::fmt;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;
use spyre_numerics::{DType, DataFormat, Profile, STICK_BYTES};

use crate::digits::Digits;
use crate::nest::split;
use crate::view::row_major;
use crate::{Access, Dims, ElementArrangement, Error, View};
use tiled::Tiling;

/// The most device dimensions a layout can have.
const MAX_DEVICE_RANK: usize = 8;
/// Past this no host element is addressable: 16 bytes is the widest.
const MAX_HOST_STRIDE: i64 = i64::MAX / 16;
/// The most host dimensions the card tiles; beyond it the outer ones are collapsed.
const CARD_RANK: usize = 6;

/// Layout of a storage in device memory, in sticks of 128 bytes.
///
/// Device dimensions are row-major and the last one is a stick; `stride_map` gives, per device
/// dimension, the host elements that one step spans (0 replicates, -1 is synthetic: only its first
/// position is used). A layout belongs to a *storage*: it maps each host element to one place, and
/// a PyTorch view is composed with it.
///
/// Two layouts are equal when device size, stride map, format and arrangement are; the host shape
/// that the storage was made with is a note on the side.
///
/// ```
/// use spyre_layout::SpyreTensorLayout;
/// use spyre_numerics::DataFormat::Sen169Fp16;
///
/// let layout = SpyreTensorLayout::contiguous(&[512, 256], Sen169Fp16)?;
/// assert_eq!(
///     layout.to_string(),
///     "SpyreTensorLayout(device_size=[4, 512, 64], stride_map =[64, 256, 1], \
///      device_dtype=DataFormats.SEN169_FP16)"
/// );
/// assert_eq!(layout.stick_dims()?, [1]);
/// assert_eq!(layout.device_element(64), Some(512 * 64)); // the second stick of row 0
/// # Ok::<(), spyre_layout::Error>(())
/// ```
#[derive(Clone)]
pub struct SpyreTensorLayout {
    device_size: Dims,
    stride_map: SmallVec<[i64; 8]>,
    /// The stride map without dimensions that are known to be padding.
    placing_map: SmallVec<[i64; 8]>,
    device_dtype: DataFormat,
    element_arrangement: ElementArrangement,
    dma_sizes: Dims,
    dma_strides: Dims,
    /// Host elements of the storage, if the host shape is known.
    storage_elements: Option<usize>,
    /// Tiling that made it, if one did.
    tiling: Option<Tiling>,
    digits: Digits,
}

/// The name that the stick layout proposal gives to [`SpyreTensorLayout`].
pub type SpyreDeviceLayout = SpyreTensorLayout;

impl SpyreTensorLayout {
    /// The default layout of a row-major tensor: the last dimension is the stick dimension.
    pub fn contiguous(host_size: &[usize], device_dtype: DataFormat) -> Result<Self, Error> {
        let stride = row_major(host_size).ok_or_else(|| too_large(host_size))?;
        let order: SmallVec<[i64; 8]> = (0..host_size.len() as i64).collect();
        Self::with_dim_order(host_size, &stride, device_dtype, &order)
    }

    /// The default layout that `profile` gives to a tensor of `dtype`, with its limits.
    ///
    /// ```
    /// use spyre_layout::SpyreTensorLayout;
    /// use spyre_numerics::{DType, Profile};
    ///
    /// let ranks = [2; 7];
    /// assert!(SpyreTensorLayout::for_dtype(Profile::Open, &ranks, DType::Float16).is_ok());
    /// let refused = SpyreTensorLayout::for_dtype(Profile::Card, &ranks, DType::Float16);
    /// assert!(refused.unwrap_err().to_string().starts_with("Unsupported tensor rank 7"));
    /// ```
    pub fn for_dtype(profile: Profile, host_size: &[usize], dtype: DType) -> Result<Self, Error> {
        let format = profile.supported_format(dtype)?;
        Self::check_rank(profile, host_size.len())?;
        Self::contiguous(host_size, format)
    }

    /// Refuses a tensor with more dimensions than `profile` tiles.
    pub fn check_rank(profile: Profile, rank: usize) -> Result<(), Error> {
        match profile {
            Profile::Card if rank > CARD_RANK => Err(Error::Rank { rank, max: CARD_RANK }),
            Profile::Card | Profile::Open => Ok(()),
        }
    }

    /// The layout of a tensor whose dimensions are tiled in `dim_order`, the stick dimension last.
    ///
    /// A -1 behind the dimensions makes it sparse: one host element per stick.
    pub fn with_dim_order(
        host_size: &[usize],
        host_stride: &[usize],
        device_dtype: DataFormat,
        dim_order: &[i64],
    ) -> Result<Self, Error> {
        let per_stick = elements_per_stick(device_dtype)?;
        let shape = tiled::by_dim_order(host_size, host_stride, per_stick, dim_order)?;
        Self::from_tiling(shape, host_size, host_stride, device_dtype)
    }

    /// The layout of a tensor whose `stick_dims` are each padded to whole sticks.
    ///
    /// The last of them runs along the stick. With several, the others are blocked by as many
    /// elements as a stick holds, and blocks are contiguous; with none, the layout is sparse.
    ///
    /// ```
    /// use spyre_layout::SpyreTensorLayout;
    /// use spyre_numerics::DataFormat::IeeeFp16;
    ///
    /// let blocks = SpyreTensorLayout::with_stick_dims(&[100, 200], &[200, 1], IeeeFp16, &[0, 1])?;
    /// assert_eq!(blocks.device_size(), [4, 2, 64, 64]);
    /// assert_eq!(blocks.stride_map(), [64, 12800, 200, 1]);
    /// # Ok::<(), spyre_layout::Error>(())
    /// ```
    pub fn with_stick_dims(
        host_size: &[usize],
        host_stride: &[usize],
        device_dtype: DataFormat,
        stick_dims: &[usize],
    ) -> Result<Self, Error> {
        let per_stick = elements_per_stick(device_dtype)?;
        let shape = tiled::by_stick_dims(host_size, host_stride, per_stick, stick_dims)?;
        Self::from_tiling(shape, host_size, host_stride, device_dtype)
    }

    /// A layout given in full. Its host shape is unknown until [`SpyreTensorLayout::for_host`].
    pub fn explicit(
        device_size: &[usize],
        stride_map: &[i64],
        device_dtype: DataFormat,
    ) -> Result<Self, Error> {
        let device_size = device_size.into();
        let stride_map = stride_map.into();
        Self::assemble(device_size, stride_map, device_dtype, ElementArrangement::Standard)
    }

    /// Returns this layout for a storage of this host shape; refused if an element has no place.
    pub fn for_host(mut self, host_size: &[usize], host_stride: &[usize]) -> Result<Self, Error> {
        let host = View::new(host_size, host_stride, 0)?;
        self.placing_map = self.stride_map.clone(); // what was padding for another host may not be
        self.digits = self.new_digits(self.element_arrangement);
        if self.element_arrangement_is_published() {
            match self.without_spare_sticks(&host) {
                Some(layout) => self = layout,
                None => split::check_covered(&host, &self)?,
            }
        }
        self.storage_elements = Some(host.last_element().map_or(0, |last| last + 1));
        let is_same = self.dma_sizes[..] == *host_size && self.dma_strides[..] == *host_stride;
        if !is_same {
            self.tiling = None;
        }
        self.dma_sizes = host_size.into();
        self.dma_strides = host_stride.into();
        Ok(self)
    }

    /// Returns this layout with another order of elements inside sticks.
    #[must_use]
    pub fn with_element_arrangement(self, element_arrangement: ElementArrangement) -> Self {
        let digits = self.new_digits(element_arrangement);
        Self { element_arrangement, digits, ..self }
    }

    /// Elements along each device dimension.
    pub fn device_size(&self) -> &[usize] {
        &self.device_size
    }

    /// Host elements that one step along each device dimension spans.
    pub fn stride_map(&self) -> &[i64] {
        &self.stride_map
    }

    /// The stride map that places elements: [`SpyreTensorLayout::stride_map`] with -1 for a dimension
    /// that is known to be padding. An explicit layout made from it places every element alike.
    pub fn placing_map(&self) -> &[i64] {
        &self.placing_map
    }

    /// The format of an element on the device.
    pub fn device_dtype(&self) -> DataFormat {
        self.device_dtype
    }

    /// The order of elements inside sticks.
    pub fn element_arrangement(&self) -> ElementArrangement {
        self.element_arrangement
    }

    /// The host size that the storage was made with; empty if unknown.
    pub fn dma_sizes(&self) -> &[usize] {
        &self.dma_sizes
    }

    /// The host strides that the storage was made with; empty if unknown.
    pub fn dma_strides(&self) -> &[usize] {
        &self.dma_strides
    }

    /// Elements in one stick.
    pub fn elements_per_stick(&self) -> usize {
        self.device_dtype.elements_per_stick()
    }

    /// Elements of the device allocation, padding included.
    pub fn device_elements(&self) -> usize {
        self.device_size.iter().product()
    }

    /// Bytes of the device allocation: whole sticks.
    pub fn device_bytes(&self) -> usize {
        self.device_elements() / self.elements_per_stick() * STICK_BYTES
    }

    /// Host elements of the storage; `None` if the host shape is unknown.
    pub fn storage_elements(&self) -> Option<usize> {
        self.storage_elements
    }

    /// Returns true if a view shows every element of the storage, each once.
    pub fn is_filled_by(&self, view: &View) -> bool {
        let elements = self.storage_elements.unwrap_or_else(|| self.device_elements());
        view.elements() == elements && view.is_disjoint()
    }

    /// Place of a host element, in device elements; `None` if it has none.
    pub fn device_element(&self, host_element: usize) -> Option<usize> {
        let inside = self.storage_elements.is_none_or(|elements| host_element < elements);
        inside.then(|| self.digits.locate(host_element)).flatten()
    }

    /// Place of a host element, in bytes from the start of the allocation.
    pub fn device_byte(&self, host_element: usize) -> Option<usize> {
        let bytes = STICK_BYTES / self.elements_per_stick();
        self.device_element(host_element).map(|element| element * bytes)
    }

    /// The host element that lies at a device element; `None` for padding and for replicas. Gaps
    /// between the elements of a host shape are elements of the storage too.
    pub fn host_element(&self, device_element: usize) -> Option<usize> {
        if device_element >= self.device_elements() {
            return None;
        }
        let levels = self.digits.levels().ok()?;
        let host = levels.iter().try_fold(0_usize, |host, digit| {
            let coordinate = device_element / digit.stride % digit.extent;
            host.checked_add(coordinate.checked_mul(digit.radix)?)
        })?;
        (self.device_element(host) == Some(device_element)).then_some(host)
    }

    /// The host element whose bytes include this one, counted from the start of the allocation.
    pub fn host_at_byte(&self, device_byte: usize) -> Option<usize> {
        self.host_element(device_byte / (STICK_BYTES / self.elements_per_stick()))
    }

    /// Classifies how a view of the storage lies over its sticks.
    pub fn access(&self, view: &View) -> Result<Access, Error> {
        self.check_inside(view)?;
        split::classify(view, self)
    }

    /// Refuses a view that reaches past the storage.
    pub(crate) fn check_inside(&self, view: &View) -> Result<(), Error> {
        match (view.last_element(), self.storage_elements) {
            (Some(last), Some(elements)) if last >= elements => {
                Err(Error::ViewOutside { last, elements })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn digits(&self) -> &Digits {
        &self.digits
    }

    fn from_tiling(
        shape: tiled::Shape,
        host_size: &[usize],
        host_stride: &[usize],
        device_dtype: DataFormat,
    ) -> Result<Self, Error> {
        let size = shape.device_size;
        let map = shape.stride_map;
        let mut layout = Self::assemble(size, map, device_dtype, ElementArrangement::Standard)?
            .for_host(host_size, host_stride)?;
        layout.tiling = Some(shape.tiling);
        Ok(layout)
    }

    fn assemble(
        device_size: Dims,
        stride_map: SmallVec<[i64; 8]>,
        device_dtype: DataFormat,
        element_arrangement: ElementArrangement,
    ) -> Result<Self, Error> {
        check_shape(&device_size, &stride_map, device_dtype)?;
        let digits = Digits::new(&device_size, &stride_map, element_arrangement);
        Ok(Self {
            device_size,
            placing_map: stride_map.clone(),
            stride_map,
            device_dtype,
            element_arrangement,
            dma_sizes: Dims::new(),
            dma_strides: Dims::new(),
            storage_elements: None,
            tiling: None,
            digits,
        })
    }

    fn new_digits(&self, arrangement: ElementArrangement) -> Digits {
        Digits::new(&self.device_size, &self.placing_map, arrangement)
    }

    /// The layout with its stick count taken as padding, if all elements have a place then.
    fn without_spare_sticks(&self, host: &View) -> Option<Self> {
        let spare = self.spare_stick_count(host)?;
        let mut layout = self.clone();
        layout.placing_map[spare] = -1;
        layout.digits = layout.new_digits(self.element_arrangement);
        split::check_covered(host, &layout).is_ok().then_some(layout)
    }

    /// The device dimension that counts sticks, if one stick is all that the host needs of them:
    /// its other positions are padding, and its steps are not steps of a larger dimension.
    fn spare_stick_count(&self, host: &View) -> Option<usize> {
        let at = self.device_size.len().checked_sub(3)?;
        let lane = *self.stride_map.last()?;
        let per_stick = self.elements_per_stick();
        if lane < 1 || Some(self.stride_map[at]) != lane.checked_mul(per_stick as i64) {
            return None;
        }
        let others = &self.stride_map[..self.stride_map.len() - 1];
        let has_own =
            |stride: i64| others.iter().enumerate().any(|(dim, &own)| dim != at && own == stride);
        let mut dims = host.size().iter().zip(host.stride()).filter(|(size, _)| **size > 1);
        let is_spare = dims.all(|(&size, &stride)| match stride as i64 {
            0 => true,
            stride if stride == lane => size <= per_stick,
            stride => has_own(stride),
        });
        is_spare.then_some(at)
    }

    fn element_arrangement_is_published(&self) -> bool {
        self.digits.levels().is_ok()
    }
}

fn too_large(size: &[usize]) -> Error {
    Error::TooLarge { size: size.to_vec(), stride: Vec::new() }
}

fn elements_per_stick(format: DataFormat) -> Result<usize, Error> {
    match format.element_bytes() {
        Some(bytes) => Ok(STICK_BYTES / bytes),
        None => Err(spyre_numerics::Error::NotAddressable { format }.into()),
    }
}

fn check_shape(size: &[usize], stride_map: &[i64], format: DataFormat) -> Result<(), Error> {
    let expected = elements_per_stick(format)?;
    if size.len() != stride_map.len() || size.is_empty() || size.len() > MAX_DEVICE_RANK {
        return Err(Error::DeviceRank { sizes: size.len(), strides: stride_map.len() });
    }
    let given = size[size.len() - 1];
    if given != expected {
        return Err(Error::StickSize { given, expected, format });
    }
    let is_wrong = |stride: i64| !(-1..MAX_HOST_STRIDE).contains(&stride);
    let wrong = stride_map.iter().enumerate().find(|(_, stride)| is_wrong(**stride));
    if let Some((dim, &stride)) = wrong {
        return Err(Error::StrideMap { dim, stride });
    }
    // An empty dimension does not excuse the others: strides are products of their sizes.
    let elements =
        size.iter().try_fold(1, |product: usize, &size| product.checked_mul(size.max(1)));
    match elements {
        Some(elements) if elements <= isize::MAX as usize / 16 => Ok(()),
        _ => Err(too_large(size)),
    }
}

impl PartialEq for SpyreTensorLayout {
    fn eq(&self, other: &Self) -> bool {
        self.device_size == other.device_size
            && self.stride_map == other.stride_map
            && self.device_dtype == other.device_dtype
            && self.element_arrangement == other.element_arrangement
    }
}

impl Eq for SpyreTensorLayout {}

impl Hash for SpyreTensorLayout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.device_size.hash(state);
        self.stride_map.hash(state);
        self.device_dtype.hash(state);
        self.element_arrangement.hash(state);
    }
}

impl fmt::Display for SpyreTensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SpyreTensorLayout(device_size={:?}, stride_map ={:?}, device_dtype={})",
            self.device_size, self.stride_map, self.device_dtype
        )
    }
}

impl fmt::Debug for SpyreTensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
