use super::*;

/// Of all files together: the pages must be quick over any line.
const MOST: usize = 150 << 10;

#[test]
fn all_files_together_are_light() {
    let weight: usize = EMBEDDED.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(weight < MOST, "the files of ui/ weigh {weight} bytes");
}

#[test]
fn every_file_is_of_a_kind_that_browsers_are_told() {
    for (name, bytes) in EMBEDDED {
        let known = is_page(name) || content_type(name) != "application/octet-stream";
        assert!(known, "{name}: add its kind to `content_type`");
        assert!(!bytes.is_empty(), "{name} is empty");
    }
    for needed in ["index.html", "sign-in.html", "style.css", "app.js", "favicon.svg"] {
        assert!(EMBEDDED.iter().any(|(name, _)| *name == needed), "{needed}");
    }
}

#[test]
fn every_kind_of_event_has_its_words() {
    let words = include_str!("../../../ui/words.js");
    for kind in fluke_model::event::EventKind::ALL {
        assert!(words.contains(&format!("\n  {}: (", kind.as_str())), "{kind:?}");
    }
}

#[test]
fn pages_name_the_assets_of_this_binary_and_nothing_elsewhere() {
    let files = Files::embedded();
    for (name, bytes) in files.by_name.iter().filter(|(name, _)| is_page(name)) {
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        assert!(!text.contains(ASSETS), "{name}");
        for attribute in ["src=\"", "href=\""] {
            for rest in text.split(attribute).skip(1) {
                let target = rest.split('"').next().unwrap_or_default();
                let is_local = target.starts_with('/') && !target.starts_with("//")
                    || target.starts_with(['#', '{']);
                assert!(is_local, "{name} leads to {target}");
                if let Some(asset) = target.strip_prefix(&format!("/assets/{}/", files.version)) {
                    assert!(files.by_name.contains_key(asset), "{name}: there is no {asset}");
                }
            }
        }
        // What the policy of pages would not run.
        assert!(!text.contains("<script>") && !text.contains(" style=\""), "{name}");
        assert!(!text.contains("<style") && !text.contains(" onclick="), "{name}");
    }
}

#[test]
fn the_version_names_names_and_contents() {
    let of = |files: &[(&str, &'static str)]| {
        let own = |&(name, text): &(&str, &'static str)| (name.into(), Bytes::from(text));
        Files::new(files.iter().map(own)).version
    };
    let first = of(&[("a.js", "1"), ("b.js", "2")]);
    assert_eq!(first, of(&[("b.js", "2"), ("a.js", "1")]));
    for other in [
        of(&[("a.js", "1"), ("b.js", "3")]),
        of(&[("a.js", "1"), ("c.js", "2")]),
        of(&[("a.js", "1b.js 1\n2")]),
    ] {
        assert_ne!(first, other);
    }
    assert_eq!(first.len(), 16);
}
