//! The services of all files: each name once, and each way in once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fluke_model::bounds::{MAX_REPLICAS, MAX_ROWS};
use fluke_model::id::ServiceName;
use fluke_model::service::Service;

use super::file::{DeclaredService, File};
use crate::hcl::problem::Problem;
use crate::schema::Entrance;

/// All services by name. What two of them claim is a problem of the later one.
pub(super) fn collect(files: &mut [File<'_>]) -> BTreeMap<ServiceName, Arc<Service>> {
    let mut services: BTreeMap<ServiceName, Arc<Service>> = BTreeMap::new();
    let mut entrances: HashMap<Entrance, Arc<Service>> = HashMap::new();
    let mut totals = Totals::default();
    for File { known, task_problems, .. } in files {
        for declared in known.iter().flat_map(|known| &known.services) {
            let DeclaredService { service, header, .. } = declared;
            if let Some(other) = services.get(&service.name) {
                let message = format!("service `{}` is defined twice", service.name);
                let help = format!("the other one is at {}; rename one of them", other.defined);
                task_problems.push(Problem::new(*header, message).help(help));
                continue;
            }
            services.insert(service.name.clone(), service.clone());
            task_problems.extend(rivals(declared, &mut entrances));
            task_problems.extend(totals.with(declared));
        }
    }
    services
}

/// What all services have together: as much must be carried to one host, and to one proxy.
#[derive(Default)]
struct Totals {
    replicas: usize,
    ports: usize,
}

impl Totals {
    /// With one more; told where there are too many for the first time.
    fn with(&mut self, declared: &DeclaredService) -> Vec<Problem> {
        let replicas = declared.service.replicas.unwrap_or(1).max(1) as usize;
        let parts = [
            (&mut self.replicas, replicas, MAX_REPLICAS as usize, "replicas", "run fewer of them"),
            (&mut self.ports, declared.ports.len(), MAX_ROWS, "ports", "have fewer of them"),
        ];
        let mut problems = Vec::new();
        for (total, more, most, what, help) in parts {
            let was_fine = *total <= most;
            *total += more;
            if was_fine && *total > most {
                let message =
                    format!("with this one, all services have {total} {what}; {most} are the most");
                problems.push(Problem::new(declared.header, message).help(help));
            }
        }
        problems
    }
}

/// Two services that answer the same would be a coin toss for every request.
fn rivals(
    declared: &DeclaredService,
    entrances: &mut HashMap<Entrance, Arc<Service>>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (port, span) in declared.service.ports.iter().zip(&declared.ports) {
        let Some(entrance) = Entrance::of(port) else { continue };
        let taken = entrance.rivals().into_iter().find_map(|rival| entrances.get(&rival).cloned());
        if let Some(other) = taken {
            let message = format!("{entrance} is taken by the service `{}`", other.name);
            let help = format!("it is defined at {}; only one of them can have it", other.defined);
            problems.push(Problem::new(*span, message).help(help));
        }
        entrances.insert(entrance.clone(), declared.service.clone());
        if let Entrance::Name(port, _) = entrance {
            entrances.entry(Entrance::AnyName(port)).or_insert(declared.service.clone());
        }
    }
    problems
}
