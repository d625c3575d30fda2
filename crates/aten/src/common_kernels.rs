//! Kernels that most programs use: packages have them compiled beforehand.

mod calls;
mod line;

use std::collections::BTreeSet;

use spyre_numerics::DType;

use calls::{DTYPES, Group};
use line::Line;

/// The texts of the kernels that common calls launch, each once.
///
/// ```
/// use spyre_compiler::{CompileOptions, Kernel};
///
/// let texts = spyre_aten::common_kernels();
/// let add = texts.iter().find(|text| text.starts_with("kernel aten_add(i0)")).expect("it is common");
/// let kernel: Kernel = add.parse()?;
/// kernel.compile(&CompileOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn common_kernels() -> BTreeSet<String> {
    calls().flat_map(|(line, dtype)| line.texts(dtype).unwrap_or_default()).collect()
}

/// Every line, with every dtype that it is for.
fn calls() -> impl Iterator<Item = (Line, DType)> {
    DTYPES.iter().flat_map(|&(group, dtypes)| {
        let lines = Group::lines(group).flat_map(Line::read);
        lines.flat_map(|line| dtypes.iter().map(move |&dtype| (line.clone(), dtype)))
    })
}

#[cfg(test)]
mod tests {
    use spyre_compiler::{CompileOptions, Kernel};
    use spyre_numerics::Profile;

    use super::*;

    #[test]
    fn every_line_is_a_call_that_is_not_declined() {
        for (line, dtype) in calls() {
            let texts = line.texts(dtype).unwrap_or_else(|why| panic!("{line:?} {dtype}: {why}"));
            assert!(!texts.is_empty(), "{line:?} {dtype} launches nothing");
        }
    }

    #[test]
    fn every_op_of_the_lines_is_known() {
        let lines = DTYPES.iter().flat_map(|(group, _)| group.lines());
        let names = lines.flat_map(|line| line.split('|').next().unwrap_or_default().split(' '));
        for name in names.filter(|name| !name.is_empty()) {
            assert!(crate::Op::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_kernel_compiles_for_both_profiles() {
        let texts = common_kernels();
        assert!(texts.len() > 300, "{}", texts.len());
        for text in &texts {
            let kernel: Kernel = text.parse().unwrap_or_else(|why| panic!("{why}\n{text}"));
            for profile in [Profile::Open, Profile::Card] {
                let plan = kernel.compile(&CompileOptions::for_profile(profile));
                assert!(plan.is_ok() || profile == Profile::Card, "{:?}\n{text}", plan.err());
            }
        }
    }
}
