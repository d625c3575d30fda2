//! Cards, as the environment and the host describe them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use spyre_flex::{Devices, Environment, EnvironmentError, Error, HostMemory, num_devices};
use spyre_hal::MemoryMode;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

/// A host that consists of these files.
fn host(name: &str, files: &[(&str, &str)]) -> HostMemory {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("writable");
        fs::write(path, text).expect("writable");
    }
    HostMemory::under(root)
}

fn devices(pairs: &[(&str, &str)]) -> Result<Devices, Error> {
    Devices::from_environment(&pairs.iter().copied().collect())
}

fn refusal(name: &str, value: &str) -> String {
    let error = devices(&[(name, value)]).expect_err(value);
    assert!(matches!(error, Error::Environment(_)), "{error:?}");
    error.to_string()
}

#[test]
fn nothing_set_is_one_vf_card_with_most_of_the_memory() -> Result<(), Error> {
    let host = host("plain", &[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:  1000 kB\n")]);
    let devices = Devices::on_host(&Environment::default(), &host)?;
    assert_eq!(devices.visible, [0]);
    assert_eq!(devices.mode, MemoryMode::Vf);
    assert_eq!(devices.memory_limit_bytes, 800 * KIB);
    assert_eq!(devices.warning(), None);
    Ok(())
}

#[test]
fn each_process_of_a_launcher_has_a_card_and_its_share_of_the_memory() -> Result<(), Error> {
    let host = host("launcher", &[("proc/meminfo", "MemAvailable:  1000 kB\n")]);
    let devices_on =
        |pairs: &[(&str, &str)]| Devices::on_host(&pairs.iter().copied().collect(), &host);
    let two = devices_on(&[("LOCAL_WORLD_SIZE", "2")])?;
    assert_eq!((two.visible.len(), two.memory_limit_bytes), (2, 400 * KIB));
    assert_eq!(devices(&[("LOCAL_WORLD_SIZE", "16")])?.visible.len(), 8);
    assert_eq!(devices(&[("LOCAL_WORLD_SIZE", "-1")])?.visible.len(), 1);

    let asked = [("LOCAL_WORLD_SIZE", "4"), ("AIU_WORLD_SIZE", "1"), ("SPYRE_MEMORY_LIMIT", "50%")];
    let asked = devices_on(&asked)?;
    assert_eq!((asked.visible.len(), asked.memory_limit_bytes), (1, 500 * KIB));
    let remedy =
        "give the number of processes on this machine, as torchrun does, or unset it for 1";
    assert_eq!(refusal("LOCAL_WORLD_SIZE", "x"), format!("LOCAL_WORLD_SIZE is \"x\": {remedy}"));
    Ok(())
}

#[test]
fn the_world_is_one_to_eight_cards() -> Result<(), Error> {
    for (value, cards) in [("1", 1), (" 3 ", 3), ("8", 8), ("9", 8), ("99999999999999999999", 8)] {
        assert_eq!(devices(&[("AIU_WORLD_SIZE", value)])?.visible.len(), cards, "{value}");
    }
    for value in ["0", "-1", "abc", "", "1.5", "-99999999999999999999"] {
        let expected = format!(
            "AIU_WORLD_SIZE is {value:?}: give a number of cards from 1 to 8, or unset it for 1"
        );
        assert_eq!(refusal("AIU_WORLD_SIZE", value), expected);
    }
    Ok(())
}

#[test]
fn listed_devices_are_exposed_in_their_order() -> Result<(), Error> {
    let of = |list| devices(&[("AIU_WORLD_SIZE", "4"), ("SPYRE_DEVICES", list)]);
    assert_eq!(of("3, 0 ,2")?.visible, [3, 0, 2]);
    assert_eq!(of("3, 0 ,2")?.warning(), None);
    assert_eq!(of("")?.visible, []);
    assert_eq!(of("  ")?.visible, []);
    assert_eq!(of("")?.warning(), None);
    Ok(())
}

#[test]
fn entries_that_expose_nothing_are_dropped_with_one_warning() -> Result<(), Error> {
    let of = |list| devices(&[("AIU_WORLD_SIZE", "2"), ("SPYRE_DEVICES", list)]);
    let given = of("1,7,1,0,-1,99999999999999999999")?;
    assert_eq!(given.visible, [1, 0]);
    assert_eq!(
        given.warning().expect("four were dropped"),
        "SPYRE_DEVICES: ignored 7 (the cards are 0 to 1), 1 (given twice), -1 (the cards are 0 \
         to 1), 99999999999999999999 (the cards are 0 to 1)"
    );
    // The way to hide all cards that users know from elsewhere.
    let hidden = devices(&[("SPYRE_DEVICES", "-1")])?;
    assert_eq!(hidden.visible, []);
    assert_eq!(hidden.warning().as_deref(), Some("SPYRE_DEVICES: ignored -1 (the only card is 0)"));
    Ok(())
}

#[test]
fn an_entry_that_is_no_number_is_named() {
    for (value, entry) in [("0,one", "one"), ("0,,1", ""), ("0,", ""), ("0;1", "0;1"), ("x", "x")] {
        let expected = format!(
            "SPYRE_DEVICES is {value:?}, and its entry {entry:?} is not a number: give indices \
             of cards with commas between them, such as 0,1"
        );
        assert_eq!(refusal("SPYRE_DEVICES", value), expected);
    }
}

#[test]
fn the_mode_is_pf_or_vf_in_any_case() -> Result<(), Error> {
    for (value, mode) in [("PF", MemoryMode::Pf), ("pf", MemoryMode::Pf), (" vF", MemoryMode::Vf)] {
        assert_eq!(devices(&[("FLEX_DEVICE", value)])?.mode, mode);
    }
    for value in ["", "pf0", "PF,VF"] {
        let expected = format!("FLEX_DEVICE is {value:?}: give PF, VF or MOCK, or unset it for VF");
        assert_eq!(refusal("FLEX_DEVICE", value), expected);
    }
    Ok(())
}

#[test]
fn a_memory_limit_is_bytes_with_a_unit() -> Result<(), Error> {
    let cases = [
        ("1", 1),
        ("1024B", KIB),
        ("2k", 2 * KIB),
        ("2KB", 2 * KIB),
        (" 3 MiB ", 3 * KIB * KIB),
        ("4G", 4 * GIB),
        ("5gib", 5 * GIB),
        ("1T", KIB * GIB),
        ("18446744073709551615", u64::MAX),
    ];
    for (value, bytes) in cases {
        assert_eq!(devices(&[("SPYRE_MEMORY_LIMIT", value)])?.memory_limit_bytes, bytes, "{value}");
    }
    Ok(())
}

#[test]
fn a_memory_limit_can_be_a_share() -> Result<(), Error> {
    let host = host("share", &[("proc/meminfo", "MemAvailable: 1000 kB")]);
    for (value, percent) in [("1%", 1), ("50 %", 50), ("100%", 100)] {
        let environment = Environment::from_iter([("SPYRE_MEMORY_LIMIT", value)]);
        let devices = Devices::on_host(&environment, &host)?;
        assert_eq!(devices.memory_limit_bytes, percent * 10 * KIB);
    }
    Ok(())
}

#[test]
fn a_memory_limit_that_makes_no_sense_is_refused() {
    let bad = [
        "",
        "0",
        "0%",
        "101%",
        "300%",
        "-1",
        "abc",
        "G",
        "1.5G",
        "1P",
        "1024iB",
        "%",
        "0x10",
        "4GG",
        "18446744073709551616",
        "17000000T",
        "é",
    ];
    for value in bad {
        let expected = format!(
            "SPYRE_MEMORY_LIMIT is {value:?}: give whole bytes such as 8589934592, 8G or 512MiB, \
             or a share of the available memory from 1% to 100%"
        );
        assert_eq!(refusal("SPYRE_MEMORY_LIMIT", value), expected);
    }
}

#[test]
fn a_value_that_is_not_unicode_is_an_error() {
    for variable in Environment::VARIABLES {
        let value = OsString::from_vec(vec![b'8', 0xFF]);
        let environment = Environment::from_iter([(variable, value)]);
        let error = Devices::from_environment(&environment).expect_err("not Unicode");
        let expected = EnvironmentError::NotUnicode { variable, value: "8\u{FFFD}".to_owned() };
        assert_eq!(error, Error::Environment(expected));
    }
}

#[test]
fn other_variables_are_not_looked_at() {
    let other = [("PATH", OsString::from_vec(vec![0xFF]))];
    assert_eq!(Environment::from_iter(other), Environment::default());
}

#[test]
fn the_tightest_group_limits_the_memory() {
    let meminfo = ("proc/meminfo", "MemAvailable: 1000000 kB\n");
    let second = [
        meminfo,
        ("proc/self/cgroup", "0::/outer/inner\n"),
        ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
        ("sys/fs/cgroup/outer/inner/memory.current", "5000\n"),
        ("sys/fs/cgroup/outer/memory.max", "90000\n"),
        ("sys/fs/cgroup/outer/memory.current", "50000\n"),
    ];
    assert_eq!(host("version 2", &second).available_bytes(), Some(40_000));

    let first = [
        meminfo,
        ("proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/only/on/the/host\n0::/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "10000\n"),
    ];
    assert_eq!(host("version 1", &first).available_bytes(), Some(60_000));
}

#[test]
fn pages_of_files_are_no_less_available_in_a_group() {
    let files = [
        ("proc/meminfo", "MemAvailable: 1000000 kB\n"),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/memory.max", "90000\n"),
        ("sys/fs/cgroup/memory.current", "89000\n"),
        ("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 60000\n"),
    ];
    assert_eq!(host("files", &files).available_bytes(), Some(61_000));
}

#[test]
fn a_group_past_its_limit_has_nothing_left() {
    let files = [
        ("proc/meminfo", "MemAvailable: 1000000 kB\n"),
        ("proc/self/cgroup", "0::/\nnonsense\n"),
        ("sys/fs/cgroup/memory.max", "100\n"),
        ("sys/fs/cgroup/memory.current", "200\n"),
    ];
    assert_eq!(host("past", &files).available_bytes(), Some(0));
}

#[test]
fn a_host_that_does_not_tell_is_asked_to_set_a_limit() -> Result<(), Error> {
    let silent = host("silent", &[]);
    let error = Devices::on_host(&Environment::default(), &silent).expect_err("nothing known");
    assert_eq!(error, Error::Environment(EnvironmentError::MemoryUnknown));
    assert!(error.to_string().contains("set SPYRE_MEMORY_LIMIT"), "{error}");

    let environment = Environment::from_iter([("SPYRE_MEMORY_LIMIT", "1G")]);
    assert_eq!(Devices::on_host(&environment, &silent)?.memory_limit_bytes, GIB);
    Ok(())
}

#[test]
fn this_process_sees_what_its_environment_says() -> Result<(), Error> {
    let devices = Devices::from_environment(&Environment::of_process())?;
    assert_eq!(num_devices()?, devices.visible.len());
    assert!(devices.memory_limit_bytes > 0);
    Ok(())
}
