//! `services`: what should run, what does, and how it is reached.

use axum::extract::State;
use axum::response::Response;
use fluke_model::api::{DeploymentView, Services};
use fluke_model::id::ServiceName;
use fluke_model::label::Selector;
use fluke_model::service::Phase;
use fluke_model::status::Status;

use super::api::{Named, in_force};
use super::overview::{Asked, Overview, Overviews};
use super::problem::Problem;
use super::{App, query};
use crate::registry::page;
use crate::services::listing::{self, Idle, Looking};

pub(super) async fn list(State(app): State<App>, asked: Asked) -> Result<Response, Problem> {
    let filter = query::services(&asked.uri)?;
    in_force(&app)?;
    let list = move |app: &App| {
        let (book, idle) = (app.desk.book(), |it: &Selector| app.registry.idle(it));
        let is_wanted = |name: &ServiceName| {
            filter.after.as_ref().is_none_or(|after| name > after)
                && filter.name.as_ref().is_none_or(|part| name.as_str().contains(&**part))
        };
        let all = listing::services(&book, looking(app, &idle));
        let wanted = all.filter(|(name, _)| is_wanted(name)).map(|(_, view)| view());
        let wanted =
            wanted.filter(|service| filter.status.is_none_or(|status| service.status == status));
        let (mut services, next) = page(wanted, filter.limit, |service| service.name.clone());
        drop(book);
        if !filter.well {
            services.iter_mut().for_each(|service| service.deployments.retain(is_of_note));
        }
        Overview::json(&Services { services, next })
    };
    Overviews::answer(app, asked, Box::new(list)).await
}

pub(super) async fn one(
    State(app): State<App>,
    Named(name): Named,
    asked: Asked,
) -> Result<Response, Problem> {
    query::nothing(&asked.uri)?;
    in_force(&app)?;
    let look = move |app: &App| {
        let book = app.desk.book();
        match listing::whole_service(&book, &name, looking(app, &|it| app.registry.idle(it))) {
            Some(service) => {
                drop(book);
                Overview::json(&service)
            }
            None => {
                let names = book.services().keys().map(|name| name.as_str());
                Err(Problem::unknown("service", &name, names))
            }
        }
    };
    Overviews::answer(app, asked, Box::new(look)).await
}

/// Whether there is something to say of a container that is to stay.
fn is_of_note(it: &DeploymentView) -> bool {
    it.phase != Phase::Retiring && (it.status != Status::InSync || it.note.is_some())
}

fn looking<'a>(app: &App, idle: &'a Idle<'a>) -> Looking<'a> {
    let now = tokio::time::Instant::now().into_std();
    Looking { default_policy: app.default_policy, now, idle }
}
