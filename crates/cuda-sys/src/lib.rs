//! cuda-sys
