use super::super::super::budget::Budget;
use super::super::super::scope::Scope;
use crate::hcl::{eval, parse_expression};
use crate::tree::{EntryKind, MemoryTree};

fn tree() -> MemoryTree {
    MemoryTree::new([
        ("README.md", b"read me\n".as_slice()),
        ("binary.bin", b"\xff\xfe".as_slice()),
        ("conf/app.tpl", b"port = ${port}\n%{ for h in hosts ~}\nhost ${h}\n%{ endfor ~}\n"),
        ("conf/broken.tpl", b"fine\n${nope}\n${upper()}\n".as_slice()),
        ("conf/list.tpl", b"${jsonencode(xs)}".as_slice()),
        ("conf/outer.tpl", b"<${templatefile(\"conf/list.tpl\", { xs = xs })}>".as_slice()),
        ("conf/self.tpl", b"${templatefile(\"conf/self.tpl\", {})}".as_slice()),
        ("conf/unclosed.tpl", b"a\nb ${".as_slice()),
        ("conf/value.tpl", b"${x}".as_slice()),
    ])
    .with_special("link", EntryKind::Symlink)
    .with_special("module", EntryKind::Submodule)
}

fn show(text: &str) -> String {
    let (tree, budget) = (tree(), Budget::default());
    let expr = parse_expression(text.as_bytes()).expect(text);
    match eval(&expr, &Scope::new(&(), &budget).with_files(&tree)) {
        Ok(value) => value.to_json_string(),
        Err(problems) => problems.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join("|"),
    }
}

#[test]
fn files_of_the_commit_are_read() {
    let cases = [
        (r#"file("README.md")"#, r#""read me\n""#),
        (
            r#"file("./conf/../README.md")"#,
            r#"Invalid value for "path" parameter: `./conf/../README.md` has `..` in it"#,
        ),
        (r#"file("././conf//list.tpl")"#, r#""${jsonencode(xs)}""#),
        (
            r#"fileset("conf", "*.tpl")"#,
            r#"["app.tpl","broken.tpl","list.tpl","outer.tpl","self.tpl","unclosed.tpl","value.tpl"]"#,
        ),
        (r#"fileset("", "**/{app,list}.tpl")"#, r#"["conf/app.tpl","conf/list.tpl"]"#),
        (r#"fileset(".", "*")"#, r#"["README.md","binary.bin"]"#),
        (r#"fileset("nowhere", "**")"#, "[]"),
        (
            r#"templatefile("conf/app.tpl", { port = 80, hosts = ["a", "b"] })"#,
            r#""port = 80\nhost a\nhost b\n""#,
        ),
        (r#"templatefile("conf/outer.tpl", { xs = [1, "b"] })"#, r#""\u003c[1,\"b\"]\u003e""#),
        (r#"templatefile("conf/value.tpl", { x = [1] })"#, "[1]"),
    ];
    for (text, expected) in cases {
        assert_eq!(show(text), expected, "{text}");
    }
}

#[test]
fn nothing_outside_of_the_repository_can_be_reached() {
    let cases = [
        (r#"file("/etc/passwd")"#, "`/etc/passwd` is not a relative path"),
        (r#"file("~/x")"#, "`~/x` is not a relative path"),
        (r#"file("../x")"#, "`../x` has `..` in it"),
        (r#"file("conf/../../x")"#, "`conf/../../x` has `..` in it"),
        (r#"file("link")"#, "`link` is a symbolic link; they are not followed"),
        (r#"file("link/x")"#, "`link/x` leads through `link`, which is a link or submodule"),
        (r#"file("module")"#, "`module` is a submodule; they are not read"),
        (r#"file("conf")"#, "`conf` is a folder, not a file"),
        (r#"file("REDME.md")"#, "there is no file `REDME.md` in the repository"),
        (r#"file("binary.bin")"#, "`binary.bin` is not text in UTF-8 (byte 0)"),
        (r#"fileset("..", "*")"#, "`..` has `..` in it"),
        (r#"fileset(".", "../*")"#, "`../*` leads out of the folder"),
        (r#"fileset(".", "[")"#, "it is no pattern"),
        (r#"templatefile("../x", {})"#, "`../x` has `..` in it"),
    ];
    for (text, expected) in cases {
        let shown = show(text);
        assert!(shown.contains(expected), "{text}: {shown}");
    }
}

#[test]
fn problems_of_a_template_are_told_with_their_line() {
    let cases = [
        (
            r#"templatefile("conf/broken.tpl", {})"#,
            "conf/broken.tpl:2: there is no variable named `nope`; conf/broken.tpl:3: `upper` \
             expects 1 argument",
        ),
        (r#"templatefile("conf/unclosed.tpl", {})"#, "conf/unclosed.tpl:2: "),
        (r#"templatefile("conf/self.tpl", {})"#, "nested more than 8 levels deep"),
        (
            r#"templatefile("conf/value.tpl", { x = null })"#,
            "the result of `conf/value.tpl` is null",
        ),
        (r#"templatefile("conf/value.tpl", [])"#, "a map or object is required, but have tuple"),
        (
            r#"templatefile("conf/value.tpl", { "a b" = 1 })"#,
            "\"a b\" cannot be the name of a variable",
        ),
    ];
    for (text, expected) in cases {
        let shown = show(text);
        assert!(shown.contains(expected), "{text}: {shown}");
    }
}

#[test]
fn without_a_repository_there_are_no_files() {
    let budget = Budget::default();
    let expr = parse_expression(br#"file("README.md")"#).expect("an expression");
    let found = eval(&expr, &Scope::new(&(), &budget)).expect_err("no files");
    assert_eq!(found[0].message, "Call to `file` failed: files cannot be read here");
}
