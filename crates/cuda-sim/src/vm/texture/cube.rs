//! Conversion of directions to faces of a cube map.

/// The face that a direction points to, and the position on it, from 0 to 1, by the table of the
/// programming guide ("Cubemap Textures").
pub(super) fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let [across, up, along] = [x, y, z].map(f32::abs);
    let (face, most, s, t) = if across > up && across > along {
        if x >= 0.0 {
            (0, across, -z, -y)
        } else {
            (1, across, z, -y)
        }
    } else if up > along {
        if y >= 0.0 {
            (2, up, x, z)
        } else {
            (3, up, x, -z)
        }
    } else if z >= 0.0 {
        (4, along, x, -y)
    } else {
        (5, along, -x, -y)
    };
    (face, [s, t].map(|at| (at / most + 1.0) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::face;

    #[test]
    fn each_face_has_its_middle_and_its_sides() {
        let middle = [0.5, 0.5];
        for (direction, number) in [
            ([2.0, 0.0, 0.0], 0),
            ([-2.0, 0.0, 0.0], 1),
            ([0.0, 0.5, 0.0], 2),
            ([0.0, -0.5, 0.0], 3),
            ([0.0, 0.0, 7.0], 4),
            ([0.0, 0.0, -7.0], 5),
        ] {
            assert_eq!(face(direction), (number, middle));
        }
        assert_eq!(face([2.0, 1.0, -1.0]), (0, [0.75, 0.25]));
        assert_eq!(face([-2.0, 1.0, -1.0]), (1, [0.25, 0.25]));
        assert_eq!(face([1.0, 2.0, -1.0]), (2, [0.75, 0.25]));
        assert_eq!(face([1.0, -2.0, -1.0]), (3, [0.75, 0.75]));
        assert_eq!(face([1.0, -1.0, 2.0]), (4, [0.75, 0.75]));
        assert_eq!(face([1.0, -1.0, -2.0]), (5, [0.25, 0.75]));
    }
}
