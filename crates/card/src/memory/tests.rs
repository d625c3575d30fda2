use spyre_hal::{DeviceHandle, HandleTag, PFDeviceHandle, VFDeviceHandle};

use super::*;

const TAG: HandleTag = HandleTag { epoch: 0, generation: 0, slot: 0 };

fn range(memory: &Memory, region: Region, offset: u64, bytes: u64) -> DeviceRange {
    let pf = PFDeviceHandle { physical_address: region.base_address };
    let vf = VFDeviceHandle { region_id: region.id.0, vf_offset: 0 };
    let handle = match memory.mode() {
        MemoryMode::Pf => DeviceHandle::pf(pf, TAG),
        MemoryMode::Vf => DeviceHandle::vf(vf, TAG),
    };
    DeviceRange { handle, offset, bytes }
}

fn read(memory: &Memory, range: DeviceRange) -> Result<Vec<u8>, Fault> {
    let window = memory.window(range)?;
    let mut bytes = vec![0xee; window.bytes()];
    window.read(0, &mut bytes, Way::Cached);
    Ok(bytes)
}

#[test]
fn an_access_outside_its_region_is_illegal_in_both_modes() {
    for mode in [MemoryMode::Pf, MemoryMode::Vf] {
        let memory = Memory::new(mode, 2, 1000);
        let regions = [memory.try_allocate(1000), memory.try_allocate(10)];
        let [first, second] = regions.map(|region| region.expect("there are two"));
        assert_eq!(read(&memory, range(&memory, first, 999, 1)), Ok(vec![0]));
        for (region, offset, bytes) in [
            (first, 1000, 1),
            (second, 0, 11),
            (second, u64::MAX, 1),
            (first, 0, u64::MAX),
            (first, 1 << 60, 1 << 60),
        ] {
            let range = range(&memory, region, offset, bytes);
            assert_eq!(read(&memory, range), Err(Fault::IllegalAccess { range }), "{range}");
        }
    }
}

#[test]
fn handles_of_no_region_are_illegal() {
    let [pf, vf] = [MemoryMode::Pf, MemoryMode::Vf].map(|mode| Memory::new(mode, 2, 4096));
    let region = pf.try_allocate(4096).expect("there are two");
    vf.try_allocate(4096).expect("there are two");
    assert!(read(&pf, range(&vf, region, 0, 1)).is_err());
    assert!(read(&vf, range(&pf, region, 0, 1)).is_err());
    for physical_address in [0, 1, region.base_address - 1, region.base_address + 4096, u64::MAX] {
        let handle = DeviceHandle::pf(PFDeviceHandle { physical_address }, TAG);
        assert!(read(&pf, DeviceRange::start_of(handle, 1)).is_err(), "{handle}");
    }
    for region_id in [1, 2, u16::MAX] {
        let handle = DeviceHandle::vf(VFDeviceHandle { region_id, vf_offset: 0 }, TAG);
        assert!(read(&vf, DeviceRange::start_of(handle, 1)).is_err(), "{handle}");
    }
}

#[test]
fn a_region_that_is_released_stays_until_its_window_closes() {
    let memory = Memory::new(MemoryMode::Pf, 1, 4096);
    let region = memory.try_allocate(4096).expect("there is one");
    let range = range(&memory, region, 0, 4096);
    let window = memory.window(range).expect("in bounds");
    window.write(0, &[7; 4096], Way::Cached);

    memory.release(region.id);
    assert!(memory.window(range).is_err());
    assert_eq!(memory.try_allocate(4096), Some(region), "its address stays");
    assert_eq!(read(&memory, range), Ok(vec![0; 4096]));

    let mut bytes = [0; 4096];
    window.write(0, &[8], Way::Cached);
    window.read(0, &mut bytes, Way::Cached);
    assert_eq!((bytes[0], bytes[4095]), (8, 7));
    assert_eq!(read(&memory, range), Ok(vec![0; 4096]), "another life");
}

