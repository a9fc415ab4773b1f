use std::io::Write;
use std::process::{Command as Process, Stdio};

use super::*;

#[test]
fn every_command_has_a_page_with_all_that_a_page_has() {
    let pages = pages().expect("pages");
    let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
    for file in ["fluke.1", "fluke-top.1", "fluke-get.1", "fluke-get-agents.1", "fluke-join-line.1"]
    {
        assert!(files.contains(&file), "{file} is not among {files:?}");
    }
    for page in &pages {
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXAMPLES",
            "EXIT STATUS",
            "ENVIRONMENT",
            "SEE ALSO",
        ] {
            let has = page.text.contains(&format!(".SH {section}\n"))
                || page.text.contains(&format!(".SH \"{section}\"\n"));
            assert!(has, "{} has no {section}", page.file);
        }
    }
}

#[test]
fn every_page_that_is_referred_to_exists() {
    let pages = pages().expect("pages");
    for page in &pages {
        let (_, also) = page.text.split_once(".SH SEE ALSO\n").expect("a section");
        for named in also.lines().filter_map(|line| line.strip_prefix("\\fB")?.split("\\fR").next())
        {
            let file = format!("{}.1", named.replace("\\-", "-"));
            assert!(pages.iter().any(|page| page.file == file), "{} names {file}", page.file);
        }
    }
}

/// `mandoc -Tlint` finds what `man` would show wrongly.
#[test]
fn pages_are_right_in_their_syntax() {
    if Process::new("mandoc").arg("-Tlint").stdin(Stdio::null()).output().is_err() {
        let why = "there is no mandoc here (Debian: mandoc)";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        return skip(why);
    }
    for page in pages().expect("pages") {
        let mut mandoc = Process::new("mandoc")
            .args(["-Tlint", "-Werror"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mandoc runs");
        let mut stdin = mandoc.stdin.take().expect("a pipe");
        stdin.write_all(page.text.as_bytes()).expect("mandoc reads");
        drop(stdin);
        let output = mandoc.wait_with_output().expect("mandoc ends");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}:\n{told}", page.file);
    }
}

#[expect(clippy::print_stdout, reason = "this is where scripts/test looks for it")]
fn skip(why: &str) {
    println!("SKIP: {why}");
}
