//! Wrong calls that the software device still answers otherwise than a GPU.

const CLUSTERS: &str =
    "how many multiprocessors a GPU has, and how it puts clusters on them, is its own";

/// Name and reason in each.
pub(crate) const KNOWN_APART: &[(&str, &str)] = &[
    ("a_surface_destroyed_that_is_none", "refused here"),
    ("a_surface_of_an_array_not_made_for_it", "refused here"),
    ("a_texture_destroyed_that_is_none", "refused here"),
    ("a_texture_of_levels_by_element", "refused here"),
    ("a_texture_of_no_memory", "refused here"),
    ("a_texture_of_no_rows", "refused here"),
    ("a_texture_of_rows_of_a_short_pitch", "refused here"),
    ("a_texture_of_rows_of_no_width", "refused here"),
    ("a_texture_that_filters_integers", "refused here"),
    ("a_texture_that_filters_words", "refused here"),
    ("a_view_of_memory", "refused here"),
    ("a_view_that_is_not_there_asked_for", "refused here"),
    ("clusters_of_1", CLUSTERS),
    ("clusters_of_2_where_2_are_the_most", CLUSTERS),
    ("clusters_of_3", CLUSTERS),
    ("clusters_of_8_and_1024_threads", CLUSTERS),
    (
        "legacy_launch_of_a_graph_behind_a_held_up_stream",
        "a launch of a graph without work in the legacy stream holds up nothing on an H100",
    ),
    (
        "child_of_a_graph_set",
        "what becomes of the nodes in the child is not documented: refused here",
    ),
];
