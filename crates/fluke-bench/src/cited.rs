//! Figures in pages that people write: kept as the record has them. Pure.
//!
//! A page says `<!--= crowd.memory / 10000 -->52.9 KiB<!--/-->`: what stands between is what the
//! formula comes to. Terms are numbers and figures, from left to right; `restart.registered:beside`
//! is what stands beside a figure, `:ratio` how many times that it is. Shown in the unit of the first
//! figure, or in the one that stands last: `count`, `seconds`, `bytes`, `percent`, `times`.
//! `machine` is the machine that a row, as in `machine crowd`, was taken on.

use crate::figure::Unit;
use crate::record::Record;

const OPENS: &str = "<!--= ";
const CLOSES: &str = " -->";
const ENDS: &str = "<!--/-->";

/// The page with every figure as the record has it; or what is wrong with one.
pub fn renewed(page: &str, record: &Record) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), page);
    while let Some((before, cited)) = rest.split_once(OPENS) {
        let torn =
            || format!("`{OPENS}{}` is not closed", cited.chars().take(40).collect::<String>());
        let (formula, shown) = cited.split_once(CLOSES).ok_or_else(torn)?;
        let (_, after) = shown.split_once(ENDS).ok_or_else(torn)?;
        let value = value(formula, record)?;
        text += &format!("{before}{OPENS}{formula}{CLOSES}{value}{ENDS}");
        rest = after;
    }
    Ok(text + rest)
}

fn value(formula: &str, record: &Record) -> Result<String, String> {
    if let Some(row) = formula.strip_prefix("machine ") {
        let row = record.rows.iter().find(|known| known.id == row);
        let row = row.ok_or_else(|| format!("`{formula}`: there is no such row"))?;
        return Ok(row.taken.machine.to_string());
    }
    let mut words = formula.split(' ').peekable();
    let (mut sum, mut unit) = term(words.next().unwrap_or_default(), record)?;
    while let Some(operator @ ("*" | "/" | "+" | "-")) = words.peek().copied() {
        words.next();
        let (next, of) = term(words.next().unwrap_or_default(), record)?;
        unit = unit.or(of);
        sum = match operator {
            "*" => sum * next,
            "/" => sum / next,
            "+" => sum + next,
            _ => sum - next,
        };
    }
    if let Some(name) = words.next() {
        unit = Some(named(name).ok_or_else(|| format!("`{formula}`: {name} is no unit"))?);
    }
    Ok(unit.unwrap_or(Unit::Count).show(sum))
}

fn named(name: &str) -> Option<Unit> {
    Some(match name {
        "count" => Unit::Count,
        "seconds" => Unit::Seconds,
        "bytes" => Unit::Bytes,
        "percent" => Unit::PercentOfCore,
        "times" => Unit::Times,
        _ => return None,
    })
}

fn term(word: &str, record: &Record) -> Result<(f64, Option<Unit>), String> {
    if let Ok(number) = word.parse() {
        return Ok((number, None));
    }
    let (name, part) = word.split_once(':').unwrap_or((word, ""));
    let figure = record.figure(name).ok_or_else(|| format!("the record has no figure `{name}`"))?;
    let none = || format!("nothing stands beside `{name}`");
    Ok(match part {
        "" => (figure.ours.median, Some(figure.unit)),
        "beside" => (figure.beside.as_ref().ok_or_else(none)?.measured.median, Some(figure.unit)),
        "ratio" => (figure.ratio().ok_or_else(none)?, Some(Unit::Times)),
        _ => return Err(format!("`{word}`: a figure has no `{part}`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::machine::{Machine, Taken};
    use crate::record::{Outcome, RowRecord};

    fn record() -> Record {
        let memory = Figure::new("memory", Unit::Bytes, &[2097152.0]).expect("a round");
        let time = Figure::new("time", Unit::Seconds, &[2.0]).expect("a round");
        let machine = Machine { cores: 2, processor: "Abacus".into(), ..Machine::default() };
        let row = RowRecord {
            id: "crowd".into(),
            what: String::new(),
            reach: String::new(),
            how: String::new(),
            taken: Taken { machine, ..Taken::default() },
            outcome: Outcome::Figures(vec![memory, time.beside("a floor", &[0.5])]),
        };
        Record { rows: vec![row], peers: Vec::new() }
    }

    #[test]
    fn a_figure_is_what_its_formula_comes_to() {
        let table = [
            ("crowd.memory", "2.00 MiB"),
            ("crowd.memory / 1024", "2.00 KiB"),
            ("1000 / crowd.time count", "500"),
            ("crowd.time:beside", "500 ms"),
            ("crowd.time:ratio", "4.00 ×"),
            ("crowd.time - crowd.time:beside", "1.50 s"),
            ("crowd.time * 50 percent", "100 %"),
        ];
        for (formula, shown) in table {
            let page = |text: &str| format!("a <!--= {formula} -->{text}<!--/--> b");
            assert_eq!(renewed(&page("old"), &record()), Ok(page(shown)));
        }
        let machine = renewed("<!--= machine crowd --><!--/-->", &record()).expect("a page");
        assert!(machine.contains("2 cores of Abacus"), "{machine}");
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        let table = [
            ("<!--= crowd.none -->1<!--/-->", "no figure `crowd.none`"),
            ("<!--= crowd.memory:beside -->1<!--/-->", "nothing stands beside"),
            ("<!--= crowd.memory:best -->1<!--/-->", "no `best`"),
            ("<!--= crowd.memory litres -->1<!--/-->", "no unit"),
            ("<!--= machine none -->1<!--/-->", "no such row"),
            ("<!--= crowd.memory -->1", "is not closed"),
        ];
        for (page, why) in table {
            let told = renewed(page, &record());
            assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{page}: {told:?}");
        }
        assert_eq!(renewed("nothing is cited", &record()), Ok("nothing is cited".into()));
    }
}
