//! The special registers, as in the section "Special Registers" of the PTX manual.

/// The members of a special register that is a vector.
const MEMBERS: &[&str] = &["x", "y", "z", "w"];

/// Special registers with the members `x`, `y`, `z` and `w`. Sorted.
const VECTORS: &[&str] = &[
    "%cluster_ctaid",
    "%cluster_nctaid",
    "%clusterid",
    "%ctaid",
    "%nclusterid",
    "%nctaid",
    "%ntid",
    "%tid",
];

/// Special registers without members. Sorted.
const SCALARS: &[&str] = &[
    "%aggr_smem_size",
    "%clock",
    "%clock64",
    "%clock_hi",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%current_graph_exec",
    "%dynamic_smem_size",
    "%globaltimer",
    "%globaltimer_hi",
    "%globaltimer_lo",
    "%gridid",
    "%is_explicit_cluster",
    "%laneid",
    "%lanemask_eq",
    "%lanemask_ge",
    "%lanemask_gt",
    "%lanemask_le",
    "%lanemask_lt",
    "%nsmid",
    "%nwarpid",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_end",
    "%smid",
    "%total_smem_size",
    "%warpid",
];

/// Whether `name` is a special register without members, or the number of lanes of a warp.
pub(super) fn is_scalar(name: &str) -> bool {
    name == "WARP_SZ" || SCALARS.binary_search(&name).is_ok() || is_environment(name)
}

/// Whether `name` is a special register that has the member.
pub(super) fn has_member(name: &str, member: &str) -> bool {
    VECTORS.binary_search(&name).is_ok() && MEMBERS.contains(&member)
}

/// Whether `name` is a special register, with or without members.
pub(crate) fn is_special(name: &str) -> bool {
    let is_numbered = |prefix: &str| {
        let number = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.parse::<u32>().ok());
        number.is_some_and(|number| number < 8)
    };
    is_scalar(name)
        || VECTORS.binary_search(&name).is_ok()
        || is_numbered("%reserved_smem_offset_")
        || is_numbered("%pm")
        || name
            .strip_suffix("_64")
            .is_some_and(|name| name.starts_with("%pm"))
}

/// Whether `name` is `%envreg0` to `%envreg31`.
fn is_environment(name: &str) -> bool {
    let number = name
        .strip_prefix("%envreg")
        .filter(|it| !it.starts_with('0') || *it == "0");
    number.is_some_and(|number| number.parse::<u32>().is_ok_and(|number| number < 32))
}
