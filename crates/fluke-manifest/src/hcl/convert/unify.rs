//! The type that values of several types can all become.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::is_convertible;
use crate::hcl::types::Type;

/// More kinds than this in one place have nothing in common that would be worth the search.
const MAX_KINDS: usize = 64;

/// The type that all of these can become, if there is one.
///
/// `Any` as a result says that it cannot be told, because bare nulls are among structures.
pub fn unify<'t>(types: impl IntoIterator<Item = &'t Type>, unsafely: bool) -> Option<Type> {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&Type> = types.into_iter().filter(|kind| seen.insert(*kind)).collect();
    unify_distinct(&distinct, unsafely)
}

fn unify_distinct(types: &[&Type], unsafely: bool) -> Option<Type> {
    if let [only] = types {
        return Some((*only).clone());
    }
    let count = |wanted: fn(&Type) -> bool| types.iter().filter(|kind| wanted(kind)).count();
    let any = count(|kind| *kind == Type::Any);
    let maps = count(|kind| matches!(kind, Type::Map(_)));
    let lists = count(|kind| matches!(kind, Type::List(_)));
    let sets = count(|kind| matches!(kind, Type::Set(_)));
    let objects = count(|kind| matches!(kind, Type::Object(_)));
    let tuples = count(|kind| matches!(kind, Type::Tuple(_)));
    let all = types.len();
    let structures = maps.max(lists).max(sets).max(objects).max(tuples);

    if structures > 0 && structures + any == all {
        return match any {
            0 => unify_alike(types, unsafely),
            _ => Some(Type::Any),
        };
    }
    if maps > 0
        && maps + objects + any == all
        && let Some(kind) = unify_loosely(types, unsafely, objects_as_map)
    {
        return Some(kind);
    }
    if lists > 0
        && lists + tuples + any == all
        && let Some(kind) = unify_loosely(types, unsafely, tuples_as_list)
    {
        return Some(kind);
    }
    if objects > 0 && tuples > 0 {
        return None;
    }
    choose(types, unsafely)
}

/// All types are of one kind, and none is `Any`.
fn unify_alike(types: &[&Type], unsafely: bool) -> Option<Type> {
    match types.first()? {
        Type::Tuple(_) => unify_tuples(types, unsafely),
        Type::Object(_) => unify_objects(types, unsafely),
        Type::List(_) => unify_elements(types, unsafely).map(Type::list),
        Type::Set(_) => unify_elements(types, unsafely).map(Type::set),
        _ => unify_elements(types, unsafely).map(Type::map),
    }
}

fn unify_elements(types: &[&Type], unsafely: bool) -> Option<Type> {
    unify(types.iter().filter_map(|kind| kind.element()), unsafely)
}

/// Tuples among lists are taken for lists, objects among maps for maps.
fn unify_loosely(
    types: &[&Type],
    unsafely: bool,
    loosen: fn(&[&Type], bool) -> Option<Type>,
) -> Option<Type> {
    let is_structural = |kind: &&Type| matches!(kind, Type::Tuple(_) | Type::Object(_));
    let structural: Vec<&Type> = types.iter().copied().filter(is_structural).collect();
    let loose = loosen(&structural, unsafely)?;
    let replaced = types.iter().map(|kind| if is_structural(kind) { &loose } else { *kind });
    unify(replaced.collect::<Vec<_>>(), unsafely).filter(Type::is_collection)
}

fn unify_tuples(types: &[&Type], unsafely: bool) -> Option<Type> {
    let rows: Vec<&[Type]> = types.iter().map(|kind| places(kind)).collect();
    let length = rows.first()?.len();
    if rows.iter().any(|row| row.len() != length) {
        return tuples_as_list(types, unsafely);
    }
    let columns = (0..length).map(|place| unify(rows.iter().map(|row| &row[place]), unsafely));
    let tuple = Type::Tuple(columns.collect::<Option<Vec<_>>>()?.into());
    match all_become(types, &tuple, unsafely) {
        true => Some(tuple),
        false => tuples_as_list(types, unsafely),
    }
}

