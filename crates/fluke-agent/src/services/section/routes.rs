//! The proxy as a section.

use std::collections::BTreeSet;

use fluke_model::directory::{RouteKey, Routes};
use fluke_model::id::Hash256;

use super::{Found, Section};
use crate::services::routes::{Proxy, RoutesError, Settings};

/// Traefik on this host, once there is a way to ask it.
#[derive(Debug)]
pub struct RoutesSection {
    settings: Settings,
    proxy: Option<Proxy>,
}

impl RoutesSection {
    /// Starts nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, proxy: None }
    }

    fn proxy(&mut self) -> Result<&mut Proxy, RoutesError> {
        match &mut self.proxy {
            Some(proxy) => Ok(proxy),
            none => Ok(none.insert(Proxy::new(self.settings.clone())?)),
        }
    }
}

impl Section for RoutesSection {
    type Table = Routes;
    type Error = RoutesError;

    async fn check(&mut self, wanted: &Routes) -> Result<Found, RoutesError> {
        self.proxy()?.check(wanted).await
    }

    async fn apply(&mut self, wanted: &Routes) -> Result<(), RoutesError> {
        self.proxy()?.apply(wanted).await
    }

    fn forgive(&mut self) {
        self.proxy.iter_mut().for_each(Proxy::forgive);
    }

    fn in_effect(&self) -> Hash256 {
        self.proxy.as_ref().map_or_else(|| Routes::default().hash(), Proxy::in_effect)
    }

    fn left_out(&self) -> BTreeSet<RouteKey> {
        self.proxy.as_ref().map(|proxy| proxy.left_out().clone()).unwrap_or_default()
    }

    async fn changed(&mut self) {
        match &mut self.proxy {
            Some(proxy) => proxy.changed().await,
            None => std::future::pending().await,
        }
    }
}
