//! One D-Bus connection, one question for many units.

use zbus::connection::Builder;

use crate::row::{Trouble, seconds};

/// The unit of that number, as the benchmark names them.
pub fn unit(number: usize) -> String {
    format!("fluke-bench@{number}.service")
}

/// Asks systemd for so many units in one call; the second call counts, as the first one warms up.
pub fn ask(units: usize) -> Result<f64, Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("ask systemd", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let names: Vec<_> = (0..units).map(unit).collect();
    let bus = runtime.block_on(async { Builder::system().build().await });
    let bus = bus.map_err(|error| failed(&error))?;
    let list = || {
        let answer = bus.call_method(
            Some("org.freedesktop.systemd1"),
            "/org/freedesktop/systemd1",
            Some("org.freedesktop.systemd1.Manager"),
            "ListUnitsByNames",
            &names,
        );
        runtime.block_on(answer).map_err(|error| failed(&error))
    };
    list()?;
    let (took, answer) = seconds(list);
    answer.map(|_| took)
}
