//! A few inputs of every kind, and that they come again.

use spyre_fuzz::{Campaign, Kind, Violation, fuzz};

#[test]
fn every_kind_is_refused_and_taken() -> Result<(), Box<Violation>> {
    for kind in Kind::ALL {
        let tally = fuzz(kind, 1, 3000)?.of_kind(kind);
        assert_eq!(tally.refused + tally.ran + tally.faulted, 3000);
        assert!(tally.ran > 20 && tally.refused + tally.faulted > 500, "{kind}: {tally:?}");
    }
    Ok(())
}

#[test]
fn the_same_seeds_are_the_same_inputs() -> Result<(), Box<Violation>> {
    for kind in [Kind::Manifests, Kind::Images] {
        assert_eq!(fuzz(kind, 700, 500)?, fuzz(kind, 700, 500)?);
    }
    Ok(())
}

#[test]
fn a_campaign_has_all_kinds() -> Result<(), Box<Violation>> {
    let campaign = Campaign { kinds: Kind::ALL.to_vec(), first_seed: 9, inputs: 2000, threads: 2 };
    let findings = campaign.run()?;
    assert_eq!(findings.report.inputs(), 2000);
    assert!(Kind::ALL.into_iter().all(|kind| findings.report.of_kind(kind).inputs >= 400));
    assert!(findings.to_string().starts_with("2,000 hostile inputs: 0 panics"));
    Ok(())
}
