//! Files as people write them, with what fluke makes of them beside them: `*.expected`.

use std::path::{Path, PathBuf};

use fluke_manifest::hcl::source::Source;
use fluke_manifest::{fmt, hcl, render};

/// Every input of a folder with what is expected for it.
fn golden(folder: &str) -> Vec<(PathBuf, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let inputs = paths.filter(|path| path.extension().is_some_and(|ending| ending == "hcl"));
    let read = |path: &Path| std::fs::read_to_string(path).expect("it can be read");
    inputs
        .map(|path| {
            let (text, expected) = (read(&path), read(&path.with_extension("expected")));
            (path, text, expected)
        })
        .collect()
}

#[test]
fn files_are_formatted_as_expected_and_then_stay_so() {
    let files = golden("fmt");
    assert!(!files.is_empty());
    for (path, text, expected) in files {
        let formatted = fmt::format(&text).expect("it is correct");
        assert_eq!(formatted, expected, "{}", path.display());
        assert_eq!(fmt::format(&expected).expect("it is correct"), expected, "{}", path.display());
    }
}

#[test]
fn every_mistake_of_a_file_is_shown_as_expected() {
    let files = golden("problems");
    assert!(!files.is_empty());
    for (path, text, expected) in files {
        let name = path.file_name().expect("it has a name").to_string_lossy();
        let source = Source::new(&name, text.as_bytes());
        let diagnostics = source.errors(hcl::parse(text.as_bytes()).problems);
        assert_eq!(render::to_text(&diagnostics, false), expected, "{}", path.display());
    }
}
