//! The pinned wheels, and the sets that they belong to.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// A platform for which wheels are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    /// Linux with glibc on x86-64.
    LinuxX86,
    /// Linux with glibc on 64-bit Arm.
    LinuxArm,
    /// Windows on x86-64.
    Windows,
}

impl Platform {
    /// Returns the platform of this machine; `None` if no wheels are published for it.
    pub(crate) fn of_this_machine() -> Option<Self> {
        match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => Some(Self::LinuxX86),
            ("linux", "aarch64") => Some(Self::LinuxArm),
            ("windows", "x86_64") => Some(Self::Windows),
            _ => None,
        }
    }

    /// Returns the key of the platform in `wheels.toml`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::LinuxX86 => "linux-x86_64",
            Self::LinuxArm => "linux-aarch64",
            Self::Windows => "windows-x86_64",
        }
    }

    /// Returns the value for pip's `--platform`.
    pub(crate) fn pip_tag(self) -> &'static str {
        match self {
            Self::LinuxX86 => "manylinux2014_x86_64",
            Self::LinuxArm => "manylinux2014_aarch64",
            Self::Windows => "win_amd64",
        }
    }
}

/// The content of `wheels.toml`.
#[derive(Debug, Deserialize)]
pub(crate) struct Wheels {
    wheel: Vec<Wheel>,
}

#[derive(Debug, Deserialize)]
struct Wheel {
    name: String,
    version: String,
    sets: Vec<String>,
    mib: f64,
    sha256: BTreeMap<String, String>,
}

/// One wheel of a plan, for one platform.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pinned {
    /// The package.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// The platform of the file to download.
    pub(crate) platform: Platform,
    /// The SHA-256 hash of the file.
    pub(crate) sha256: String,
    /// The approximate size of the file in MiB.
    pub(crate) mib: f64,
}

/// The wheels and files of one set.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The set's name.
    pub(crate) set: String,
    /// The wheels to download.
    pub(crate) wheels: Vec<Pinned>,
    /// Files that a complete set contains, relative to its folder.
    pub(crate) required: Vec<String>,
}

impl Wheels {
    /// Reads the committed list.
    pub(crate) fn load() -> Result<Self> {
        toml::from_str(include_str!("wheels.toml")).context("setup/wheels.toml")
    }

    /// Returns the sets named `<group>/<version>`, oldest first.
    pub(crate) fn sets_below(&self, group: &str) -> Vec<String> {
        let mut sets: Vec<String> = self
            .wheel
            .iter()
            .flat_map(|wheel| &wheel.sets)
            .filter(|set| set.split_once('/').is_some_and(|(head, _)| head == group))
            .cloned()
            .collect();
        sets.sort();
        sets.dedup();
        sets
    }

    /// Returns the wheels and files of `set` on `platform`.
    pub(crate) fn plan(&self, set: &str, platform: Platform) -> Result<Plan> {
        let mut wheels = Vec::new();
        for wheel in self
            .wheel
            .iter()
            .filter(|w| w.sets.iter().any(|s| s == set))
        {
            wheels.push(wheel.pinned(set, platform)?);
        }
        anyhow::ensure!(!wheels.is_empty(), "no wheel is pinned for {set}");
        let required = required(set, platform)
            .iter()
            .map(ToString::to_string)
            .collect();
        let set = set.to_owned();
        Ok(Plan {
            set,
            wheels,
            required,
        })
    }
}

impl Wheel {
    fn pinned(&self, set: &str, platform: Platform) -> Result<Pinned> {
        let mut platform = platform;
        // Headers are identical on all platforms; libraries are not.
        if !self.sha256.contains_key(platform.key()) && set.starts_with("headers/") {
            platform = Platform::LinuxX86;
        }
        let sha256 = self.sha256.get(platform.key()).with_context(|| {
            format!(
                "{} {} is not published for {}",
                self.name,
                self.version,
                platform.key()
            )
        })?;
        Ok(Pinned {
            name: self.name.clone(),
            version: self.version.clone(),
            platform,
            sha256: sha256.clone(),
            mib: self.mib,
        })
    }
}

/// The headers in a `headers/<version>` set.
pub(crate) const HEADERS: &[&str] = &[
    "cuda.h",
    "cudaProfiler.h",
    "cudaProfilerTypedefs.h",
    "cudaTypedefs.h",
];

