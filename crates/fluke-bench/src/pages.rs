//! The pages that say what was measured: the report, and all others that cite figures of the record.

use std::path::{Path, PathBuf};

use crate::profile::{Profile, Scene};
use crate::record::Record;
use crate::row::Trouble;
use crate::{cited, report, root};

/// What the report is made of.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("report/record.json")
}

/// Where a profile is kept.
pub fn profile_file(scene: Scene) -> PathBuf {
    kept().with_file_name(format!("profile-{}.json", scene.name()))
}

/// Writes all of them anew.
pub fn write(record: &Record) -> Result<(), Trouble> {
    for page in citing()? {
        let (old, new) = (read(&page)?, renewed(&page, record)?);
        if old != new {
            put(&page, new)?;
        }
    }
    put(&report_file(), rendered(record)?)
}

fn report_file() -> PathBuf {
    root().join("docs/src/reference/benchmarks.md")
}

fn prose_file() -> PathBuf {
    kept().with_file_name("notes.md")
}

/// Pages that people write and that may cite figures.
fn citing() -> Result<Vec<PathBuf>, Trouble> {
    let (mut pages, mut folders) = (vec![prose_file()], vec![root().join("docs/src")]);
    while let Some(folder) = folders.pop() {
        let failed = |error| Trouble::failed(format!("list {}", folder.display()), error);
        for entry in std::fs::read_dir(&folder).map_err(failed)?.flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|it| it == "md") => pages.push(path),
                false => {}
            }
        }
    }
    let report = report_file();
    pages.retain(|page| *page != report);
    Ok(pages)
}

fn renewed(page: &Path, record: &Record) -> Result<String, Trouble> {
    let doing = || format!("renew the figures in {}", page.display());
    cited::renewed(&read(page)?, record).map_err(|why| Trouble::failed(doing(), why))
}

/// The report.
fn rendered(record: &Record) -> Result<String, Trouble> {
    let profile = |scene: &Scene| {
        let text = std::fs::read(profile_file(*scene)).ok()?;
        serde_json::from_slice::<Profile>(&text).ok()
    };
    let profiles: Vec<_> = Scene::ALL.iter().filter_map(profile).collect();
    Ok(report::render(record, &read(&prose_file())?, &profiles))
}

fn read(page: &Path) -> Result<String, Trouble> {
    let doing = || format!("read {}", page.display());
    std::fs::read_to_string(page).map_err(|error| Trouble::failed(doing(), error))
}

fn put(page: &Path, text: String) -> Result<(), Trouble> {
    let doing = || format!("write {}", page.display());
    std::fs::write(page, text).map_err(|error| Trouble::failed(doing(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_DO: &str = "run `cargo xtask bench --report --again`";

    #[test]
    fn pages_cite_figures_as_the_record_has_them() {
        let record = Record::read(&kept()).expect("a record");
        let mut cited = 0;
        for page in citing().expect("pages") {
            let (old, new) = (read(&page).expect("a page"), renewed(&page, &record));
            assert_eq!(old, new.expect("figures"), "{} is stale; {TO_DO}", page.display());
            cited += old.matches("<!--= ").count();
        }
        assert!(cited > 10, "figures are found");
    }

    #[test]
    fn the_report_is_what_the_record_says() {
        let record = Record::read(&kept()).expect("a record");
        let page = read(&report_file()).expect("a page");
        assert_eq!(page, rendered(&record).expect("a report"), "it is stale; {TO_DO}");
    }

    #[test]
    fn every_profile_that_is_kept_can_be_read() {
        let kept: Vec<_> =
            Scene::ALL.map(profile_file).into_iter().filter(|it| it.exists()).collect();
        assert!(!kept.is_empty(), "there are profiles");
        for file in kept {
            let text = read(&file).expect("a profile");
            serde_json::from_str::<Profile>(&text).unwrap_or_else(|why| panic!("{file:?}: {why}"));
        }
    }
}
