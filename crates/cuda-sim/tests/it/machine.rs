//! Descriptions of machines.

use cuda_sim::{Builder, Machine, MachineLink};

#[test]
fn a_machine_is_printed_as_it_is_parsed() {
    for name in Machine::names() {
        let machine = Machine::named(name).unwrap();
        assert_eq!(machine.to_string().parse::<Machine>().unwrap(), machine);
    }
    let text = "device name=\"With spaces\" numa=3 cpus=0-1,4\ndevice\nnvlink-down 1 links=2";
    let machine: Machine = text.parse().unwrap();
    assert_eq!(machine.to_string().parse::<Machine>().unwrap(), machine);
    let [one, other] = machine.devices() else {
        panic!("{machine}");
    };
    assert_eq!(one.name.as_deref(), Some("With spaces"));
    assert_eq!((one.numa_node, &*one.cpus), (Some(3), "0-1,4"));
    assert_eq!(other.links, [MachineLink::Down; 2]);
    assert_eq!(machine.nvlinks(0, 1), 0);
}

#[test]
fn a_link_counts_in_both_directions() {
    let machine = Machine::named("two-h100-nvlink").unwrap();
    assert_eq!((machine.nvlinks(0, 1), machine.nvlinks(1, 0)), (12, 12));
    assert_eq!(machine.nvlinks(0, 2), 0);
    let machine = Machine::named("eight-h200-nvswitch").unwrap();
    assert_eq!(machine.nvlinks(2, 7), 18);
    assert!(machine.has_access(2, 7) && !machine.has_access(2, 2));
    assert_eq!(machine.pci_bus_id(7), "0000:08:00.0");
}

#[test]
fn a_line_that_is_wrong_is_named() {
    for line in [
        "gpu",
        "device cc=9",
        "device memory=lots",
        "device clock=3000000",
        "device name=\"open",
        "nvlink 0 1 links=4",
        "nvlink 0 0 links=4",
        "nvlink-down 3 links=1",
        "nvswitch links=4 switches=0",
        "no-access 0",
    ] {
        let error = format!("device\n# a comment\n{line}").parse::<Machine>();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains(line), "{error}");
    }
    for (text, part) in [
        ("", "no `device`"),
        ("device multiprocessors=257", "257 multiprocessors"),
        ("device\ndevice\nnvlink 0 1 links=19", "19 NVLink links"),
    ] {
        let error = text.parse::<Machine>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn devices_are_checked_like_a_single_one() {
    for (text, part) in [
        ("device\ndevice cc=5.0", "5.0"),
        ("device memory=0", "memory is 0"),
    ] {
        let machine: Machine = text.parse().unwrap();
        let error = Builder::new().machine(machine).build().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