fn required(set: &str, platform: Platform) -> &'static [&'static str] {
    match (set.split('/').next(), platform) {
        (Some("headers"), _) => HEADERS,
        (Some("nvrtc"), _) => &["include/nvrtc.h", "lib"],
        (Some("device-headers"), _) => &[
            "include/cuda_fp16.h",
            "include/crt/mma.h",
            "include/nv/target",
        ],
        (_, Platform::Windows) => &[
            "include/cuda.h",
            "include/cudaProfiler.h",
            "include/nvrtc.h",
            "include/crt/host_defines.h",
            "include/nv/target",
            "lib/nvrtc64_130_0.dll",
            "lib/libclang.dll",
        ],
        _ => &[
            "include/cuda.h",
            "include/cudaProfiler.h",
            "include/nvrtc.h",
            "include/crt/host_defines.h",
            "include/nv/target",
            "lib/libnvrtc.so.13",
            "lib/libclang.so",
        ],
    }
}

impl Plan {
    /// Returns the set's folder, relative to the setup folder.
    pub(crate) fn folder(&self) -> &str {
        if self.set == super::TOOLKIT_SET {
            ""
        } else {
            &self.set
        }
    }

    /// Returns the content of `versions.txt` of a complete set.
    pub(crate) fn stamp(&self) -> String {
        let line = |w: &Pinned| {
            format!(
                "{} {} {} sha256:{}\n",
                w.name,
                w.version,
                w.platform.key(),
                w.sha256
            )
        };
        self.wheels.iter().map(line).collect()
    }

    /// Returns whether the set is complete below `setup`, with the pinned versions.
    pub(crate) fn is_installed(&self, setup: &Path) -> bool {
        let dir = setup.join(self.folder());
        let stamped = std::fs::read_to_string(dir.join("versions.txt"))
            .is_ok_and(|text| text == self.stamp());
        stamped && self.required.iter().all(|file| dir.join(file).exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_a_sha256_and_no_wheel_is_listed_twice() {
        let wheels = Wheels::load().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for wheel in &wheels.wheel {
            assert!(
                seen.insert((&wheel.name, &wheel.version)),
                "{} twice",
                wheel.name
            );
            for hash in wheel.sha256.values() {
                assert_eq!(hash.len(), 64, "{}", wheel.name);
                assert!(
                    hash.bytes().all(|b| b.is_ascii_hexdigit()),
                    "{}",
                    wheel.name
                );
                assert!(
                    seen.insert((hash, hash)),
                    "one hash for two files of {}",
                    wheel.name
                );
            }
        }
    }

    #[test]
    fn each_set_has_its_wheels_on_each_platform() {
        let wheels = Wheels::load().unwrap();
        assert_eq!(wheels.sets_below("headers").len(), 8);
        assert_eq!(wheels.sets_below("nvrtc").len(), 8);
        for platform in [Platform::LinuxX86, Platform::LinuxArm, Platform::Windows] {
            assert_eq!(wheels.plan("toolkit", platform).unwrap().wheels.len(), 6);
            for set in wheels.sets_below("headers") {
                let plan = wheels.plan(&set, platform).unwrap();
                let names: Vec<&str> = plan.wheels.iter().map(|w| w.name.as_str()).collect();
                assert!(
                    names.iter().any(|n| n.starts_with("nvidia-cuda-runtime")),
                    "{set}: {names:?}"
                );
                assert!(
                    names
                        .iter()
                        .any(|n| n.starts_with("nvidia-cuda-profiler-api")),
                    "{set}: {names:?}"
                );
            }
        }
    }

    #[test]
    fn a_header_set_that_the_platform_lacks_comes_from_another() {
        let wheels = Wheels::load().unwrap();
        let plan = wheels.plan("headers/12.0", Platform::LinuxArm).unwrap();
        assert!(plan.wheels.iter().all(|w| w.platform == Platform::LinuxX86));
        let error = wheels
            .plan("nvrtc/12.0", Platform::LinuxArm)
            .unwrap_err()
            .to_string();
        assert!(error.contains("linux-aarch64"), "{error}");
    }

    #[test]
    fn a_set_counts_as_installed_only_with_stamp_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Wheels::load()
            .unwrap()
            .plan("headers/13.0", Platform::LinuxX86)
            .unwrap();
        let folder = dir.path().join("headers/13.0");
        std::fs::create_dir_all(&folder).unwrap();
        for header in HEADERS {
            std::fs::write(folder.join(header), "").unwrap();
        }
        assert!(!plan.is_installed(dir.path()));
        std::fs::write(folder.join("versions.txt"), plan.stamp()).unwrap();
        assert!(plan.is_installed(dir.path()));
        std::fs::remove_file(folder.join("cudaProfiler.h")).unwrap();
        assert!(!plan.is_installed(dir.path()));
        std::fs::write(folder.join("cudaProfiler.h"), "").unwrap();
        std::fs::write(folder.join("versions.txt"), "something older\n").unwrap();
        assert!(!plan.is_installed(dir.path()));
    }
}
