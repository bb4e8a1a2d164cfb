//! Textures and surfaces: what an instruction needs of the object that it uses.

use std::fmt::{self, Display, Formatter};

/// The arrangement of the elements of a texture or a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectShape {
    /// Linear memory, which `tex.1d` reads at integer coordinates (`tex1Dfetch`).
    Linear,
    /// One dimension.
    OneD,
    /// Two dimensions.
    TwoD,
    /// Three dimensions.
    ThreeD,
    /// Layers of one dimension.
    OneDLayered,
    /// Layers of two dimensions.
    TwoDLayered,
    /// The six faces of a cube.
    Cube,
    /// Layers of cubes.
    CubeLayered,
}

impl ObjectShape {
    /// The shape that a modifier such as `.2d` names.
    pub(super) fn parse(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "1d" => Self::OneD,
            "2d" => Self::TwoD,
            "3d" => Self::ThreeD,
            "a1d" => Self::OneDLayered,
            "a2d" => Self::TwoDLayered,
            "cube" => Self::Cube,
            "acube" => Self::CubeLayered,
            _ => return None,
        })
    }

    /// Whether a surface of this shape has layers, which include the faces of cubes.
    pub(crate) fn is_layered(self) -> bool {
        matches!(
            self,
            Self::OneDLayered | Self::TwoDLayered | Self::Cube | Self::CubeLayered
        )
    }
}

impl Display for ObjectShape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linear => "linear memory",
            Self::OneD => "one dimension",
            Self::TwoD => "two dimensions",
            Self::ThreeD => "three dimensions",
            Self::OneDLayered => "layers of one dimension",
            Self::TwoDLayered => "layers of two dimensions",
            Self::Cube => "one cube",
            Self::CubeLayered => "layers of cubes",
        })
    }
}

/// A texture or surface object whose handle is an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Whether it is a texture or a surface.
    pub kind: ObjectKind,
    /// The arrangement of its elements.
    pub shape: ObjectShape,
}

/// The kind of an [`Object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A texture.
    Texture {
        /// Whether `tld4` may read it: its array was created for that.
        can_gather: bool,
    },
    /// A surface.
    Surface {
        /// The bytes of an element.
        element_bytes: u32,
        /// Whether the kernel may write to the surface.
        is_writable: bool,
    },
}

impl Display for Object {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shape = self.shape;
        match self.kind {
            ObjectKind::Texture { can_gather: true } => {
                write!(f, "a texture of {shape} whose array permits gathers")
            }
            ObjectKind::Texture { .. } => write!(f, "a texture of {shape}"),
            ObjectKind::Surface {
                element_bytes,
                is_writable,
            } => {
                let use_of = if is_writable { "writable" } else { "read-only" };
                write!(
                    f,
                    "a {use_of} surface of {shape} with elements of {element_bytes} bytes"
                )
            }
        }
    }
}

/// The effect of an access outside of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundaryMode {
    /// A fault.
    Trap,
    /// The access is made at the nearest position.
    Clamp,
    /// A load returns 0, and a store does nothing.
    Zero,
}

/// A property that `txq` and `suq` return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    Width,
    Height,
    Depth,
    ArraySize,
    Levels,
}

/// The use of an object by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectUse {
    /// `tex`
    Fetch(ObjectShape),
    /// `tld4`
    Gather,
    /// `txq`
    QueryTexture(Property),
    /// `suq`
    QuerySurface(Property),
    /// `suld`, `sust`, `sured`
    Surface {
        shape: ObjectShape,
        mode: BoundaryMode,
        /// The bytes of the access.
        size: u32,
        is_write: bool,
    },
}

impl Property {
    pub(super) fn parse(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "width" => Self::Width,
            "height" => Self::Height,
            "depth" => Self::Depth,
            "array_size" => Self::ArraySize,
            "num_mipmap_levels" => Self::Levels,
            _ => return None,
        })
    }

    /// Whether an object of this shape has the property.
    fn is_of(self, shape: ObjectShape) -> bool {
        use ObjectShape::{Cube, CubeLayered, OneDLayered, ThreeD, TwoD, TwoDLayered};
        match self {
            Self::Width | Self::Levels => true,
            Self::Height => matches!(shape, TwoD | ThreeD | TwoDLayered | Cube | CubeLayered),
            Self::Depth => shape == ThreeD,
            Self::ArraySize => matches!(shape, OneDLayered | TwoDLayered),
        }
    }
}

impl ObjectUse {
    /// Whether the instruction may use this object.
    pub(crate) fn permits(self, object: &Object) -> bool {
        match (self, object.kind) {
            (Self::Fetch(shape), ObjectKind::Texture { .. }) => object.shape == shape,
            (Self::Gather, ObjectKind::Texture { can_gather }) => {
                object.shape == ObjectShape::TwoD && can_gather
            }
            (Self::QueryTexture(property), ObjectKind::Texture { .. })
            | (Self::QuerySurface(property), ObjectKind::Surface { .. }) => {
                property.is_of(object.shape)
            }
            (
                Self::Surface {
                    shape,
                    size,
                    is_write,
                    ..
                },
                ObjectKind::Surface {
                    element_bytes,
                    is_writable,
                },
            ) => {
                // The faces of cubes are layers.
                let of_layers = shape == ObjectShape::TwoDLayered
                    && matches!(object.shape, ObjectShape::Cube | ObjectShape::CubeLayered);
                let is_shape = object.shape == shape || of_layers;
                is_shape && size == element_bytes && (is_writable || !is_write)
            }
            _ => false,
        }
    }

    /// The smallest object that the instruction may use.
    pub(crate) fn example(self) -> Object {
        let texture = |shape, can_gather| Object {
            kind: ObjectKind::Texture { can_gather },
            shape,
        };
        let of_property = |property| match property {
            Property::Width | Property::Levels => ObjectShape::OneD,
            Property::Height => ObjectShape::TwoD,
            Property::Depth => ObjectShape::ThreeD,
            Property::ArraySize => ObjectShape::OneDLayered,
        };
        match self {
            Self::Fetch(shape) => texture(shape, false),
            Self::Gather => texture(ObjectShape::TwoD, true),
            Self::QueryTexture(property) => texture(of_property(property), false),
            Self::QuerySurface(property) => Object {
                kind: ObjectKind::Surface {
                    element_bytes: 4,
                    is_writable: false,
                },
                shape: of_property(property),
            },
            Self::Surface {
                shape,
                size,
                is_write,
                ..
            } => Object {
                kind: ObjectKind::Surface {
                    element_bytes: size,
                    is_writable: is_write,
                },
                shape,
            },
        }
    }
}

/// Writes the requirements of the instruction as a part of a sentence.
impl Display for ObjectUse {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let property = |property: &Property| match property {
            Property::Width | Property::Levels => "",
            Property::Height => " with rows",
            Property::Depth => " of three dimensions",
            Property::ArraySize => " of layers",
        };
        match self {
            Self::QueryTexture(of) => write!(f, "a texture{}", property(of)),
            Self::QuerySurface(of) => write!(f, "a surface{}", property(of)),
            Self::Surface {
                shape,
                size,
                is_write: false,
                ..
            } => write!(f, "a surface of {shape} with elements of {size} bytes"),
            other => other.example().fmt(f),
        }
    }
}
