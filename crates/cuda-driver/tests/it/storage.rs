//! Untyped storage with several owners.

use cuda_driver::error::Error;
use cuda_driver::memory::Storage;
use cuda_driver::prelude::*;

use crate::support::{assert_all, everywhere, filled, late_devices, launch_copy};

#[test]
fn views_have_the_type_and_the_range_of_bytes() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let words = [0x0201_u16, 0x0403, 0x0605, 0x0807];
        let mut storage = Storage::from(DeviceBuffer::from_host(&stream, &words).unwrap());
        assert_eq!((storage.bytes(), storage.stream()), (8, &stream));
        let bytes = storage.view::<u8>(1..4).unwrap();
        assert_eq!(bytes.as_raw(), storage.as_raw() + 1);
        assert_eq!(bytes.to_vec().unwrap(), [2, 3, 4]);
        storage.view_mut::<u32>(4..).unwrap().fill(7).unwrap();
        assert_eq!(
            storage.view::<u64>(..).unwrap().to_vec().unwrap(),
            [0x7_0403_0201]
        );
        let misaligned = storage.view::<u16>(1..3).unwrap_err();
        assert!(
            matches!(misaligned, Error::Misaligned { .. }),
            "{misaligned}"
        );
        let uneven = storage.view::<u16>(0..3).unwrap_err();
        assert!(matches!(uneven, Error::Uneven { .. }), "{uneven}");
        let outside = storage.view_mut::<u8>(7..9).unwrap_err();
        assert!(matches!(outside, Error::OutOfRange(_)), "{outside}");

        let storage = storage.into_buffer::<[u8; 3]>().unwrap_err();
        let buffer = storage.into_buffer::<u32>().unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [0x0403_0201, 7]);
        let empty = Storage::from(DeviceBuffer::<u64>::zeroed(&stream, 0).unwrap());
        assert_eq!((empty.bytes(), empty.as_raw()), (0, 0));
    }
}

#[test]
fn only_the_last_handle_gives_writable_views() {
    for fixture in everywhere() {
        let mut storage = Storage::from(filled(&fixture.stream(), 4, 1));
        let check = |storage: &mut Storage, is_unique: bool| {
            assert_eq!(storage.is_unique(), is_unique);
            assert_eq!(storage.view_mut::<u8>(..).is_ok(), is_unique);
            assert_eq!(storage.allow_aliases().is_ok(), is_unique);
        };
        check(&mut storage, true);
        let clone = storage.clone();
        check(&mut storage, false);
        let error = storage.view_mut::<u32>(..).unwrap_err();
        assert!(matches!(error, Error::StillInUse { .. }), "{error}");
        let storage = storage.into_buffer::<u32>().unwrap_err();
        drop(clone);
        let mut storage = storage;
        let part = storage.share(4..8).unwrap();
        check(&mut storage, false);
        assert_eq!(part.to_vec().unwrap(), 1_u32.to_ne_bytes());
        drop(part);
        check(&mut storage, true);
        let _ = storage.into_buffer::<u32>().unwrap();
    }
}

#[test]
fn uses_of_all_handles_are_ordered() {
    const N: u32 = 1 << 10;
    for fixture in late_devices(16) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(crate::support::COPY, "copy");
        let mut storage = Storage::from(filled(&one, N, 1));
        storage.allow_aliases().unwrap();
        let clone = storage.clone();
        let mut target = filled(&two, N, 0);
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let view = clone.view::<u32>(..).unwrap();
        // SAFETY: the kernel reads N words of the one and writes N of the other.
        unsafe { two.launch(&kernel, config, (view, &mut target, N)) }.unwrap();
        // SAFETY: no view of the words is used in the same call, and no code relies on them.
        let mut alias = unsafe { storage.alias_mut::<u32>(..) }.unwrap();
        alias.fill_on(2, &one).unwrap();
        drop((storage, clone));
        let mut last = filled(&one, N, 0);
        launch_copy(&kernel, &one, &target, &mut last).unwrap();
        assert_all(&last, 1, &fixture.name);
    }
}
