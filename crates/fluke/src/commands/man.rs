//! stub
use crate::cli::ManArgs;
use crate::failure::Failure;
pub fn run(_args: &ManArgs) -> Result<(), Failure> {
    Ok(())
}
