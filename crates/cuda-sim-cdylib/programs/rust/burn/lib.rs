//! Programs of burn: see the folder `tests`.
