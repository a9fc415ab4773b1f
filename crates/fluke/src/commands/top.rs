//! stub
use crate::cli::Global;
use crate::failure::Failure;
pub async fn run(_global: &Global) -> Result<(), Failure> {
    Ok(())
}
