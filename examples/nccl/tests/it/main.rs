//! The program: on software devices with a fake NCCL, and on GPUs with NCCL.

mod failures;
mod gpu;
mod library;
mod programs;
mod support;
mod world;
