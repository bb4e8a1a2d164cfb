//! cuda-bindgen
