//! YAML, read and written as Terraform does.

mod decode;
mod encode;
mod scalar;

pub(super) use decode::decode;
pub(super) use encode::encode;
