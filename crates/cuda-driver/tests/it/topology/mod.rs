//! The connections of devices, on machines that are described by a folder in the form of `/sys` and
//! by an NVML library in C. The software device has the PCI addresses `0000:01:00.0` and so on.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_driver::device::{NvLinkRemote, PciPath, Topology, TopologySources};
use cuda_sim::{Builder, Machine, MachineLink};

use crate::support::{gpu, skip, software};

/// A machine with a folder for its files.
struct Files {
    folder: PathBuf,
    machine: Machine,
}

impl Files {
    /// Writes the files of the machine that `text` describes.
    fn new(name: &str, text: &str) -> Self {
        let machine: Machine = text.parse().unwrap();
        let process = std::process::id();
        let folder = std::env::temp_dir().join(format!("cuda-topology-{process}-{name}"));
        let _ = fs::remove_dir_all(&folder);
        let list = folder.join("sys/bus/pci/devices");
        fs::create_dir_all(&list).unwrap();
        for (ordinal, gpu) in machine.devices().iter().enumerate() {
            let address = machine.pci_bus_id(ordinal).to_ascii_lowercase();
            let device = folder.join("sys/devices").join(&gpu.bridges).join(&address);
            fs::create_dir_all(&device).unwrap();
            let node = gpu.numa_node.map_or(-1, i64::from);
            fs::write(device.join("numa_node"), format!("{node}\n")).unwrap();
            fs::write(device.join("local_cpulist"), format!("{}\n", gpu.cpus)).unwrap();
            symlink(&device, list.join(&address)).unwrap();
        }
        Self { folder, machine }
    }

    /// Returns the topology as files describe it, without NVML.
    fn by_files(&self) -> Topology {
        self.discover(&self.folder.join("no-nvml.so"))
    }

    /// Returns the topology with NVML, or `None` without a C compiler. `common_ancestor` is
    /// what NVML returns for each pair.
    fn by_nvml(&self, common_ancestor: u32) -> Option<Topology> {
        let library = self.nvml(common_ancestor)?;
        let topology = self.discover(&library);
        assert_eq!(topology.nvml_error(), None);
        Some(topology)
    }

    fn discover(&self, nvml: &Path) -> Topology {
        let fixture = software(Builder::new().machine(self.machine.clone()));
        let sysfs = self.folder.join("sys");
        let sources = TopologySources::default()
            .with_sysfs(&sysfs)
            .with_nvml(nvml);
        Topology::discover_with(fixture.context.driver(), &sources).unwrap()
    }

