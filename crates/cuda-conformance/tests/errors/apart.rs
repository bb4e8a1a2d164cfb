//! Invalid calls for which the software device still returns another status than a GPU.

const CLUSTERS: &str =
    "the number of multiprocessors and the placement of clusters depend on the GPU model";

/// The name of each call, and the reason why the two differ.
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
        "launching an empty graph in the legacy stream blocks no other stream on an H100",
    ),
];
