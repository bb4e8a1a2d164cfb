//! The choice of a device. The environment belongs to the process, so each case runs this test
//! binary again.

use std::env;
use std::ffi::OsStr;
use std::process::Command;

use cuda_sys::DriverLibrary;

/// The environment variable that is set in processes which choose a device and print it.
const CHOOSER: &str = "CUDA_SIM_TEST_CHOOSER";

/// The environment variable with the number of devices that the process asks for.
const DEVICES: &str = "CUDA_SIM_TEST_DEVICES";

/// The line that a process with these variables prints: its choice, and whether that is a software
/// device.
fn choose<S: AsRef<OsStr>>(variables: &[(S, S)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "choice::chooser", "--nocapture"]);
    command
        .env_remove("CUDA_SIM")
        .env_remove("CUDA_DRIVER_LIBRARY")
        .env(CHOOSER, "1");
    let output = command
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.split_once("CHOSE "))
        .map(|(_, rest)| rest);
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn chooser() {
    if env::var_os(CHOOSER).is_none() {
        return;
    }
    if let Ok(devices) = env::var(DEVICES) {
        let choice = cuda_sim::gpus_or_software(devices.parse().unwrap()).unwrap();
        println!("CHOSE {}", count(choice.library()));
        return;
    }
    match cuda_sim::gpu_or_software() {
        Ok(choice) => {
            println!("CHOSE {} {choice}", choice.is_software());
            let version = choice.library().version();
            assert_eq!(choice.into_library().version(), version);
        }
        Err(error) => println!("CHOSE error {error}"),
    }
}

/// The number of devices of a driver.
fn count(library: &DriverLibrary) -> i32 {
    // SAFETY: no pointers; the flags must be 0 ← they are.
    assert!(unsafe { library.cuInit(0) }.is_success());
    let mut count = 0;
    // SAFETY: the pointer must be writable ← `count` is a local.
    assert!(unsafe { library.cuDeviceGetCount(&raw mut count) }.is_success());
    count
}

#[test]
fn a_program_gets_as_many_devices_as_it_needs() {
    let with = |setting, devices| choose(&[("CUDA_SIM", setting), (DEVICES, devices)]);
    assert_eq!(with("1", "2"), "2");
    assert_eq!(with("devices=3", "2"), "3");
    // Without a setting there are software devices, unless the machine has as many GPUs.
    let count: u32 = choose(&[(DEVICES, "5")]).parse().unwrap();
    assert!(count >= 5, "{count}");
}

#[test]
fn the_variable_decides() {
    let line = choose(&[("CUDA_SIM", "version=12.4")]);
    assert_eq!(
        line,
        "true Running on the software device: requested by CUDA_SIM=version=12.4"
    );
    let line = choose(&[("CUDA_SIM", "devices=many")]);
    assert!(
        line.starts_with(
            "error cannot create the software device: CUDA_SIM has an invalid part `devices=many`"
        ),
        "{line}"
    );
}

#[test]
fn a_driver_variable_with_a_wrong_path_is_an_error() {
    let line = choose(&[("CUDA_DRIVER_LIBRARY", "/no/such/libcuda.so.1")]);
    assert!(
        line.starts_with(
            "error CUDA_DRIVER_LIBRARY is set to /no/such/libcuda.so.1, which cannot be used: "
        ),
        "{line}"
    );
    // The file is a library, but not a driver.
    let program = env::current_exe().unwrap();
    let line = choose(&[("CUDA_DRIVER_LIBRARY", program.to_str().unwrap())]);
    assert!(
        line.starts_with("error CUDA_DRIVER_LIBRARY is set to "),
        "{line}"
    );
    // CUDA_SIM takes effect before the driver is loaded.
    let line = choose(&[
        ("CUDA_DRIVER_LIBRARY", "/no/such/libcuda.so.1"),
        ("CUDA_SIM", "1"),
    ]);
    assert!(line.starts_with("true "), "{line}");
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let unset = choose::<&str>(&[]);
    assert_eq!(choose(&[("CUDA_SIM", "")]), unset);
    assert_eq!(choose(&[("CUDA_DRIVER_LIBRARY", "")]), unset);
    assert!(!unset.contains("requested by"), "{unset}");
}

#[cfg(unix)]
#[test]
fn a_setting_that_is_not_unicode_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    let value = OsStr::from_bytes(b"devices=\xff");
    let line = choose(&[("CUDA_SIM".as_ref(), value)]);
    assert!(
        line.starts_with("error CUDA_SIM is set to devices=\u{fffd}, which is not Unicode"),
        "{line}"
    );
}

#[test]
fn default_choice_always_has_a_device() {
    let line = choose::<&str>(&[]);
    let software = line.starts_with("true Running on the software device: ");
    let gpu = line.starts_with("false Running on the GPU: ");
    assert!(software || gpu, "{line}");
}
