//! What dhat writes, as far as it matters here. Pure.

use serde::Deserialize;

use super::without_hash;

/// Crates that only pass on what others ask for.
const PASSING_ON: [&str; 4] = ["alloc", "core", "std", "hashbrown"];

/// A heap's history.
#[derive(Debug, Deserialize)]
pub(super) struct Heap {
    /// Places that asked for memory.
    pps: Vec<Place>,
    /// The functions that places name: `0x123: name (file.rs:12)`.
    ftbl: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Place {
    /// Bytes that it had when the heap was largest.
    #[serde(default)]
    gb: f64,
    /// Its functions, innermost first.
    fs: Vec<usize>,
}

impl Heap {
    /// Bytes in all when it was largest, and by function.
    pub(super) fn at_its_largest(&self) -> (f64, Vec<(f64, String)>) {
        let all: Vec<_> = self.pps.iter().map(|place| (place.gb, self.asked(place))).collect();
        (all.iter().map(|(bytes, _)| bytes).sum(), all)
    }

    /// Who asked: the innermost function that is somebody's own.
    fn asked(&self, place: &Place) -> String {
        let mut names =
            place.fs.iter().filter_map(|at| self.ftbl.get(*at)).filter_map(|it| name(it));
        let first = names.clone().next();
        let own = names.find(|name| origin(name).is_some_and(|it| !PASSING_ON.contains(&it)));
        own.or(first).unwrap_or("unknown").to_string()
    }
}

/// The crate that a function is from, as far as its name says so: that of a function which became
/// part of another does not, nor does an allocator's. `<T as alloc::Trait>::function` is alloc's.
fn origin(name: &str) -> Option<&str> {
    let says_so = name.starts_with('<') || name.split('<').next()?.contains("::");
    let mut words = name.split(|it: char| !it.is_alphanumeric() && !matches!(it, '_' | ':'));
    let path = words.find_map(|word| word.split_once("::").filter(|(first, _)| !first.is_empty()));
    path.map(|(first, _)| first).filter(|_| says_so)
}

fn name(entry: &str) -> Option<&str> {
    let (_, rest) = entry.split_once(": ")?;
    let (name, _) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    Some(without_hash(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_belongs_to_whoever_asked_for_it_and_not_to_who_passed_it_on() {
        let text = r#"{ "pps": [
            { "gb": 100, "fs": [1, 4, 2, 5, 3] }, { "gb": 50, "fs": [1] }, { "fs": [3] }
        ], "ftbl": ["[root]", "0x1: malloc (vg_replace_malloc.c:442)",
            "0x2: alloc::vec::Vec<T>::push::h0123456789abcdef (mod.rs:1)",
            "0x3: fluke_server::registry::Registry::join (registry.rs:12)",
            "0x4: grow_one<alloc::alloc::Global> (raw_vec.rs:1)",
            "0x5: <T as alloc::slice::hack::ConvertVec>::to_vec (slice.rs:1)"] }"#;
        let heap: Heap = serde_json::from_str(text).expect("a heap");
        let (total, functions) = heap.at_its_largest();
        assert_eq!(total, 150.0);
        let named = |bytes: f64, name: &str| (bytes, name.to_string());
        let join = "fluke_server::registry::Registry::join";
        assert_eq!(functions, [named(100.0, join), named(50.0, "malloc"), named(0.0, join)]);
    }

    #[test]
    fn a_function_is_from_the_crate_that_its_name_says() {
        for (name, from) in [
            ("tonic::codec::encode::EncodedBytes<T,U>::new", Some("tonic")),
            ("<fluke_model::label::Labels as core::clone::Clone>::clone", Some("fluke_model")),
            ("<alloc::raw_vec::RawVecInner>::try_allocate_in", Some("alloc")),
            ("<&mut [T] as core::iter::Iterator>::next", Some("core")),
            (
                "prost::encoding::<impl prost::Message for alloc::vec::Vec<u8>>::encode",
                Some("prost"),
            ),
            ("with_capacity_in<sharded_slab::shard::Ptr<u8>, alloc::alloc::Global>", None),
            ("new<[u8; 4096]>", None),
            ("{closure#0}", None),
            ("posix_memalign", None),
            ("__rust_alloc", None),
            ("_RNvCs1234_7___rustc14___rust_realloc", None),
        ] {
            assert_eq!(origin(name), from, "{name}");
        }
    }
}
