//! The variables of launchers.

use nccl::World;

fn world(variables: &[(&str, &str)]) -> Result<World, String> {
    let find = |name: &str| {
        let found = variables.iter().find(|it| it.0 == name);
        found.map(|it| it.1.to_owned())
    };
    World::from_variables(find).map_err(|error| error.to_string())
}

fn place(world: &World) -> (usize, usize, usize, &str, u16) {
    let World {
        process,
        processes,
        local_process,
        host,
        port,
    } = world;
    (*process, *processes, *local_process, host, *port)
}

#[test]
fn without_variables_there_is_one_process() {
    assert_eq!(place(&world(&[]).unwrap()), (0, 1, 0, "127.0.0.1", 29500));
}

#[test]
fn variables_of_each_launcher_are_read() {
    let torchrun = [
        ("RANK", "5"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("MASTER_ADDR", "10.0.0.7"),
        ("MASTER_PORT", "1234"),
    ];
    assert_eq!(
        place(&world(&torchrun).unwrap()),
        (5, 8, 1, "10.0.0.7", 1234)
    );
    let open_mpi = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("MASTER_ADDR", "a"),
        // Slurm has started `mpirun` as one process.
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "1"),
    ];
    assert_eq!(place(&world(&open_mpi).unwrap()), (3, 4, 1, "a", 29500));
    let mpich = [("PMI_RANK", "1"), ("PMI_SIZE", "2")];
    assert_eq!(
        place(&world(&mpich).unwrap()),
        (1, 2, 1, "127.0.0.1", 29500)
    );
    for (list, first) in [
        ("node[08-11,20],login1", "node08"),
        ("rack[3]-gpu,other", "rack3-gpu"),
        ("alpha,beta", "alpha"),
        ("single", "single"),
    ] {
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_JOB_NODELIST", list),
        ];
        assert_eq!(place(&world(&slurm).unwrap()), (1, 2, 0, first, 29500));
    }
}

#[test]
fn wrong_variables_are_errors() {
    for (variables, message) in [
        (&[("RANK", "0")][..], "RANK is set, but WORLD_SIZE is not"),
        (
            &[("RANK", "x"), ("WORLD_SIZE", "2")],
            "RANK is \"x\"; it must be a number",
        ),
        (
            &[("RANK", "2"), ("WORLD_SIZE", "2")],
            "RANK is 2; it must be less than WORLD_SIZE, 2",
        ),
        (
            &[("MASTER_PORT", "70000")],
            "MASTER_PORT is \"70000\"; it must be a number from 1 on",
        ),
    ] {
        assert_eq!(world(variables).unwrap_err(), message);
    }
}
