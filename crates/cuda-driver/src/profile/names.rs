//! The names of the work that a profiler records.

use std::collections::HashMap;
use std::sync::Arc;

/// The number of names that are found without hashing.
const RECENT: usize = 32;

/// A name, and whether it is that of a kernel whose resources are known.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) text: Arc<str>,
    pub(super) is_kernel: bool,
}

/// The names, each of which is stored once.
///
/// A program launches the same kernels again and again, and the name of a kernel stays at its
/// address. So a table by address is tried first.
#[derive(Default)]
pub(super) struct Names {
    all: HashMap<Arc<str>, bool>,
    recent: [Option<Name>; RECENT],
}

impl Names {
    /// Returns the shared copy of a name.
    pub(super) fn get(&mut self, name: &str) -> Name {
        let place = (name.as_ptr().addr() >> 3) % RECENT;
        let recent = self.recent.get_mut(place);
        if let Some(Some(known)) = &recent
            && *known.text == *name
        {
            return known.clone();
        }
        let known = self.all.get_key_value(name);
        let found = match known {
            Some((text, is_kernel)) => Name {
                text: Arc::clone(text),
                is_kernel: *is_kernel,
            },
            None => {
                let text: Arc<str> = name.into();
                self.all.insert(Arc::clone(&text), false);
                Name {
                    text,
                    is_kernel: false,
                }
            }
        };
        if let Some(recent) = recent {
            *recent = Some(found.clone());
        }
        found
    }

    /// Notes that the resources of the kernel with this name are known.
    pub(super) fn mark_kernel(&mut self, name: &str) {
        if let Some(is_kernel) = self.all.get_mut(name) {
            *is_kernel = true;
        }
        let recent = self.recent.iter_mut().flatten();
        for known in recent.filter(|it| *it.text == *name) {
            known.is_kernel = true;
        }
    }
}
