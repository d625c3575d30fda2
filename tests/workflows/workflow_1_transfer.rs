//! A host tensor goes to the device and comes back.

use spyre::flex::BlockState;
use spyre::hal::{BlockKind, DeviceRange, HostBuffer};
use spyre::numerics::DType;
use spyre::runtime::{CPUTensor, Error, HostAddress, Operation, PreProcessCompute, SpyreTensor};

use crate::bed::{each_card, read, trace, values, whole};

#[test]
fn a_tensor_goes_there_through_one_block_and_comes_back() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let host = whole(&[100, 70], 1);

        let tensor = SpyreTensor::from_host(&stream, &host)?;
        stream.synchronize()?;
        assert_eq!(trace(&stream, 0), [(BlockKind::CopyToDevice, String::new())]);
        assert_eq!((tensor.shape(), tensor.stride()), ([100, 70].as_slice(), vec![280, 4]));
        assert_eq!(tensor.size_bytes(), 100 * 3 * 128); // 70 floats fill three sticks

        assert_eq!(read(&stream, &tensor)?, values(&host));
        Ok(())
    })
}

#[test]
fn an_operation_of_copies_alone_needs_no_compute() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let handle = stream.flex().allocate(300)?;
        let range = DeviceRange::start_of(handle, 300);
        let source = HostBuffer::from(vec![7; 300]);
        let target = HostBuffer::zeroed(300);

        let there = PreProcessCompute::copy_to_device(HostAddress::Buffer(source), range);
        let back = PreProcessCompute::copy_from_device(HostAddress::Buffer(target.clone()), range);
        stream.launch(&Operation::preprocessing(vec![there, back]), &[])?;
        stream.synchronize()?;

        assert_eq!(target.read()?[..], [7; 300]);
        device.context().free(handle)?;
        Ok(())
    })
}

#[test]
fn views_are_copied_as_they_are_seen() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let host = whole(&[40, 90], 2);
        let tensor = SpyreTensor::from_host(&stream, &host)?;
        let numbers = values(&host);

        let part = tensor.transpose(0, 1)?.narrow(0, 30, 35)?.narrow(1, 3, 20)?;
        let expected: Vec<f32> = (30..65)
            .flat_map(|j| (3..23).map(move |i| (i, j)))
            .map(|(i, j)| numbers[i * 90 + j])
            .collect();
        assert_eq!(read(&stream, &part)?, expected);

        part.copy_from(&stream, &whole(&[35, 20], 3))?;
        assert_eq!(read(&stream, &part)?, values(&whole(&[35, 20], 3)));
        let rest = tensor.narrow(0, 23, 17)?;
        assert_eq!(read(&stream, &rest)?, numbers[23 * 90..]);
        Ok(())
    })
}

#[test]
fn every_dtype_comes_back_as_it_went() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        for dtype in DType::ALL {
            let bytes = dtype.host_format().element_bytes().expect("a host has whole bytes");
            let pattern =
                |at: usize| if dtype == DType::Bool { at as u8 % 2 } else { (at % 59) as u8 };
            let pattern: Vec<u8> = (0..6 * 41 * bytes).map(pattern).collect();
            let host = CPUTensor::from_bytes(&[6, 41], dtype, pattern.clone())?;
            let back = SpyreTensor::from_host(&stream, &host)?.to_host(&stream)?;
            stream.synchronize()?;
            assert_eq!(back.buffer().read()?[..], pattern, "{dtype}");
        }
        Ok(())
    })
}

#[test]
fn memory_is_freed_with_the_last_view_and_not_before_its_copy() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        let live = || {
            let blocks = device.allocator().snapshot();
            blocks.iter().filter(|block| block.state == BlockState::Live).count()
        };
        let tensor = SpyreTensor::from_host(&stream, &whole(&[64, 64], 5))?;
        let rows = tensor.narrow(0, 10, 20)?;
        drop(tensor);
        assert_eq!(live(), 1);

        let host = rows.to_host(&stream)?;
        drop(rows); // the copy may not even have begun
        assert_eq!(live(), 0);
        stream.synchronize()?;
        assert_eq!(values(&host), values(&whole(&[64, 64], 5))[640..1920]);
        Ok(())
    })
}

#[test]
fn what_is_empty_or_has_no_dimensions_is_copied_too() -> Result<(), Error> {
    each_card(|device| {
        let stream = device.default_stream()?;
        for shape in [[].as_slice(), &[0], &[3, 0, 5]] {
            let host = whole(shape, 4);
            let tensor = SpyreTensor::from_host(&stream, &host)?;
            assert_eq!(read(&stream, &tensor)?, values(&host), "{shape:?}");
        }
        Ok(())
    })
}
