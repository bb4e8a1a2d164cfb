//! The numbers of a launch that the driver has refused.

use cuda_sys::CUresult;

use super::LaunchAttributes;
use crate::error::{DriverError, Error, LaunchConfigError, LaunchLimitError, Result};
use crate::function::Function;
use crate::stream::Stream;
use crate::types::{Dim3, LaunchConfig};

impl Function {
    /// Adds the numbers of a launch, and the limit as the driver reports it, to the error of the
    /// launch, if the driver has refused the number of its blocks.
    #[cold]
    pub(super) fn limit_error(
        &self,
        stream: &Stream,
        error: DriverError,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
    ) -> Error {
        let cluster = attributes.and_then(LaunchAttributes::cluster_blocks);
        self.with_numbers(stream, error, config, cluster)
    }

    /// Does the same for the error of a kernel node of a graph. No lock of a graph may be held.
    #[cold]
    pub(crate) fn node_error(
        &self,
        error: Error,
        config: &LaunchConfig,
        cluster: Option<Dim3>,
    ) -> Error {
        match error {
            // The limit of clusters is that of every stream.
            Error::Driver(error) => {
                let stream = self.context().legacy_stream();
                self.with_numbers(&stream, error, config, cluster)
            }
            error => error,
        }
    }

    fn with_numbers(
        &self,
        stream: &Stream,
        error: DriverError,
        config: &LaunchConfig,
        cluster: Option<Dim3>,
    ) -> Error {
        // A kernel may have been compiled for one shape of cluster.
        let mut required = None;
        if error.status() == CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE {
            required = self.required_cluster().unwrap_or_default();
        }
        // A node without clusters can have clusters of one block.
        let cluster = cluster.filter(|it| it.count() != 1).or(required);
        if let (Some(given), Some(required)) = (cluster, required)
            && given != required
        {
            return Error::LaunchConfig(Box::new(LaunchConfigError::OtherCluster {
                kernel: self.name().to_owned(),
                given,
                required,
            }));
        }
        if required.is_some()
            && let Err(error) = self.check_cluster(config, cluster)
        {
            return error;
        }
        let found = match error.status() {
            // A green context has only some of the multiprocessors, and the driver does not say how
            // many blocks fit on them.
            CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE if !self.context().is_green() => {
                Some((
                    "the number of blocks of the cooperative launch",
                    config.grid.count(),
                    self.most_cooperative_blocks(config),
                ))
            }
            CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE => cluster.map(|cluster| {
                let most = self.max_cluster_size(stream, *config).map(u64::from);
                ("the number of blocks per cluster", cluster.count(), most)
            }),
            _ => None,
        };
        match found {
            // Otherwise the driver has refused something else, such as the shape.
            Some((what, given, Ok(most))) if given > most => {
                Error::LaunchLimit(Box::new(LaunchLimitError {
                    source: error,
                    kernel: self.name().to_owned(),
                    what,
                    given,
                    most,
                }))
            }
            _ => error.into(),
        }
    }

    /// Returns how many blocks fit on the device at once.
    fn most_cooperative_blocks(&self, config: &LaunchConfig) -> Result<u64> {
        let threads = u32::try_from(config.block.count()).unwrap_or(u32::MAX);
        let blocks = self.max_active_blocks(threads, config.shared_bytes as usize)?;
        let processors = self.context().device().multiprocessor_count()?;
        Ok(u64::from(blocks) * u64::from(processors))
    }
}
