use spyre_artifact::*;

use crate::samples;

#[test]
fn matmul_reads_well() -> Result<(), Error> {
    let expected = "\
dims 3, scalars 2
o0: read IEEE_FP16 [d0 d2]
o1: read IEEE_FP16 [d1 d2]
o2: write IEEE_FP16 [d0 d1]
o3: both IEEE_FP32 [d0 d1]
r0: f32 [d0 d1]
begin d0 tile 64 parallel
  begin d1 tile 64 parallel
    r0 = constant 0.0
    skip 1 unless s0
      r0 = load o3
    begin d2 tile 256
      dot r0 o0 o1 over d2
    end
    store o3 r0
    skip 1 unless s1
      store o2 r0
  end
end
";
    assert_eq!(samples::matmul()?.to_string(), expected);
    Ok(())
}

#[test]
fn softmax_uses_its_buffers_again() -> Result<(), Error> {
    let expected = "\
dims 2, scalars 0
o0: read SEN169_FP16 [d0 d1]
o1: write SEN169_FP16 [d0 d1]
r0: f32 [d0]
r1: f32 [d0 d1]
r2: f32 [d0]
r3: f32 [d0 d1]
r4: f32 [d0 d1]
r5: f32 [d0 d1]
begin d0 tile 32 parallel
  r0 = constant -inf
  begin d1 tile 512
    r1 = load o0
    reduce max r0 r1
  end
  r2 = constant 0.0
  begin d1 tile 512
    r1 = load o0
    r3 = sub r1 r0
    r4 = exp r3
    reduce sum r2 r4
  end
  begin d1 tile 512
    r1 = load o0
    r4 = sub r1 r0
    r3 = exp r4
    r5 = div r3 r2
    store o1 r5
  end
end
";
    assert_eq!(samples::softmax()?.to_string(), expected);
    Ok(())
}

#[test]
fn a_causal_mask_reads_well() -> Result<(), Error> {
    let expected = "\
dims 2, scalars 1
o0: both BFLOAT16 [d0 d1]
r0: i64 [d0]
r1: i64 [d1]
r2: bool [d0 d1]
r3: f32 [d0 d1]
r4: f32 []
r5: f32 [d0 d1]
r6: f32 [d0 d1]
r7: f32 []
r8: f32 [d0 d1]
r9: f64 [d0 d1]
r10: f32 [d0 d1]
begin d0 all
  begin d1 tile 128
    r0 = index d0
    r1 = index d1
    r2 = le r1 r0
    r3 = load o0
    r4 = scalar s0
    r5 = mul r3 r4
    r6 = round_to BFLOAT16 r5
    r7 = constant -inf
    r8 = select r2 r6 r7
    r9 = convert r8
    r10 = convert r9
    store o0 r10
  end
end
";
    assert_eq!(samples::causal()?.to_string(), expected);
    Ok(())
}

#[test]
fn constants_read_as_they_are() {
    let nan = Constant::Float(f64::NAN);
    assert_eq!(nan, nan);
    assert_eq!(nan.to_string(), "nan:0x7ff8000000000000");
    assert_eq!(Constant::Float(-0.0).to_string(), "-0.0");
    assert_ne!(Constant::Float(-0.0), Constant::Float(0.0));
    assert_eq!(Constant::Int(-7).to_string(), "-7");
    assert_eq!(Constant::from_word(Lane::Bool, 2), None);
    assert_eq!(Constant::from_word(Lane::F32, 1.5_f64.to_bits()), Some(Constant::Float(1.5)));
}
