//! placeholder
use crate::options::Options;
pub(crate) fn run(_options: &Options) -> bool {
    true
}
pub(crate) fn run_one(_options: &Options) -> bool {
    true
}
