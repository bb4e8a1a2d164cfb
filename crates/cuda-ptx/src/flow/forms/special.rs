//! The special registers.

/// A special register: its name, its type, and its members.
pub(super) struct Special {
    pub(super) name: &'static str,
    bits: u32,
    members: &'static str,
}

const fn special(name: &'static str, bits: u32, members: &'static str) -> Special {
    Special {
        name,
        bits,
        members,
    }
}

/// The special registers of the manual without those that have a number in their name.
pub(super) const SPECIAL: &[Special] = &[
    special("%tid", 32, "xyzw"),
    special("%ntid", 32, "xyzw"),
    special("%laneid", 32, ""),
    special("%warpid", 32, ""),
    special("%nwarpid", 32, ""),
    special("%ctaid", 32, "xyzw"),
    special("%nctaid", 32, "xyzw"),
    special("%smid", 32, ""),
    special("%nsmid", 32, ""),
    special("%gridid", 64, ""),
    special("%is_explicit_cluster", 1, ""),
    special("%clusterid", 32, "xyzw"),
    special("%nclusterid", 32, "xyzw"),
    special("%cluster_ctaid", 32, "xyzw"),
    special("%cluster_nctaid", 32, "xyzw"),
    special("%cluster_ctarank", 32, ""),
    special("%cluster_nctarank", 32, ""),
    special("%lanemask_eq", 32, ""),
    special("%lanemask_le", 32, ""),
    special("%lanemask_lt", 32, ""),
    special("%lanemask_ge", 32, ""),
    special("%lanemask_gt", 32, ""),
    special("%clock", 32, ""),
    special("%clock_hi", 32, ""),
    special("%clock64", 64, ""),
    special("%globaltimer", 64, ""),
    special("%globaltimer_lo", 32, ""),
    special("%globaltimer_hi", 32, ""),
    special("%reserved_smem_offset_begin", 32, ""),
    special("%reserved_smem_offset_end", 32, ""),
    special("%reserved_smem_offset_cap", 32, ""),
    special("%reserved_smem_offset_0", 32, ""),
    special("%reserved_smem_offset_1", 32, ""),
    special("%total_smem_size", 32, ""),
    special("%aggr_smem_size", 32, ""),
    special("%dynamic_smem_size", 32, ""),
    special("%current_graph_exec", 64, ""),
];

/// The bits of a special register without a member, or of a member.
pub(super) fn bits(name: &str, member: Option<&str>) -> Option<u32> {
    let numbered = |prefix: &str, count: u32| {
        let number = name.strip_prefix(prefix)?;
        let is_plain = number == "0" || !number.starts_with('0');
        let number: u32 = number.parse().ok().filter(|_| is_plain)?;
        (number < count).then_some(())
    };
    if let Some(special) = SPECIAL.iter().find(|special| special.name == name) {
        let has_members = !special.members.is_empty();
        let is_known = match member {
            Some(member) => member.len() == 1 && special.members.contains(member),
            None => !has_members,
        };
        return is_known.then_some(special.bits);
    }
    if member.is_some() {
        return None;
    }
    if numbered("%envreg", 32).is_some() || numbered("%pm", 8).is_some() {
        return Some(32);
    }
    let name = name.strip_suffix("_64")?;
    let number: u32 = name.strip_prefix("%pm")?.parse().ok()?;
    (number < 8 && name.len() == 4).then_some(64)
}

/// Whether a special register has this name, with or without members.
pub(crate) fn is_special(name: &str) -> bool {
    bits(name, None).is_some() || bits(name, Some("x")).is_some()
}