#[test]
fn pages_that_are_discarded_read_as_zero_and_others_do_not() {
    let memory = Memory::new(MemoryMode::Vf, 1, 5 * 4096);
    let region = memory.try_allocate(5 * 4096).expect("there is one");
    let all = range(&memory, region, 0, 5 * 4096);
    memory.window(all).expect("in bounds").fill(0, 5 * 4096, spyre_hal::Pattern::from(9));
    memory.discard(region.id, 4096, 2 * 4096);
    memory.discard(region.id, u64::MAX - 4096, u64::MAX);
    memory.discard(RegionId(77), 0, 4096);
    let expected = [[9; 4096], [0; 4096], [0; 4096], [9; 4096], [9; 4096]].concat();
    assert!(read(&memory, all) == Ok(expected));
}

#[test]
fn guarded_memory_is_out_of_reach_while_no_window_is_open() {
    let memory = Memory::new(MemoryMode::Vf, 1, 8192).guarded();
    let region = memory.try_allocate(8192).expect("there is one");
    let address = memory.held(region.id).expect("it is held").start() as usize;
    assert_eq!(protection(address), "---p");
    let range = range(&memory, region, 0, 100);
    let first = memory.window(range);
    let second = memory.window(range);
    assert_eq!(protection(address), "rw-p");
    drop(first);
    assert_eq!(protection(address), "rw-p", "one is still open");
    drop(second);
    assert_eq!(protection(address), "---p");
}

#[test]
fn what_is_released_is_unmapped_also_with_the_card() {
    const BYTES: u64 = 12 << 30;
    let before = mapped_bytes();
    // Other tests map little.
    let held = || (mapped_bytes() + BYTES / 2 - before) / BYTES;
    let memory = Memory::new(MemoryMode::Vf, 4, BYTES);
    let regions: Vec<Region> = (0..4).filter_map(|_| memory.try_allocate(BYTES)).collect();
    assert_eq!((held(), memory.try_allocate(BYTES)), (4, None));
    memory.release(regions[0].id);
    assert_eq!(held(), 3);
    memory.release_all();
    assert_eq!(held(), 0);
    assert!(memory.try_allocate(BYTES).is_some());
    assert_eq!(held(), 1);
    drop(memory);
    assert_eq!(held(), 0);
}

#[test]
fn no_text_tells_an_address() {
    const SECRET: u64 = 0x5ec_2e70_0000;
    for mode in [MemoryMode::Pf, MemoryMode::Vf] {
        let memory = Memory::new(mode, 2, 1 << 20).with_base_address(SECRET);
        let region = memory.try_allocate(1 << 20).expect("there are two");
        assert_eq!(region.base_address, SECRET);
        let address = memory.held(region.id).expect("it is held").start() as u64;
        let range = range(&memory, region, 64, 1 << 30);
        let fault = memory.window(range).expect_err("too long");
        let window = memory.window(DeviceRange { bytes: 64, ..range });
        let text = format!("{memory:?} {memory:#?} {window:?} {fault:?} {fault}");
        for number in numbers(&text) {
            let is_host = (address..address + (1 << 20)).contains(&number);
            assert!(!is_host, "{number:#x} in {text}");
            let is_physical = (SECRET..SECRET + (2 << 20)).contains(&number);
            assert!(mode == MemoryMode::Pf || !is_physical, "{number:#x} in {text}");
        }
    }
}

/// Every number in a text, read as decimal and as hexadecimal.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    words.flat_map(|word| [word.parse().ok(), hex(word)]).flatten().collect()
}

/// The lines of /proc/self/maps: start, end and protection.
fn maps() -> Vec<(usize, usize, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let line = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        Some((hex(start)?, hex(end)?, rest.get(..4)?.to_owned()))
    };
    maps.lines().filter_map(line).collect()
}

/// Protection of an address; empty if it is not mapped.
fn protection(address: usize) -> String {
    let is_there = |(start, end, _): &(usize, usize, String)| (*start..*end).contains(&address);
    maps().into_iter().find(is_there).map(|(.., protection)| protection).unwrap_or_default()
}

fn mapped_bytes() -> u64 {
    maps().into_iter().map(|(start, end, _)| (end - start) as u64).sum()
}
