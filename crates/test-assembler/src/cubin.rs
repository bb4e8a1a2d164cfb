//! The machine code that an assembler writes.

#![allow(
    clippy::panic,
    reason = "this is a part of tests, which panic if a file is not what they expect"
)]

use object::{Object, ObjectSection};

/// An ELF file with machine code.
#[derive(Clone, Debug)]
pub struct Cubin(Vec<u8>);

/// The machine code of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The name of the function.
    pub function: String,
    /// The instructions, such as `@P1 LDG.E R8, [R2.64]`.
    pub instructions: Vec<String>,
}

impl Cubin {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the sections with machine code: the name, such as `.text.kernel`, and the bytes.
    ///
    /// # Panics
    ///
    /// Panics if this is not an ELF file.
    #[must_use]
    pub fn code(&self) -> Vec<(String, Vec<u8>)> {
        self.sections(".text.")
    }

    /// Returns the sections whose names start with `prefix`, sorted by name: for example
    /// `.nv.global.init` holds the initial values of global variables, and `.nv.constant3` those of
    /// constant ones.
    ///
    /// # Panics
    ///
    /// Panics if this is not an ELF file.
    #[must_use]
    pub fn sections(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let file = object::File::parse(&*self.0).unwrap_or_else(|error| panic!("{error}"));
        let mut sections = Vec::new();
        for section in file.sections() {
            let name = section.name().unwrap_or_else(|error| panic!("{error}"));
            if name.starts_with(prefix) {
                let data = section.data().unwrap_or_else(|error| panic!("{error}"));
                sections.push((name.to_owned(), data.to_vec()));
            }
        }
        sections.sort();
        sections
    }
}

/// Splits what `nvdisasm -c` prints into functions and instructions.
pub(crate) fn listings(text: &str) -> Vec<Listing> {
    let mut listings: Vec<Listing> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.trim_start().strip_prefix(".section") {
            let name = rest.split([',', '"']).next().unwrap_or_default().trim();
            if let Some(function) = name.strip_prefix(".text.") {
                listings.push(Listing {
                    function: function.to_owned(),
                    instructions: Vec::new(),
                });
            }
            continue;
        }
        // `        /*0010*/                   MOV R1, c[0x0][0x28] ;`
        let Some((_, instruction)) = line.split_once("*/") else {
            continue;
        };
        let instruction = instruction.split(';').next().unwrap_or_default().trim();
        if let (Some(listing), false) = (listings.last_mut(), instruction.is_empty()) {
            listing.instructions.push(instruction.to_owned());
        }
    }
    listings
}
