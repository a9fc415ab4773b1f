//! What a model offers to hosts, found by their labels, and kept from one model to the next.

use std::collections::HashMap;
use std::sync::Arc;

use crate::id::{LabelKey, LabelValue};
use crate::label::{Labels, Selector};
use crate::parallel::in_parallel;
use crate::policy::Policy;

/// When more than one in so many changed, the index is made anew.
const MANY: usize = 8;

/// Something of a model, with what hosts get of it.
pub(super) trait Offer: Send + Sync {
    /// What it is in the model.
    type Of: Send + Sync;

    /// Resolves it for a server with this default policy.
    fn new(of: &Arc<Self::Of>, default_policy: Policy) -> Self;
    fn of(&self) -> &Arc<Self::Of>;
    fn name(of: &Self::Of) -> &str;
    fn selector(&self) -> &Selector;
    /// Whether every host gets the same of both.
    fn is_same_for_hosts(&self, other: &Self) -> bool;
}

/// All of one kind.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    /// By name.
    offers: Vec<Arc<T>>,
    index: Index<T>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { offers: Vec::new(), index: Index::default() }
    }
}

struct Merged<'m, T: Offer> {
    same: Vec<Arc<T>>,
    gone: Vec<Arc<T>>,
    new: Vec<&'m Arc<T::Of>>,
}

impl<T: Offer> Shelf<T> {
    /// The same for a model that follows, by name; and what is other than it was for hosts.
    pub(super) fn follow<'m>(
        &self,
        model: impl Iterator<Item = &'m Arc<T::Of>>,
        default_policy: Policy,
    ) -> (Self, Index<T>)
    where
        T::Of: 'm,
    {
        let Merged { same, gone, new } = self.merge(model);
        let new = in_parallel(&new, |of| Arc::new(T::new(of, default_policy)));
        let is_among = |others: &[Arc<T>], one: &T| {
            let at = others.binary_search_by(|other| T::name(other.of()).cmp(T::name(one.of())));
            at.is_ok_and(|at| others[at].is_same_for_hosts(one))
        };
        let mut touched = Index::default();
        gone.iter().filter(|one| !is_among(&new, one)).for_each(|one| touched.add(one));
        new.iter().filter(|one| !is_among(&gone, one)).for_each(|one| touched.add(one));
        let index = self.index.changed(&same, &gone, &new);
        let mut offers = same;
        offers.extend(new);
        // Two runs that are sorted already.
        offers.sort_by(|a, b| T::name(a.of()).cmp(T::name(b.of())));
        (Self { offers, index }, touched)
    }

    /// What becomes of what is known here with a model; all by name.
    fn merge<'m>(&self, model: impl Iterator<Item = &'m Arc<T::Of>>) -> Merged<'m, T>
    where
        T::Of: 'm,
    {
        let mut merged = Merged { same: Vec::new(), gone: Vec::new(), new: Vec::new() };
        merged.same.reserve(self.offers.len());
        let mut known = self.offers.iter().peekable();
        for of in model {
            while let Some(gone) = known.next_if(|known| T::name(known.of()) < T::name(of)) {
                merged.gone.push(gone.clone());
            }
            match known.next_if(|known| T::name(known.of()) == T::name(of)) {
                Some(same) if Arc::ptr_eq(same.of(), of) => merged.same.push(same.clone()),
                other => {
                    merged.gone.extend(other.cloned());
                    merged.new.push(of);
                }
            }
        }
        merged.gone.extend(known.cloned());
        merged
    }

    /// Everything that is for a host with these labels.
    pub(super) fn matching(&self, labels: &Labels) -> impl Iterator<Item = &Arc<T>> {
        self.index.matching(labels)
    }
}

type List<T> = Arc<Vec<Arc<T>>>;

/// Finds by labels; the lists in it are shared with the indices of other models.
#[derive(Debug)]
pub(super) struct Index<T> {
    /// By one of the pairs that they ask for.
    by_pair: HashMap<(LabelKey, LabelValue), List<T>>,
    /// Those that ask for no pair.
    unpaired: List<T>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self { by_pair: HashMap::new(), unpaired: Arc::default() }
    }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self { by_pair: self.by_pair.clone(), unpaired: self.unpaired.clone() }
    }
}

impl<T: Offer> Index<T> {
    /// An index of `same` and `new`, where this one is of `same` and `gone`.
    fn changed(&self, same: &[Arc<T>], gone: &[Arc<T>], new: &[Arc<T>]) -> Self {
        let few = gone.len() * MANY < same.len();
        let mut index = if few { self.clone() } else { Self::default() };
        match few {
            true => gone.iter().for_each(|offer| index.remove(offer)),
            false => same.iter().for_each(|offer| index.add(offer)),
        }
        new.iter().for_each(|offer| index.add(offer));
        index
    }

    fn add(&mut self, offer: &Arc<T>) {
        let list = match pair_of(offer.selector()) {
            Some(pair) => self.by_pair.entry(pair).or_default(),
            None => &mut self.unpaired,
        };
        Arc::make_mut(list).push(offer.clone());
    }

    fn remove(&mut self, offer: &Arc<T>) {
        let others = |list: &mut List<T>| {
            Arc::make_mut(list).retain(|other| !Arc::ptr_eq(other, offer));
            list.is_empty()
        };
        match pair_of(offer.selector()) {
            Some(pair) => {
                if self.by_pair.get_mut(&pair).is_some_and(others) {
                    self.by_pair.remove(&pair);
                }
            }
            None => {
                others(&mut self.unpaired);
            }
        }
    }

    fn matching(&self, labels: &Labels) -> impl Iterator<Item = &Arc<T>> {
        let pairs = labels.0.iter();
        let paired =
            pairs.filter_map(|(key, value)| self.by_pair.get(&(key.clone(), value.clone())));
        let offers = self.unpaired.iter().chain(paired.flat_map(|list| list.iter()));
        offers.filter(|offer| offer.selector().matches(labels))
    }

    /// Whether anything in it is for a host with these labels.
    pub(super) fn concerns(&self, labels: &Labels) -> bool {
        // Of what there is little, nothing has to be looked up to see that it is not asked for.
        let is_asked = |((key, value), _): (&(LabelKey, LabelValue), _)| {
            labels.0.get(key).is_some_and(|own| own == value)
        };
        let is_small = self.by_pair.len() <= labels.0.len();
        let may_be = !is_small || self.by_pair.iter().any(is_asked) || !self.unpaired.is_empty();
        may_be && self.matching(labels).next().is_some()
    }
}

/// The last pair by key order; any one pair is enough to find something by.
fn pair_of(selector: &Selector) -> Option<(LabelKey, LabelValue)> {
    let (key, value) = selector.match_labels.iter().next_back()?;
    Some((key.clone(), value.clone()))
}