fn unify_objects(types: &[&Type], unsafely: bool) -> Option<Type> {
    let rows: Vec<_> = types
        .iter()
        .filter_map(|kind| match kind {
            Type::Object(kinds) => Some(kinds),
            _ => None,
        })
        .collect();
    let first = *rows.first()?;
    if rows.iter().any(|row| !row.keys().eq(first.keys())) {
        return objects_as_map(types, unsafely);
    }
    let mut columns = BTreeMap::new();
    for name in first.keys() {
        let kind = unify(rows.iter().filter_map(|row| row.get(name)), unsafely)?;
        columns.insert(name.clone(), kind);
    }
    let object = Type::Object(Arc::new(columns));
    match all_become(types, &object, unsafely) {
        true => Some(object),
        false => objects_as_map(types, unsafely),
    }
}

fn tuples_as_list(types: &[&Type], unsafely: bool) -> Option<Type> {
    let elements: Vec<&Type> = types.iter().flat_map(|kind| places(kind)).collect();
    let list = unify(elements, unsafely)?.list();
    all_become(types, &list, unsafely).then_some(list)
}

fn objects_as_map(types: &[&Type], unsafely: bool) -> Option<Type> {
    let mut elements = Vec::new();
    for kind in types {
        if let Type::Object(kinds) = kind {
            elements.extend(kinds.values());
        }
    }
    let map = unify(elements, unsafely)?.map();
    all_become(types, &map, unsafely).then_some(map)
}

fn places(kind: &Type) -> &[Type] {
    match kind {
        Type::Tuple(kinds) => kinds,
        _ => &[],
    }
}

fn all_become(types: &[&Type], to: &Type, unsafely: bool) -> bool {
    types.iter().all(|kind| *kind == to || is_convertible(kind, to, unsafely))
}

/// The most general of the types that all others can become.
fn choose(types: &[&Type], unsafely: bool) -> Option<Type> {
    if types.len() > MAX_KINDS {
        return None;
    }
    let found = by_generality(types).into_iter().find(|kind| all_become(types, kind, unsafely));
    found.cloned()
}

/// More general types first; otherwise in the order given.
fn by_generality<'t>(types: &[&'t Type]) -> Vec<&'t Type> {
    let mut left: Vec<&Type> = types.to_vec();
    let mut sorted = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_top = |kind: &Type| !left.iter().any(|other| generality(other, kind) > 0);
        let (tops, rest): (Vec<&Type>, Vec<&Type>) = left.iter().partition(|kind| is_top(kind));
        if tops.is_empty() {
            sorted.extend(rest);
            break;
        }
        sorted.extend(tops);
        left = rest;
    }
    sorted
}

/// Above zero when `left` is the more general of the two, below when `right` is.
fn generality(left: &Type, right: &Type) -> i8 {
    match (left, right) {
        (Type::Any, Type::Any) => 0,
        (Type::Any, _) => -1,
        (_, Type::Any) => 1,
        (Type::String, Type::Bool | Type::Number) => 1,
        (Type::Bool | Type::Number, Type::String) => -1,
        (Type::List(left), Type::List(right))
        | (Type::Set(left), Type::Set(right))
        | (Type::Map(left), Type::Map(right)) => generality(left, right),
        (Type::Tuple(_) | Type::List(_), Type::Set(_)) => 1,
        (Type::Set(_), Type::Tuple(_) | Type::List(_)) => -1,
        (Type::List(_), Type::Tuple(_)) | (Type::Map(_), Type::Object(_)) => 1,
        (Type::Tuple(_), Type::List(_)) | (Type::Object(_), Type::Map(_)) => -1,
        (Type::Tuple(left), Type::Tuple(right)) if left.len() == right.len() => {
            agreed(left.iter().zip(right.iter()))
        }
        (Type::Object(left), Type::Object(right)) if left.keys().eq(right.keys()) => {
            agreed(left.values().zip(right.values()))
        }
        _ => 0,
    }
}

/// Structures are more general only if no part says otherwise.
fn agreed<'t>(pairs: impl Iterator<Item = (&'t Type, &'t Type)>) -> i8 {
    let votes: Vec<i8> = pairs.map(|(left, right)| generality(left, right)).collect();
    match (votes.iter().any(|vote| *vote > 0), votes.iter().any(|vote| *vote < 0)) {
        (true, false) => 1,
        (false, true) => -1,
        _ => 0,
    }
}
