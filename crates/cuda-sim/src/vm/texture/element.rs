//! Reads of single elements from memory.

use half::f16;

use super::srgb::linear;
use super::{Channel, Elements, Level, Texture};
use crate::vm::access::{Translator, load};
use crate::vm::check::{ObservedAccess, Observer};
use crate::vm::code::Ins;
use crate::vm::lane_fault::LaneFault;
use crate::vm::space::Env;
use crate::vm::warp::Warp;

/// Reads elements for one lane.
pub(super) struct Reader<'a, 'e> {
    pub(super) w: &'a Warp,
    pub(super) env: &'a Env<'e>,
    pub(super) ins: &'a Ins,
    pub(super) lane: usize,
    pub(super) translator: Translator,
}

/// The bits of 1, the value of a missing fourth channel.
pub(super) fn one(is_float: bool) -> u32 {
    if is_float { 1.0_f32.to_bits() } else { 1 }
}

/// A channel that is read as an integer or a float, extended to 32 bits.
fn whole(channel: Channel, bits: u32) -> u32 {
    match channel {
        Channel::S8 => i32::from(bits as u8 as i8) as u32,
        Channel::S16 => i32::from(bits as u16 as i16) as u32,
        Channel::F16 => f16::from_bits(bits as u16).to_f32().to_bits(),
        _ => bits,
    }
}

/// An integer that is read as a number from 0 or -1 to 1; `None` if the channel is not normalized.
fn normalized(channel: Channel, bits: u32) -> Option<f32> {
    let signed = |value: i32, most: f32| (value as f32 / most).max(-1.0);
    Some(match channel {
        Channel::U8 => bits as f32 / 255.0,
        Channel::U16 => bits as f32 / 65535.0,
        Channel::S8 => signed(whole(channel, bits) as i32, 127.0),
        Channel::S16 => signed(whole(channel, bits) as i32, 32767.0),
        _ => return None,
    })
}

impl Level {
    /// The address of an element of `bytes` bytes.
    pub(super) fn place(&self, [x, y, z]: [u32; 3], bytes: u64) -> u64 {
        let row = u64::from(z) * u64::from(self.size[1]) + u64::from(y);
        let inside = row.wrapping_mul(self.pitch) + u64::from(x) * bytes;
        self.address.wrapping_add(inside)
    }
}

impl Elements {
    /// The bytes of one element.
    pub(super) fn bytes(&self) -> u64 {
        self.channel.bytes() * u64::from(self.channels)
    }
}

impl Reader<'_, '_> {
    /// The texture's value of the element at `at`, which must be inside: the bits of four channels.
    pub(super) fn element(
        &mut self,
        texture: &Texture,
        level: &Level,
        at: [u32; 3],
    ) -> Result<[u32; 4], LaneFault> {
        let elements = &texture.elements;
        let (bytes, size) = (elements.channel.bytes(), elements.bytes());
        let place = level.place(at, size);
        let host = self
            .translator
            .translate(self.w, self.env, place, size, bytes, self.lane)?;
        if let Some(mut observer) = Observer::new(self.w, self.env, self.ins) {
            observer.read(ObservedAccess::new(self.lane, place, size));
        }
        let is_float = texture.is_float();
        let mut all = [0, 0, 0, one(is_float)];
        for (number, value) in all.iter_mut().enumerate().take(elements.channels as usize) {
            // SAFETY: this is a channel of the live bytes, aligned to its size ←
            // `Translator::translate` checked them.
            let bits = unsafe { load(bytes, host + bytes * number as u64) } as u32;
            *value = match normalized(elements.channel, bits) {
                // `cuTexObjectCreate` accepts sRGB for bytes only.
                Some(_) if is_float && texture.sampler.srgb && number < 3 => {
                    linear(bits as u8).to_bits()
                }
                Some(value) if is_float => value.to_bits(),
                _ => whole(elements.channel, bits),
            };
        }
        Ok(all)
    }
}
