//! Wrong claims, which the test must find.

use crate::claim::Claim;
use crate::item::{Item, Place, Run};

/// A wrong claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The highest number of each range is left out.
    LessHigh,
    /// The lowest number of each range is left out.
    LessLow,
    /// An access that is made is said to be never made.
    Never,
    /// Each access has one byte less.
    Short,
    /// Each access has one byte more.
    Long,
    /// Each access is in another space.
    Space,
}

pub(crate) const DEFECTS: [(&str, Defect); 6] = [
    ("less-high", Defect::LessHigh),
    ("less-low", Defect::LessLow),
    ("never", Defect::Never),
    ("short", Defect::Short),
    ("long", Defect::Long),
    ("space", Defect::Space),
];

impl Defect {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let found = DEFECTS.iter().find(|it| it.0 == name);
        found.map(|it| it.1)
    }

    pub(crate) fn name(self) -> &'static str {
        let found = DEFECTS.iter().find(|it| it.1 == self);
        found.map_or("", |it| it.0)
    }

    /// The instruction with wrong accesses.
    pub(crate) fn of_item(self, item: &Item) -> Item {
        let mut item = item.clone();
        for address in &mut item.addresses {
            match self {
                Self::Short => address.bytes = address.bytes.map(|bytes| bytes - 1),
                Self::Long => address.bytes = address.bytes.map(|bytes| bytes + 1),
                Self::Space => address.space = address.space.map(other),
                _ => {}
            }
        }
        item
    }

    pub(crate) fn of_run(self, run: Run) -> Run {
        match self {
            Self::Space => Run {
                place: run.place.map(other),
                ..run
            },
            _ => run,
        }
    }

    pub(crate) fn of_claim(self, claim: Claim) -> Claim {
        match (self, claim) {
            (Self::LessHigh, Claim::Range(low, high)) => Claim::Range(low, high - 1),
            (Self::LessLow, Claim::Range(low, high)) => Claim::Range(low + 1, high),
            (Self::Never, Claim::Range(..)) => Claim::Never,
            _ => claim,
        }
    }
}

fn other(place: Place) -> Place {
    match place {
        Place::Global => Place::Shared,
        _ => Place::Global,
    }
}
