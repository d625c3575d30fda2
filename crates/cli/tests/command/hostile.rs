use crate::bed::{Bed, npy};

#[test]
fn hostile_arrays_are_refused_by_name() {
    let bed = Bed::with_matmul();
    let whole = npy("<f4", &[64, 64], &[0; 64 * 64 * 4]);
    for (bytes, expected) in [
        (b"".to_vec(), "too short"),
        (b"PK\x03\x04 this is an .npz".to_vec(), "does not begin as .npy files do"),
        (whole[..whole.len() - 1].to_vec(), "ends after 16383 of the 16384 bytes"),
        ([&whole[..], b"\0"].concat(), "more behind the 16384 bytes"),
        (npy("<f4", &[1 << 40, 1 << 40], &[]), "larger than any memory"),
        (npy("<f4", &[1 << 20, 1 << 20], &[0; 64]), "ends after 64"),
        (npy(">f4", &[64, 64], &[0; 64 * 64 * 4]), "big-endian: convert it with astype('<f4')"),
        (npy("|O", &[64, 64], &[0; 64]), "elements of type \"|O\" are not known"),
    ] {
        bed.write("a.npy", &bytes);
        let refusal = bed.refusal("run matmul a.npy --fill zeros");
        assert!(refusal.starts_with("a.npy: ") && refusal.contains(expected), "{refusal}");
    }
    std::fs::create_dir(bed.path("folder.npy")).expect("a folder");
    assert!(bed.refusal("run matmul folder.npy --fill zeros").starts_with("folder.npy: "));
}

#[test]
fn hostile_safetensors_are_refused_by_name() {
    let bed = Bed::with_matmul();
    let file = |header: &str, bytes: &[u8]| {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), bytes].concat()
    };
    let one = |dtype: &str, shape: &str, end: usize| {
        format!("{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[0,{end}]}}}}")
    };
    for bytes in [
        Vec::new(),
        vec![0xff; 8],
        vec![0xff; 100],
        file("{", &[]),
        file("[]", &[]),
        file(&one("F32", "[2,2]", 8), &[0; 8]),
        file(&one("F32", "[4294967296,4294967296]", 8), &[0; 8]),
        file(&one("F32", "[1,2]", 8), &[0; 4]),
        file(&one("F33", "[1,2]", 8), &[0; 8]),
        file(&one("F4", "[4,4]", 8), &[0; 8]),
        file(&one("BOOL", "[1,2]", 2), &[1, 2]),
    ] {
        bed.write("a.safetensors", &bytes);
        let refusal = bed.refusal("run matmul a.safetensors --fill zeros");
        assert!(refusal.starts_with("a.safetensors: "), "{refusal}");
    }
    bed.write("a.safetensors", &file(&one("F64", "[1,1]", 8), &[0; 8]));
    let refusal = bed.refusal("run matmul a.safetensors --fill zeros");
    assert!(refusal.contains("holds float64, and the plan expects float32"), "{refusal}");
    let other = one("F32", "[1,2]", 8).replace("\"a\"", "\"weights\"");
    bed.write("a.safetensors", &file(&other, &[0; 8]));
    let refusal = bed.refusal("run matmul a.safetensors --fill zeros");
    assert!(
        refusal.ends_with("holds none of the plan's tensors (a, b, c), but weights"),
        "{refusal}"
    );
}

#[test]
fn names_in_plans_do_not_lead_out_of_the_folder() -> Result<(), Box<dyn std::error::Error>> {
    use spyre::artifact::samples::{Elements, addition};
    let mut plan = addition(Elements::exact(spyre::numerics::DType::Float32), Some([4, 4]))?;
    plan.tensor_input_metadata[2].name = "../c".to_owned();
    let bed = Bed::new();
    plan.save(bed.path("plan"))?;
    let refusal = bed.refusal("run plan --fill zeros --output out");
    assert!(refusal.starts_with("tensor \"../c\" is no name for a file"), "{refusal}");
    bed.fine("run plan --fill zeros --output ../c=c.npy");
    Ok(())
}

#[cfg(unix)]
#[test]
fn devices_pipes_and_folders_are_no_kernels_or_tensors() {
    let bed = Bed::with_matmul();
    std::fs::create_dir(bed.path("folder.ir")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", bed.path("zero.ir")).expect("a link");
    std::os::unix::fs::symlink("/dev/zero", bed.path("zero.safetensors")).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(bed.path("pipe.ir")).status();
    assert!(made.expect("mkfifo runs").success());
    for (file, expected) in [
        ("folder.ir", "is a folder; give a plain file"),
        ("zero.ir", "is a device, a pipe or a socket; give a plain file"),
        ("pipe.ir", "is a device, a pipe or a socket; give a plain file"),
    ] {
        for command in
            ["compile {}", "inspect {}", "run {} --fill zeros", "trace {} --output t.json"]
        {
            let refusal = bed.refusal(&command.replace("{}", file));
            assert_eq!(refusal, format!("{file}: {expected}"), "{command}");
        }
    }
    let refusal = bed.refusal("run matmul zero.safetensors --fill zeros");
    assert!(refusal.ends_with("is a device, a pipe or a socket; give a plain file"), "{refusal}");
}

#[test]
fn a_kernel_of_more_than_16_mebibytes_is_refused_unread() {
    let bed = Bed::new();
    let file = std::fs::File::create(bed.path("huge.ir")).expect("a file");
    file.set_len(1 << 40).expect("holes take no room");
    let refusal = bed.refusal("compile huge.ir");
    assert!(refusal.starts_with("huge.ir: 1099511627776 bytes, and a kernel's text has 16777216"));
}
