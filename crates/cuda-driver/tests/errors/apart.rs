//! Wrong calls that the software device still answers otherwise than a GPU.

/// Name and reason in each: the list only shrinks.
pub(crate) const KNOWN_APART: &[(&str, &str)] = &[(
    "time_to_nowhere",
    "whether the place is looked at last, or a call before has spoilt the event, is not known",
)];
