use super::{check, expression, file, template};

#[test]
fn escapes_in_quoted_strings() {
    check(
        expression,
        &[
            (r#""""#, "t[]"),
            (r#""plain""#, r#"t["plain"]"#),
            (r#""a\nb\r\t\"\\""#, r#"t["a\nb\r\t\"\\"]"#),
            (r#""\u00e9 \U0001F600""#, "t[\"é 😀\"]"),
            (r#""$${a} %%{b}""#, r#"t["${a} %{b}"]"#),
            (r#""$ $$ % %% 5$""#, r#"t["$ $$ % %% 5$"]"#),
            (r#""$$${a}""#, r#"t["$${a}"]"#),
            (r#""$${~ a}""#, r#"t["${~ a}"]"#),
            (r#""/* no */ # comment""#, r#"t["/* no */ # comment"]"#),
            (r#""'single'""#, r#"t["'single'"]"#),
        ],
    );
}

#[test]
fn text_is_normalised_to_composed_characters() {
    check(expression, &[("\"cafe\u{301}\"", "t[\"café\"]"), (r#""e\u0301""#, "t[\"é\"]")]);
}

#[test]
fn interpolations() {
    check(
        expression,
        &[
            (r#""${a}""#, "t[${a}]"),
            (r#""x${a}y${b.c}""#, r#"t["x" ${a} "y" ${(. b c)}]"#),
            (r#""${"${a}"}""#, "t[${t[${a}]}]"),
            (r#""${ { a = "}" } }""#, r#"t[${{'a=t["}"]}}]"#),
            (r#""$${a}${b}""#, r#"t["${a}" ${b}]"#),
            (r#""%{ if a }x%{ else }y%{ endif }""#, r#"t[%if a ["x"] ["y"]]"#),
            (r#""%{ if a }x%{ endif }z""#, r#"t[%if a ["x"] [] "z"]"#),
            (r#""%{ for x in y }${x},%{ endfor }""#, r#"t[%for x y [${x} ","]]"#),
            (
                r#""%{for k, v in y}%{if v}${k}%{endif}%{endfor}""#,
                "t[%for k,v y [%if v [${k}] []]]",
            ),
        ],
    );
}

#[test]
fn strip_markers_take_the_white_space_beside_them() {
    check(
        expression,
        &[
            (r#""a  ${~ b ~}  c""#, r#"t["a" ${b} "c"]"#),
            (r#""a \n ${~ b }\n c""#, r#"t["a" ${b} "\n c"]"#),
            (r#""%{ if a ~}  x  %{~ endif ~}  y""#, r#"t[%if a ["x"] [] "y"]"#),
            // Stripped to nothing beside it, the value still becomes text.
            (r#""  ${~ b ~}  ""#, r#"t[${b} ""]"#),
            (r#""${~ b ~}""#, "t[${b}]"),
        ],
    );
}

#[test]
fn heredocs_keep_their_lines() {
    check(
        file,
        &[
            ("a = <<EOT\nhello\n  world\nEOT\n", r#"<a=t["hello\n  world\n"]>"#),
            ("a = <<EOT\nEOT\n", "<a=t[]>"),
            ("a = <<E\nx ${b} y\n  E\n", r#"<a=t["x " ${b} " y\n"]>"#),
            ("a = <<E\n\\n \"q\" $${x} 5$\nE\n", r#"<a=t["\\n \"q\" ${x} 5$\n"]>"#),
            ("a = <<E\nE x\nxE\n${b}E\nE\nc = 1\n", r#"<a=t["E x\nxE\n" ${b} "E\n"]; c=1>"#),
            ("a = <<E\r\nx\r\nE\r\n", r#"<a=t["x\r\n"]>"#),
            ("a = [<<E\nx\nE\n, 1]\n", r#"<a=[t["x\n"] 1]>"#),
            ("a = <<E\n${<<F\ny\nF\n}\nE\n", r#"<a=t[${t["y\n"]} "\n"]>"#),
        ],
    );
}

#[test]
fn flush_heredocs_lose_the_smallest_indent() {
    check(
        file,
        &[
            ("a = <<-E\n    x\n      y\n    E\n", r#"<a=t["x\n  y\n"]>"#),
            ("a = <<-E\n    x\n\n   \n  y\n  E\n", r#"<a=t["  x\n\n   \ny\n"]>"#),
            ("a = <<-E\n\tx\n\t\ty\nE\n", r#"<a=t["x\n\ty\n"]>"#),
            ("a = <<-E\n  ${b}\n    c\n  E\n", r#"<a=t[${b} "\n  c\n"]>"#),
            ("a = <<-E\n  x ${b}\n    y\n  E\n", r#"<a=t["x " ${b} "\n  y\n"]>"#),
            // An interpolation in the first column leaves nothing to take off.
            ("a = <<-E\n${b}\n    c\nE\n", r#"<a=t[${b} "\n    c\n"]>"#),
            (
                "a = <<-E\n    %{ for x in y }\n    - ${x}\n    %{ endfor }\n    E\n",
                r#"<a=t[%for x y ["\n- " ${x} "\n"] "\n"]>"#,
            ),
            // A marker that strips the line end hides the start of the next line from the count,
            // and one that strips the indent makes it nothing.
            (
                "a = <<-E\n    %{ for x in y ~}\n    - ${x}\n    %{ endfor ~}\n    E\n",
                r#"<a=t[%for x y ["    - " ${x} "\n"]]>"#,
            ),
            (
                "a = <<-E\n    b\n    %{~ if c }d%{ endif }\n    E\n",
                r#"<a=t["    b\n" %if c ["d"] [] "\n"]>"#,
            ),
        ],
    );
}

#[test]
fn bare_templates() {
    check(
        template,
        &[
            ("", ""),
            ("plain \"text\" \\n\n", r#""plain \"text\" \\n\n""#),
            ("a ${b} c\n", r#""a " ${b} " c\n""#),
            ("${b}", "${b}"),
            ("%{ for x in y ~}\n  ${x}\n%{ endfor ~}\n", r#"%for x y ["  " ${x} "\n"]"#),
            ("$${a} 5$", r#""${a} 5$""#),
            ("}", r#""}""#),
        ],
    );
}
