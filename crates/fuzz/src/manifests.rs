use std::collections::BTreeMap;

use spyre_artifact::CompilerOutput;
use spyre_runtime::ExecutionPlan;

use crate::attack::{Attack, Outcome, Verdict};
use crate::bytes::{damage, seal};
use crate::json::Json;
use crate::random::Random;
use crate::samples;

/// Plans as files, with damage to their text and to their images.
pub(crate) struct Manifests {
    samples: Vec<Files>,
}

struct Files {
    text: Json,
    images: BTreeMap<String, Vec<u8>>,
}

const PLAN: &str = "plan.json";

impl Manifests {
    pub(crate) fn new() -> Self {
        let samples = samples::plans().into_iter().map(|sample| Files::of(&sample.output));
        Self { samples: samples.collect() }
    }
}

impl Files {
    fn of(plan: &CompilerOutput) -> Self {
        let files = plan.to_files().expect("a good plan");
        let mut images: BTreeMap<String, Vec<u8>> = files.into_iter().collect();
        let text = images.remove(PLAN).expect("every plan has its text");
        Self { text: Json::new(&text), images }
    }
}

impl Attack for Manifests {
    fn input(&mut self, seed: u64) -> Verdict {
        let mut random = Random::new(seed);
        let Files { text, images } = &self.samples[random.below(self.samples.len())];
        let mut text = text.damaged(&mut random);
        let mut changed = None;
        if random.one_in(8) {
            let (name, sound) = images.iter().nth(random.below(images.len())).expect("one of them");
            let mut image = sound.clone();
            damage(&mut image, &mut random);
            if random.one_in(2) {
                let before = crc32fast::hash(sound).to_string();
                seal(&mut image);
                exchange(&mut text, &before, &crc32fast::hash(&image).to_string());
            }
            changed = Some((name.as_str(), image));
        }
        let file = |name: &str| match &changed {
            _ if name == PLAN => Some(text.as_slice()),
            Some((changed, image)) if *changed == name => Some(image.as_slice()),
            _ => images.get(name).map(Vec::as_slice),
        };
        let outcome = match CompilerOutput::from_files(file) {
            Err(_) => Outcome::Refused,
            Ok(plan) => {
                check_taken(plan);
                Outcome::Ran
            }
        };
        Verdict::read(outcome, text.len() + changed.map_or(0, |(_, image)| image.len()))
    }
}

/// Exchanges a checksum, so that damage gets past it.
fn exchange(text: &mut Vec<u8>, old: &str, new: &str) {
    let found = text.windows(old.len()).position(|window| window == old.as_bytes());
    if let Some(at) = found {
        text.splice(at..at + old.len(), new.bytes());
    }
}

/// Checks that a plan that was taken is whole: it can be written and read again, and it is a plan.
fn check_taken(plan: CompilerOutput) {
    let files: BTreeMap<String, Vec<u8>> =
        plan.to_files().expect("what was read can be written").into_iter().collect();
    let again = CompilerOutput::from_files(|name| files.get(name));
    assert_eq!(again.as_ref(), Ok(&plan), "it is another plan when it is read again");
    ExecutionPlan::from_compiler_output(plan).expect("what was checked is a plan");
}
