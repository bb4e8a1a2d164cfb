//! cuda-nvrtc
