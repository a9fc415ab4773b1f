//! YAML as values: mappings become objects, sequences tuples, plain scalars what they look like.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::super::Failure;
use super::scalar;
use crate::hcl::budget::{Exceeded, MAX_VALUE, MAX_VALUE_DEPTH};
use crate::hcl::convert::to_text;
use crate::hcl::scope::Scope;
use crate::hcl::value::Value;

/// Longer documents are refused.
const MAX_DOCUMENT: usize = 1024 * 1024;

type Outcome<T = Value> = Result<T, Failure>;

/// Reads one document.
pub(in super::super) fn decode(text: &str, scope: &Scope) -> Outcome {
    if text.len() > MAX_DOCUMENT {
        return Err(Failure::of(0, "YAML of more than 1 MiB is not read"));
    }
    let mut reader =
        Reader { parser: Parser::new_from_str(text), scope, anchors: HashMap::new(), depth: 0 };
    reader.document()
}

struct Reader<'t, 's> {
    parser: Parser<'t, StrInput<'t>>,
    scope: &'s Scope<'s>,
    anchors: HashMap<usize, Value>,
    depth: u32,
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Outcome<(Event<'t>, Span)> {
        self.scope.budget.work(1)?;
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Failure::of(0, format!("it is not YAML: {error}"))),
            None => Err(Failure::of(0, "the YAML ends too early")),
        }
    }

    fn document(&mut self) -> Outcome {
        self.next()?;
        match self.next()? {
            (Event::DocumentStart(_), _) => {}
            (Event::StreamEnd, _) => return Err(Failure::of(0, "there is no YAML document in it")),
            (_, at) => return Err(wrong(at, "a document must start here")),
        }
        let first = self.next()?;
        let value = self.node(first)?;
        self.next()?;
        match self.next()? {
            (Event::StreamEnd, _) => Ok(value),
            (_, at) => Err(wrong(at, "only one document can be read, and here is another")),
        }
    }

    fn node(&mut self, (event, at): (Event<'t>, Span)) -> Outcome {
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag, at)?, anchor),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                return value.ok_or_else(|| wrong(at, "the anchor is not defined before this"));
            }
            Event::SequenceStart(anchor, tag) => {
                plain_tag(tag.as_deref(), "seq", at)?;
                (self.nested(at, Self::sequence)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                plain_tag(tag.as_deref(), "map", at)?;
                (self.nested(at, Self::mapping)?, anchor)
            }
            _ => return Err(wrong(at, "a value is missing here")),
        };
        // Aliases make much of little: what counts is the size when all is written out.
        if value.extent().size > MAX_VALUE {
            return Err(Exceeded::Value.into());
        }
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn nested(&mut self, at: Span, read: fn(&mut Self) -> Outcome) -> Outcome {
        if self.depth + 1 >= MAX_VALUE_DEPTH {
            return Err(wrong(at, "it is nested too deeply"));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn sequence(&mut self) -> Outcome {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::tuple(items)),
                event => items.push(self.node(event)?),
            }
        }
    }

    fn mapping(&mut self) -> Outcome {
        let mut entries = BTreeMap::new();
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::MappingEnd => return Ok(Value::object(entries)),
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<" => {
                    let event = self.next()?;
                    let merged = self.node(event)?;
                    merge(&mut entries, &merged, at)?;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let key = scalar(&text, style, tag, at)?;
                    if anchor > 0 {
                        self.anchors.insert(anchor, key.clone());
                    }
                    let key: Arc<str> = match &key {
                        Value::Null(_) => return Err(wrong(at, "a key cannot be null")),
                        key => to_text(key)?,
                    };
                    let event = self.next()?;
                    let value = self.node(event)?;
                    entries.insert(key, value);
                }
                _ => return Err(wrong(at, "only text can be a key")),
            }
        }
    }
}

fn merge(entries: &mut BTreeMap<Arc<str>, Value>, merged: &Value, at: Span) -> Outcome<()> {
    let sources = match merged {
        Value::Tuple(sequence) => sequence.items(),
        single => std::slice::from_ref(single),
    };
    for source in sources {
        let Some(source) = source.as_entries() else {
            return Err(wrong(at, "only mappings can be merged with `<<`"));
        };
        entries.extend(source.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    Ok(())
}

fn scalar<T: std::ops::Deref<Target = Tag>>(
    text: &str,
    style: ScalarStyle,
    tag: Option<T>,
    at: Span,
) -> Outcome {
    let tag = match tag.as_deref() {
        None => None,
        Some(tag) if tag.is_yaml_core_schema() => Some(tag.suffix.as_str()),
        Some(tag) => {
            let name = format!("{}{}", tag.handle, tag.suffix);
            return Err(wrong(at, &format!("the tag `{name}` is not known")));
        }
    };
    scalar::resolve(text, style != ScalarStyle::Plain, tag).map_err(|reason| wrong(at, &reason))
}

fn plain_tag(tag: Option<&Tag>, wanted: &str, at: Span) -> Outcome<()> {
    match tag {
        None => Ok(()),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == wanted => Ok(()),
        Some(tag) => {
            let name = format!("{}{}", tag.handle, tag.suffix);
            Err(wrong(at, &format!("the tag `{name}` does not fit here")))
        }
    }
}

fn wrong(at: Span, reason: &str) -> Failure {
    Failure::of(0, format!("YAML line {}: {reason}", at.start.line()))
}
