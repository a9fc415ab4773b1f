//! Prometheus' text format: few rules, and all of them are here.

use std::fmt::Write;
use std::time::Duration;

use crate::meter::Histogram;

/// Family by family.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    /// The family that values belong to.
    name: &'static str,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    pub fn gauge(&mut self, name: &'static str, help: &str) {
        self.family(name, "gauge", help);
    }

    pub fn counter(&mut self, name: &'static str, help: &str) {
        self.family(name, "counter", help);
    }

    pub fn histogram(&mut self, name: &'static str, help: &str) {
        self.family(name, "histogram", help);
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub fn value(&mut self, value: u64) {
        self.line("", &[], value);
    }

    pub fn labelled(&mut self, labels: Labels<'_>, value: u64) {
        self.line("", labels, value);
    }

    pub fn seconds(&mut self, time: Duration) {
        self.line("", &[], time.as_secs_f64());
    }

    pub fn durations<const N: usize>(&mut self, labels: Labels<'_>, durations: &Histogram<N>) {
        let (buckets, count, sum) = durations.read();
        for (bound, count) in buckets {
            let bound = bound.to_string();
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), count);
        }
        self.line("_bucket", &[labels, &[("le", "+Inf")]].concat(), count);
        self.line("_sum", labels, sum.as_secs_f64());
        self.line("_count", labels, count);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: impl std::fmt::Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (key, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{key}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }

    pub fn finish(self) -> String {
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_break_out() {
        let mut page = Page::default();
        page.gauge("x", "Help.");
        page.labelled(&[("branch", "a\"} 1\nb\\"), ("b", "")], 7);
        let line = "x{branch=\"a\\\"} 1\\nb\\\\\",b=\"\"} 7\n";
        assert_eq!(page.finish(), format!("# HELP x Help.\n# TYPE x gauge\n{line}"));
    }
}
