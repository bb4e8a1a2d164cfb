//! Teaches: structs, as elements of a buffer and as arguments, with a derive that checks their
//! layout.
//!
//! Prints the number of verified coordinates.
//!
//! `cargo run -p examples --example struct_args`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
struct Particle { float position[2], velocity[2]; };
struct World { float dt, gravity, bounce; unsigned count; };

// Moves each particle; it bounces off the floor, which is at height 0.
extern "C" __global__ void fall(Particle *particles, World world) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= world.count) return;
    Particle it = particles[i];
    it.velocity[1] -= world.gravity * world.dt;
    for (int k = 0; k < 2; k++) it.position[k] += it.velocity[k] * world.dt;
    if (it.position[1] < 0.0f) {
        it.position[1] = -it.position[1];
        it.velocity[1] *= -world.bounce;
    }
    particles[i] = it;
}
"#;

/// `Particle` in the source. `repr(C)` gives it the layout of C++, and the derive refuses structs
/// with padding.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
struct Particle {
    position: [f32; 2],
    velocity: [f32; 2],
}

/// `World` in the source.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
struct World {
    dt: f32,
    gravity: f32,
    bounce: f32,
    count: u32,
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let stream = &session.stream;
    let fall = SafeModule::from_source(&session.context, SOURCE)?.kernel("fall")?;

    let world = World {
        dt: 0.01,
        gravity: 9.81,
        bounce: 0.8,
        count: 1000,
    };
    let mut particles: Vec<Particle> = (0..world.count)
        .map(|i| Particle {
            position: [i as f32, 0.001 * i as f32],
            velocity: [1.0, 0.0],
        })
        .collect();
    let mut on_device = DeviceBuffer::from_host(stream, &particles)?;
    for _ in 0..50 {
        let config = LaunchConfig::for_num_elems(world.count)?;
        stream.launch_safe(&fall, config, (&mut on_device, world))?;
        particles
            .iter_mut()
            .for_each(|particle| particle.fall(world));
    }
    let flat = |particles: &[Particle]| -> Vec<f32> {
        particles.iter().flat_map(|it| it.position).collect()
    };
    verify(
        "struct_args",
        &flat(&on_device.to_vec()?),
        &flat(&particles),
        1e-4,
    )
}

impl Particle {
    /// Computes what the kernel computes for one particle.
    fn fall(&mut self, world: World) {
        self.velocity[1] -= world.gravity * world.dt;
        for k in 0..2 {
            self.position[k] += self.velocity[k] * world.dt;
        }
        if self.position[1] < 0.0 {
            self.position[1] = -self.position[1];
            self.velocity[1] *= -world.bounce;
        }
    }
}
