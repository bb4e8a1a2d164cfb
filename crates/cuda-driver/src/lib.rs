//! cuda-driver
