//! Sets.

use super::{Failure, Function, Parameter, Wanted};
use crate::hcl::convert::{convert, unify};
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::Value;

type Outcome = Result<Value, Failure>;

const FIRST: &[Parameter] = &[Parameter::new("first_set", Wanted::SetOfAny)];
const OTHERS: Parameter = Parameter::new("other_sets", Wanted::SetOfAny);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("setintersection", FIRST, setintersection).with_rest(OTHERS),
    Function::new(
        "setsubtract",
        &[Parameter::new("a", Wanted::SetOfAny), Parameter::new("b", Wanted::SetOfAny)],
        setsubtract,
    ),
    Function::new("setunion", FIRST, setunion).with_rest(OTHERS),
];

/// The sets with elements of one common type, and that type.
fn common(args: &[Value]) -> Result<(Type, Vec<Value>), Failure> {
    let kinds: Vec<Type> = args.iter().map(Value::kind).collect();
    let elements = kinds.iter().filter_map(Type::element).filter(|kind| **kind != Type::Any);
    let elements: Vec<&Type> = elements.collect();
    let element = match elements.is_empty() {
        true => Type::Any,
        false => unify(elements, true)
            .ok_or_else(|| Failure::new("the sets must have elements of compatible types"))?,
    };
    let wanted = element.clone().set();
    let sets = args.iter().enumerate().map(|(index, arg)| {
        convert(arg, &wanted).map_err(|error| Failure::of(index, error.to_string()))
    });
    Ok((element, sets.collect::<Result<_, _>>()?))
}

/// Finds elements without comparing each with each: text is most of what sets hold.
struct Members<'v> {
    texts: std::collections::HashSet<&'v str>,
    others: Vec<&'v Value>,
}

impl<'v> Members<'v> {
    fn of(set: &'v Value) -> Self {
        let items = set.as_items().unwrap_or_default();
        let texts = items.iter().filter_map(Value::as_str).collect();
        let others = items.iter().filter(|item| item.as_str().is_none()).collect();
        Self { texts, others }
    }

    fn has(&self, item: &Value) -> bool {
        match item.as_str() {
            Some(text) => self.texts.contains(text),
            None => self.others.iter().any(|other| other.equals(item)),
        }
    }
}

fn setunion(args: &[Value], _: &Scope) -> Outcome {
    let (element, sets) = common(args)?;
    let all = sets.iter().flat_map(|set| set.as_items().unwrap_or_default()).cloned();
    Ok(Value::set(element, all.collect()))
}

fn setintersection(args: &[Value], scope: &Scope) -> Outcome {
    keep(args, scope, true)
}

fn setsubtract(args: &[Value], scope: &Scope) -> Outcome {
    keep(args, scope, false)
}

/// What of the first set is, or is not, in every other.
fn keep(args: &[Value], scope: &Scope, wanted: bool) -> Outcome {
    let (element, sets) = common(args)?;
    let Some((first, others)) = sets.split_first() else {
        return Err(Failure::new("at least one set is required"));
    };
    let mut kept = first.as_items().unwrap_or_default().to_vec();
    for other in others {
        let members = Members::of(other);
        let compared = (kept.len() as u64).saturating_mul(members.others.len() as u64);
        scope.budget.work(1 + compared)?;
        kept.retain(|item| members.has(item) == wanted);
    }
    Ok(Value::set(element, kept))
}