    /// Builds the NVML library of this machine.
    fn nvml(&self, common_ancestor: u32) -> Option<PathBuf> {
        let devices = self.machine.devices();
        let mut tables = format!("#define COUNT {}\n", devices.len());
        tables += "static const char *addresses[COUNT] = {";
        for ordinal in 0..devices.len() {
            write!(tables, "\"{}\",", self.machine.pci_bus_id(ordinal)).unwrap();
        }
        tables += "};\nstatic const struct link links[COUNT][19] = {";
        for gpu in devices {
            tables += "{";
            for link in &gpu.links {
                // NVML writes 8 digits for the domain.
                match link {
                    MachineLink::Device(other) => {
                        let address = self.machine.pci_bus_id(*other);
                        write!(tables, "{{1, \"0000{address}\", 1}},")
                    }
                    MachineLink::Switch(number) => {
                        write!(tables, "{{1, \"00000000:F{number}:00.0\", 2}},")
                    }
                    _ => write!(tables, "{{1, 0, 0}},"),
                }
                .unwrap();
            }
            tables += "},";
        }
        writeln!(tables, "}};\n#define ANCESTOR {common_ancestor}").unwrap();
        let source = include_str!("nvml.c").replace("/* tables */", &tables);
        let (c, library) = (self.folder.join("nvml.c"), self.folder.join("nvml.so"));
        fs::write(&c, source).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
            .args([&library, &c])
            .output();
        let Ok(output) = built else {
            skip("no C compiler");
            return None;
        };
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
        Some(library)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Two pairs of devices behind switches, on two processors.
fn two_processors() -> String {
    let mut text = String::new();
    for (bus, node, cpus) in [("00", 0, "0-3"), ("80", 1, "4-7")] {
        for port in ["a", "b"] {
            let bridges = format!("pci0000:{bus}/0000:{bus}:01.0/up/{port}");
            writeln!(text, "device numa={node} cpus={cpus} bridges={bridges}").unwrap();
        }
    }
    text
}

#[test]
fn files_of_the_system_give_paths_and_processors() {
    let topology = Files::new("files", &two_processors()).by_files();
    assert!(topology.nvml_error().unwrap().contains("no-nvml.so"));
    let table = "      GPU0  GPU1  GPU2  GPU3  CPU Affinity  NUMA Affinity
GPU0  X     PIX   SYS   SYS   0-3           0
GPU1  PIX   X     SYS   SYS   0-3           0
GPU2  SYS   SYS   X     PIX   4-7           1
GPU3  SYS   SYS   PIX   X     4-7           1
";
    assert_eq!(topology.to_string(), table);
    assert!(format!("{topology:#}").starts_with(table));
    assert!(format!("{topology:#}").contains("\nPIX   one PCI Express switch\n"));
    assert_eq!(topology.best_peer(2), Some(3));
    assert_eq!(topology.best_peer(9), None);
    assert_eq!(topology.devices_near_cpu(5), [2, 3]);
    assert_eq!(topology.devices_near_cpu(8), [0; 0]);
    // Each pair is together, so that only two connections are between the processors.
    assert_eq!(topology.ring(), [0, 1, 2, 3]);
    assert_eq!(topology.tree(3).unwrap(), [(2, 3), (0, 3), (1, 0)]);
    assert_eq!(topology.tree(4), None);
    let connection = topology.connection(0, 1).unwrap();
    assert_eq!(connection.path, PciPath::Switch);
    assert!(connection.peer.unwrap().has_access);
    assert_eq!(topology.connection(0, 0).unwrap().peer, None);
    assert_eq!(topology.connection(0, 4), None);
}

#[test]
fn without_files_the_paths_are_unknown() {
    let fixture = software(Builder::new().devices(2));
    let nowhere = Path::new("/nowhere");
    let sources = TopologySources::default()
        .with_sysfs(nowhere)
        .with_nvml(nowhere);
    let topology = Topology::discover_with(fixture.context.driver(), &sources).unwrap();
    let table = "      GPU0  GPU1  CPU Affinity  NUMA Affinity
GPU0  X     N/A   N/A           N/A
GPU1  N/A   X     N/A           N/A
";
    assert_eq!(topology.to_string(), table);
    // The driver allows the access.
    assert_eq!(topology.best_peer(0), Some(1));
    assert!(!topology.to_dot().contains("--"));
}

#[test]
#[cfg(feature = "nvml")]
fn nvml_gives_links_between_devices() {
    // 0 and 3 have the most links, and one link is down.
    let links = "nvlink 0 3 links=4\nnvlink 0 1 links=2\nnvlink-down 0 links=1\n";
    let machine = Files::new("links", &(two_processors() + links));
    // NVML_TOPOLOGY_NODE
    let Some(topology) = machine.by_nvml(40) else {
        return;
    };
    let table = "      GPU0  GPU1  GPU2  GPU3  CPU Affinity  NUMA Affinity
GPU0  X     NV2   NODE  NV4   0-3           0
GPU1  NV2   X     NODE  NODE  0-3           0
GPU2  NODE  NODE  X     NODE  4-7           1
GPU3  NV4   NODE  NODE  X     4-7           1
";
    assert_eq!(topology.to_string(), table);
    assert_eq!(topology.best_peer(0), Some(3));
    assert_eq!(topology.best_peer(1), Some(0));
    assert_eq!(topology.tree(2).unwrap(), [(0, 2), (3, 0), (1, 0)]);
    let links = &topology.devices()[0].links;
    assert_eq!(links.len(), 7);
    let first = &links[0];
    assert_eq!(
        (first.index, first.is_active, first.version),
        (0, true, Some((4, 0)))
    );
    assert_eq!(first.bytes_per_second, Some(26_562_000_000));
    assert_eq!(first.remote, Some(NvLinkRemote::Device(3)));
    assert_eq!(links[4].remote, Some(NvLinkRemote::Device(1)));
    let down = &links[6];
    assert_eq!(
        (down.is_active, down.version, &down.remote),
        (false, None, &None)
    );
    let dot = topology.to_dot();
    assert!(
        dot.contains("gpu0 -- gpu3 [label=\"NV4\", penwidth=5];"),
        "{dot}"
    );
    let svg = topology.to_svg();
    assert!(
        svg.starts_with("<svg") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    assert_eq!(svg.matches("<line ").count(), 6, "{svg}");
    assert_eq!(svg.matches(">NV4</text>").count(), 1, "{svg}");
}

#[test]
#[cfg(feature = "nvml")]
fn switches_connect_all_devices() {
    let text = Machine::named("eight-h200-nvswitch").unwrap().to_string();
    let machine = Files::new("switches", &text);
    let Some(topology) = machine.by_nvml(50) else {
        return;
    };
    for from in 0..8 {
        for to in (0..8).filter(|to| *to != from) {
            assert_eq!(topology.connection(from, to).unwrap().nvlinks, 18);
        }
    }
    let remote = topology.devices()[7].links[2].remote.clone();
    assert_eq!(
        remote,
        Some(NvLinkRemote::Switch("00000000:F2:00.0".to_owned()))
    );
    assert_eq!(topology.ring(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// On random machines, no other order of the devices makes a ring with a faster slowest connection,
/// and no other device is a better peer.
#[test]
fn rings_and_peers_of_random_machines_are_the_best() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..12 {
        let count = random.usize(2..=6);
        let mut text = String::new();
        for _ in 0..count {
            let (bus, up, port) = (random.u8(..2), random.u8(..2), random.u8(..3));
            let bridges = format!("pci0000:{bus}0/0000:{bus}0:01.0/up{up}/{port}");
            writeln!(text, "device numa={bus} cpus=0 bridges={bridges}").unwrap();
        }
        let topology = Files::new(&format!("random-{round}"), &text).by_files();
        let path = |from: u32, to: u32| topology.connection(from, to).unwrap().path;
        for from in 0..count as u32 {
            let best = topology.best_peer(from).unwrap();
            let others = (0..count as u32).filter(|to| *to != from);
            let shortest = others.map(|to| path(from, to)).min().unwrap();
            assert_eq!(path(from, best), shortest, "{topology}");
            let tree = topology.tree(from).unwrap();
            assert_eq!(tree.len(), count - 1);
            for (at, (child, parent)) in tree.iter().enumerate() {
                let earlier = &tree[..at];
                let is_inside = |it| it == from || earlier.iter().any(|(child, _)| *child == it);
                assert!(is_inside(*parent) && !is_inside(*child), "{tree:?}");
            }
        }
        let longest = |order: &[u32]| {
            let next = order.iter().cycle().skip(1);
            let steps = order.iter().zip(next);
            steps.map(|(from, to)| path(*from, *to)).max()
        };
        let ring = topology.ring();
        let mut order: Vec<u32> = (0..count as u32).collect();
        for _ in 0..500 {
            assert!(
                longest(&ring) <= longest(&order),
                "{ring:?}, {order:?}\n{topology}"
            );
            random.shuffle(&mut order);
        }
        let mut sorted = ring;
        sorted.sort_unstable();
        order.sort_unstable();
        assert_eq!(sorted, order);
    }
}

/// Compares with the table that `nvidia-smi topo -m` prints.
#[test]
fn the_table_is_that_of_nvidia_smi() {
    let Some(fixture) = gpu() else { return };
    let Ok(output) = Command::new("nvidia-smi").args(["topo", "-m"]).output() else {
        return skip("no nvidia-smi");
    };
    let topology = Topology::discover(fixture.context.driver()).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    for from in topology.devices() {
        let name = format!("GPU{}", from.ordinal);
        let mut rows = printed.lines().map(str::split_whitespace);
        let row = rows.find_map(|mut row| (row.next() == Some(&name)).then_some(row));
        let row: Vec<_> = row.unwrap_or_else(|| panic!("{printed}")).collect();
        for to in topology.devices() {
            let own = topology.connection(from.ordinal, to.ordinal).unwrap();
            assert_eq!(
                row[to.ordinal as usize],
                own.to_string(),
                "{printed}\n{topology}"
            );
        }
    }
}

/// Compares with the links that `nvidia-smi nvlink -s` prints.
#[cfg(feature = "nvml")]
#[test]
fn links_are_those_of_nvidia_smi() {
    let Some(fixture) = gpu() else { return };
    let output = Command::new("nvidia-smi").args(["nvlink", "-s"]).output();
    let Ok(output) = output else {
        return skip("no nvidia-smi");
    };
    let driver = fixture.context.driver();
    let topology = Topology::discover(driver).unwrap();
    assert_eq!(topology.nvml_error(), None);
    let printed = String::from_utf8_lossy(&output.stdout);
    for device in topology.devices() {
        let uuid = driver.device(device.ordinal).unwrap().uuid().unwrap();
        let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        // `GPU 0: NVIDIA H200 (UUID: GPU-…)`, then a line for each link: its speed in GB/s, or
        // `<inactive>`.
        let mut lines = printed.lines().skip_while(|line| {
            let line = line.replace('-', "");
            !line.contains(&uuid)
        });
        let links = lines.by_ref().skip(1);
        let links = links.take_while(|line| !line.starts_with("GPU"));
        let links: Vec<_> = links.filter(|line| line.contains("Link ")).collect();
        let own: Vec<_> = device.links.iter().filter(|it| it.is_active).collect();
        let active = links.iter().filter(|line| line.contains("GB/s")).count();
        assert_eq!(own.len(), active, "{printed}\n{topology}");
        for link in own {
            let prefix = format!("Link {}:", link.index);
            let line = links.iter().find(|line| line.trim().starts_with(&prefix));
            let line = line.unwrap_or_else(|| panic!("no {prefix} in {printed}"));
            let speed = link.bytes_per_second.unwrap() as f64 / 1e9;
            assert!(
                line.contains(&format!(": {speed:.3} GB/s")),
                "{speed} {line}"
            );
        }
    }
}

/// Returns the processors on which this thread may run, as the kernel lists them.
#[cfg(all(target_os = "linux", feature = "affinity"))]
fn allowed() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|it| it.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

#[cfg(all(target_os = "linux", feature = "affinity"))]
#[test]
fn threads_are_bound_to_the_processors_of_a_device() {
    let before = allowed();
    let first = before.split([',', '-']).next().unwrap().to_owned();
    // A processor that this machine lacks is allowed beside others.
    let text = format!(
        "device numa=0 cpus={first},1000 bridges=pci0000:00
         device numa=1 bridges=pci0000:01
         device numa=1 cpus=1001 bridges=pci0000:01
         device numa=1 cpus=1024 bridges=pci0000:01"
    );
    let machine = Files::new("affinity", &text);
    let topology = machine.by_files();
    let [near, unknown, absent, large] = topology.devices() else {
        panic!("{topology}");
    };
    let bound = near.bind_thread().unwrap();
    assert_eq!(allowed(), first);
    std::thread::scope(|scope| {
        // A thread that a bound one starts is bound as well.
        let inherited = scope.spawn(allowed).join().unwrap();
        assert_eq!(inherited, first);
    });
    drop(bound);
    assert_eq!(allowed(), before);

    let errors = [unknown, absent, large].map(|it| it.bind_thread().unwrap_err());
    assert_eq!(
        errors[0].to_string(),
        "the system does not report which processors are close to device 1"
    );
    assert_eq!(errors[1].kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(
        errors[2].to_string(),
        "processor 1024 is more than the largest one, 1023"
    );
    assert_eq!(allowed(), before);
}

/// Binds a thread to the processors of each GPU, and checks where its memory is.
#[cfg(all(target_os = "linux", feature = "affinity"))]
#[test]
fn memory_of_a_bound_thread_is_on_the_node_of_the_gpu() {
    let Some(fixture) = gpu() else { return };
    let topology = Topology::discover(fixture.context.driver()).unwrap();
    for device in topology.devices() {
        let (Some(node), false) = (device.numa_node, device.cpus.is_empty()) else {
            skip("the system does not report the NUMA nodes of its GPUs");
            continue;
        };
        // The processors of this process may be none of those.
        let Ok(_bound) = device.bind_thread() else {
            skip("this process may not run near its GPUs");
            continue;
        };
        let words = vec![7_u8; 1 << 24];
        let maps = fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
        let start = words.as_ptr() as u64;
        let map = maps.lines().rfind(|line| {
            let address = line.split(' ').next().unwrap_or_default();
            u64::from_str_radix(address, 16).is_ok_and(|address| address <= start)
        });
        let Some(map) = map else {
            skip("no /proc/self/numa_maps");
            continue;
        };
        let pages = |node: u32| {
            let prefix = format!("N{node}=");
            let count = map.split(' ').find_map(|word| word.strip_prefix(&prefix));
            count.map_or(0, |count| count.parse::<u64>().unwrap())
        };
        let total: u64 = (0..64).map(pages).sum();
        println!(
            "device {}: node {node}, {} of {total} pages",
            device.ordinal,
            pages(node)
        );
        assert!(pages(node) * 10 >= total * 9, "{map}");
    }
}
