//! The elements that a coordinate refers to, and their weights.
//!
//! The weights of linear filters have 8 bits of fraction, as the programming guide says ("Texture
//! Fetching").

use super::element::Reader;
use super::{AddressMode, Level, Shape, Texture};
use crate::vm::lane_fault::LaneFault;

/// An element along one dimension (`None` for the border) and its weight.
pub(super) type Tap = (Option<u32>, f32);

/// The elements along one dimension: one, or two neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taps {
    all: [Tap; 2],
    count: usize,
}

impl Taps {
    /// A single element.
    pub(super) fn one(index: u32) -> Self {
        Self {
            all: [(Some(index), 1.0); 2],
            count: 1,
        }
    }

    pub(super) fn get(&self) -> &[Tap] {
        &self.all[..self.count]
    }
}

/// The interpretation of coordinates along one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) size: u32,
    pub(super) mode: AddressMode,
    pub(super) normalized: bool,
}

impl Axis {
    /// The coordinate in elements, folded into the first period if the elements repeat.
    fn scaled(self, coordinate: f32) -> f64 {
        if !self.normalized {
            return coordinate.into();
        }
        let floor = coordinate.floor();
        let rest = coordinate - floor;
        let folded = match self.mode {
            AddressMode::Wrap => rest,
            AddressMode::Mirror if floor % 2.0 != 0.0 => 1.0 - rest,
            AddressMode::Mirror => rest,
            AddressMode::Clamp | AddressMode::Border => coordinate,
        };
        // The product of two numbers with 24 significant bits is exact.
        f64::from(folded) * f64::from(self.size)
    }

    fn index(self, at: i64) -> Option<u32> {
        let size = i64::from(self.size);
        match self.mode {
            AddressMode::Border => u32::try_from(at).ok().filter(|&at| at < self.size),
            AddressMode::Wrap => Some(at.rem_euclid(size) as u32),
            AddressMode::Clamp | AddressMode::Mirror => Some(at.clamp(0, size - 1) as u32),
        }
    }

    /// The element that contains the coordinate.
    pub(super) fn nearest(self, coordinate: f32) -> Taps {
        let index = self.index(self.scaled(coordinate).floor() as i64);
        Taps {
            all: [(index, 1.0); 2],
            count: 1,
        }
    }

    /// The two elements whose centres are on either side of the coordinate.
    pub(super) fn between(self, coordinate: f32) -> Taps {
        let fixed = (self.scaled(coordinate) * 256.0).round() as i64;
        let fixed = fixed.saturating_sub(128);
        let (first, weight) = (fixed >> 8, (fixed & 255) as f32 / 256.0);
        let second = self.index(first.saturating_add(1));
        Taps {
            all: [(self.index(first), 1.0 - weight), (second, weight)],
            count: 2,
        }
    }
}

/// A lane's request: coordinates, layer and interpretation.
#[derive(Clone, Copy, Debug)]
pub(super) struct TexelPosition {
    pub(super) at: [f32; 3],
    /// The number of coordinates. Of the remaining ones, one may be a layer.
    pub(super) axes: usize,
    /// The layer, including the face of a cube.
    pub(super) layer: u32,
    /// Whether the coordinates are from 0 to 1, whatever the sampler says.
    pub(super) normalized: bool,
}

impl TexelPosition {
    pub(super) fn axis(&self, texture: &Texture, level: &Level, axis: usize) -> Axis {
        Axis {
            size: level.size[axis],
            mode: texture.sampler.address[axis],
            normalized: self.normalized || texture.sampler.normalized,
        }
    }

    /// The elements along each dimension.
    fn taps(&self, texture: &Texture, level: &Level) -> [Taps; 3] {
        let mut taps = [Taps::one(0), Taps::one(0), Taps::one(self.layer)];
        for (axis, taps) in taps.iter_mut().enumerate().take(self.axes) {
            let coordinate = self.at[axis];
            let axis = self.axis(texture, level, axis);
            *taps = if texture.sampler.linear {
                axis.between(coordinate)
            } else {
                axis.nearest(coordinate)
            };
        }
        // An H100 filters a line as a row of a plane, at y = 0: halfway between the row and what is
        // above it. It does not do so for layered lines.
        let is_line = texture.elements.shape == Shape::Line && texture.sampler.linear;
        if is_line && texture.sampler.address[1] == AddressMode::Border {
            taps[1] = self.axis(texture, level, 1).between(0.0);
        }
        taps
    }
}

/// Converts a level of detail to two levels and the weight of the second.
fn levels(texture: &Texture, detail: f32) -> (usize, usize, f32) {
    let sampler = &texture.sampler;
    let [least, most] = sampler.detail;
    let last = texture.elements.levels.len() - 1;
    let detail = (detail + sampler.bias).max(least).min(most);
    let detail = detail.max(0.0).min(last as f32);
    if sampler.levels_linear {
        let fixed = (detail * 256.0).round() as usize;
        let first = fixed >> 8;
        (first, (first + 1).min(last), (fixed & 255) as f32 / 256.0)
    } else {
        let nearest = ((detail + 0.5).floor() as usize).min(last);
        (nearest, nearest, 0.0)
    }
}

impl Reader<'_, '_> {
    /// The texture's value at this place. `detail` is the level of detail; `None` means the most
    /// detailed level.
    pub(super) fn sample(
        &mut self,
        texture: &Texture,
        position: &TexelPosition,
        detail: Option<f32>,
    ) -> Result<[u32; 4], LaneFault> {
        let (first, second, weight) = detail.map_or((0, 0, 0.0), |detail| levels(texture, detail));
        let near = self.level(texture, first, position)?;
        if weight == 0.0 {
            return Ok(near);
        }
        let far = self.level(texture, second, position)?;
        let mut mixed = [0; 4];
        for (mixed, (near, far)) in mixed.iter_mut().zip(near.into_iter().zip(far)) {
            let (near, far) = (f32::from_bits(near), f32::from_bits(far));
            *mixed = ((1.0 - weight) * near + weight * far).to_bits();
        }
        Ok(mixed)
    }

    /// Reads the element of one tap of each dimension.
    pub(super) fn tap(
        &mut self,
        texture: &Texture,
        level: &Level,
        at: [Option<u32>; 3],
    ) -> Result<[u32; 4], LaneFault> {
        match at {
            [Some(x), Some(y), Some(z)] => self.element(texture, level, [x, y, z]),
            _ => Ok(texture.sampler.border),
        }
    }

    fn level(
        &mut self,
        texture: &Texture,
        number: usize,
        position: &TexelPosition,
    ) -> Result<[u32; 4], LaneFault> {
        let level = &texture.elements.levels[number];
        let [x, y, z] = position.taps(texture, level);
        if !texture.sampler.linear {
            let at = [x, y, z].map(|taps| taps.get()[0].0);
            return self.tap(texture, level, at);
        }
        let mut sum = [0.0_f32; 4];
        for &(z, of_z) in z.get() {
            for &(y, of_y) in y.get() {
                for &(x, of_x) in x.get() {
                    let weight = of_x * of_y * of_z;
                    // An element without weight is not read.
                    if weight == 0.0 {
                        continue;
                    }
                    let value = self.tap(texture, level, [x, y, z])?;
                    for (sum, value) in sum.iter_mut().zip(value) {
                        *sum += weight * f32::from_bits(value);
                    }
                }
            }
        }
        Ok(sum.map(f32::to_bits))
    }
}
