//! Lists, tuples, maps and objects.

mod mappings;
mod sequences;

use super::{Failure, Function, Parameter, Wanted};
use crate::hcl::value::Value;

type Outcome = Result<Value, Failure>;

const LIST: Parameter = Parameter::new("list", Wanted::Any);
const STRINGS: Parameter = Parameter::new("list", Wanted::ListOfString);
const BOOLS: Parameter = Parameter::new("list", Wanted::ListOfBool);
const VALUES: Parameter = Parameter::new("vals", Wanted::Any).or_null();

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("alltrue", &[BOOLS], sequences::alltrue),
    Function::new("anytrue", &[BOOLS], sequences::anytrue),
    Function::new(
        "chunklist",
        &[Parameter::new("list", Wanted::ListOfAny), Parameter::new("size", Wanted::Number)],
        sequences::chunklist,
    ),
    Function::new("coalesce", &[], sequences::coalesce).with_rest(VALUES),
    Function::new("coalescelist", &[], sequences::coalescelist).with_rest(VALUES),
    Function::new("compact", &[STRINGS], sequences::compact),
    Function::new("concat", &[], sequences::concat).with_rest(Parameter::new("seqs", Wanted::Any)),
    Function::new(
        "contains",
        &[LIST, Parameter::new("value", Wanted::Any).or_null()],
        sequences::contains,
    ),
    Function::new("distinct", &[Parameter::new("list", Wanted::ListOfAny)], sequences::distinct),
    Function::new("element", &[LIST, Parameter::new("index", Wanted::Number)], sequences::element),
    Function::new("flatten", &[LIST], sequences::flatten),
    Function::new("index", &[LIST, Parameter::new("value", Wanted::Any)], sequences::index),
    Function::new("length", &[Parameter::new("value", Wanted::Any)], sequences::length),
    Function::new("one", &[LIST], sequences::one),
    Function::new("range", &[], sequences::range)
        .with_rest(Parameter::new("params", Wanted::Number)),
    Function::new("reverse", &[LIST], sequences::reverse),
    Function::new(
        "slice",
        &[
            LIST,
            Parameter::new("start_index", Wanted::Number),
            Parameter::new("end_index", Wanted::Number),
        ],
        sequences::slice,
    ),
    Function::new("sort", &[STRINGS], sequences::sort),
    Function::new("sum", &[LIST], sequences::sum),
    Function::new("keys", &[Parameter::new("inputMap", Wanted::Any)], mappings::keys),
    Function::new(
        "lookup",
        &[Parameter::new("inputMap", Wanted::Any), Parameter::new("key", Wanted::String)],
        mappings::lookup,
    )
    .with_rest(Parameter::new("default", Wanted::Any).or_null()),
    Function::new(
        "matchkeys",
        &[
            Parameter::new("values", Wanted::ListOfAny),
            Parameter::new("keys", Wanted::ListOfAny),
            Parameter::new("searchset", Wanted::ListOfAny),
        ],
        mappings::matchkeys,
    ),
    Function::new("merge", &[], mappings::merge)
        .with_rest(Parameter::new("maps", Wanted::Any).or_null()),
    Function::new(
        "transpose",
        &[Parameter::new("values", Wanted::MapOfLists)],
        mappings::transpose,
    ),
    Function::new("values", &[Parameter::new("mapping", Wanted::Any)], mappings::values),
    Function::new(
        "zipmap",
        &[Parameter::new("keys", Wanted::ListOfString), Parameter::new("values", Wanted::Any)],
        mappings::zipmap,
    ),
];
