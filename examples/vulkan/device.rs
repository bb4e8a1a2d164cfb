//! The device of Vulkan that is also the device of CUDA.
//!
//! All calls of `ash` are `unsafe`. They need handles that exist and belong to one device, and
//! structs whose pointers are valid. `Vulkan` and `Frames` own all handles, and the structs borrow
//! what they point to.

use std::ffi::CStr;

use ash::{Device, Entry, Instance, khr, vk};
use examples::Result;

/// The extensions for file descriptors of memory and semaphores.
const EXTENSIONS: [&CStr; 2] = [
    khr::external_memory_fd::NAME,
    khr::external_semaphore_fd::NAME,
];

/// A device of Vulkan with one queue.
pub(crate) struct Vulkan {
    pub(crate) device: Device,
    pub(crate) queue: vk::Queue,
    /// The number of the family of the queue.
    pub(crate) family: u32,
    pub(crate) memory_fd: khr::external_memory_fd::Device,
    pub(crate) semaphore_fd: khr::external_semaphore_fd::Device,
    physical: vk::PhysicalDevice,
    instance: Instance,
    /// Unloads the library, so it is dropped last.
    _entry: Entry,
}

impl Vulkan {
    /// Opens the device with this UUID. Returns a reason if this machine has none that fits.
    ///
    /// # Errors
    ///
    /// Fails if a call fails that should succeed on a device that fits.
    pub(crate) fn open(uuid: [u8; 16]) -> Result<Result<Self, String>> {
        // SAFETY: the library must be one of Vulkan ← it is the system's, by its name.
        let entry = match unsafe { Entry::load() } {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(format!("there is no Vulkan: {error}"))),
        };
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structs must be valid ← they are local.
        let instance = match unsafe { entry.create_instance(&info, None) } {
            Ok(instance) => instance,
            Err(error) => return Ok(Err(format!("Vulkan has no driver here: {error}"))),
        };
        let found = match find(&instance, uuid) {
            Ok(Ok(physical)) => device(&instance, physical).map(|it| it.map(|it| (physical, it))),
            Ok(Err(reason)) => Ok(Err(reason)),
            Err(error) => Err(error),
        };
        let (physical, (device, family)) = match found {
            Ok(Ok(found)) => found,
            Ok(Err(reason)) => {
                // SAFETY: the instance must have no device ← none was created.
                unsafe { instance.destroy_instance(None) };
                return Ok(Err(reason));
            }
            Err(error) => {
                // SAFETY: as above.
                unsafe { instance.destroy_instance(None) };
                return Err(error);
            }
        };
        // SAFETY: the family must have a queue ← the device was created with one.
        let queue = unsafe { device.get_device_queue(family, 0) };
        Ok(Ok(Self {
            memory_fd: khr::external_memory_fd::Device::new(&instance, &device),
            semaphore_fd: khr::external_semaphore_fd::Device::new(&instance, &device),
            device,
            queue,
            family,
            physical,
            instance,
            _entry: entry,
        }))
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the device must be one of the instance ← `find` has returned it.
        let properties = unsafe { self.instance.get_physical_device_properties(self.physical) };
        let name = properties.device_name_as_c_str();
        name.map_or_else(
            |_| String::new(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    /// Returns the number of a type of memory among `types` that has all `properties`.
    ///
    /// # Errors
    ///
    /// Fails if there is none.
    pub(crate) fn memory_type(
        &self,
        types: u32,
        properties: vk::MemoryPropertyFlags,
    ) -> Result<u32> {
        let physical = self.physical;
        // SAFETY: the device must be one of the instance ← `find` has returned it.
        let all = unsafe {
            self.instance
                .get_physical_device_memory_properties(physical)
        };
        (0..)
            .zip(all.memory_types_as_slice())
            .filter(|(number, _)| types & (1 << number) != 0)
            .find(|(_, memory)| memory.property_flags.contains(properties))
            .map(|(number, _)| number)
            .ok_or_else(|| format!("no memory of Vulkan is {properties:?}").into())
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: the device must have no objects and no work ← `Frames` has destroyed its objects.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: the instance must have no device ← the only one was destroyed just now.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// Returns the device with this UUID, or the reason why there is none that fits.
fn find(instance: &Instance, uuid: [u8; 16]) -> Result<Result<vk::PhysicalDevice, String>> {
    // SAFETY: the instance must be alive ← it is borrowed.
    let devices = unsafe { instance.enumerate_physical_devices() }?;
    let count = devices.len();
    for device in devices {
        let mut id = vk::PhysicalDeviceIDProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
        // SAFETY: the device must be one of the instance ← it was enumerated.
        unsafe { instance.get_physical_device_properties2(device, &mut properties) };
        let version = properties.properties.api_version;
        if id.device_uuid != uuid {
            continue;
        }
        if version < vk::API_VERSION_1_2 {
            return Ok(Err(String::from("the device has no Vulkan 1.2")));
        }
        // SAFETY: as above.
        let has = unsafe { instance.enumerate_device_extension_properties(device) }?;
        for extension in EXTENSIONS {
            let is_it =
                |it: &vk::ExtensionProperties| it.extension_name_as_c_str() == Ok(extension);
            if !has.iter().any(is_it) {
                return Ok(Err(format!(
                    "the device has no {}",
                    extension.to_string_lossy()
                )));
            }
        }
        return Ok(check_semaphores(instance, device).map(|()| device));
    }
    let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Err(format!(
        "none of {count} devices of Vulkan has the UUID {uuid} of CUDA's device"
    )))
}

/// Returns the reason if binary or timeline semaphores cannot be exported as file descriptors.
fn check_semaphores(instance: &Instance, device: vk::PhysicalDevice) -> Result<(), String> {
    for kind in [vk::SemaphoreType::BINARY, vk::SemaphoreType::TIMELINE] {
        let mut kinds = vk::SemaphoreTypeCreateInfo::default().semaphore_type(kind);
        let info = vk::PhysicalDeviceExternalSemaphoreInfo::default()
            .handle_type(vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD)
            .push_next(&mut kinds);
        let mut properties = vk::ExternalSemaphoreProperties::default();
        // SAFETY: the device must be one of the instance ← it was enumerated.
        unsafe {
            instance.get_physical_device_external_semaphore_properties(
                device,
                &info,
                &mut properties,
            );
        }
        let features = properties.external_semaphore_features;
        if !features.contains(vk::ExternalSemaphoreFeatureFlags::EXPORTABLE) {
            return Err(format!(
                "semaphores of the type {kind:?} cannot be exported"
            ));
        }
    }
    Ok(())
}

/// Creates the device and returns it with the family of its queue, or the reason why it does not
/// fit.
fn device(
    instance: &Instance,
    physical: vk::PhysicalDevice,
) -> Result<Result<(Device, u32), String>> {
    // SAFETY: the device must be one of the instance ← `find` has returned it.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let computes =
        |it: &vk::QueueFamilyProperties| it.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let Some(family) = families.iter().position(computes) else {
        return Ok(Err(String::from(
            "the device has no queue for compute shaders",
        )));
    };
    let family = family as u32;
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&[1.0])];
    let extensions = EXTENSIONS.map(CStr::as_ptr);
    let mut features =
        vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut features);
    // SAFETY: the structs must be valid ← they are local.
    let device = unsafe { instance.create_device(physical, &info, None) }?;
    Ok(Ok((device, family)))
}
