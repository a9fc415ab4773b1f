//! The services of all files: each name once, and each way in once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fluke_model::bounds::{MAX_REPLICAS, MAX_ROWS};
use fluke_model::id::{PortName, ServiceName};
use fluke_model::service::Service;

use super::file::{DeclaredService, File};
use crate::hcl::problem::Problem;
use crate::schema::Entrance;

/// All services by name. What two of them claim is a problem of the later one.
pub(super) fn collect(files: &mut [File<'_>]) -> BTreeMap<ServiceName, Arc<Service>> {
    let mut services: BTreeMap<ServiceName, Arc<Service>> = BTreeMap::new();
    let mut entrances = Entrances::new();
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

/// Which port of which service has each way in.
type Entrances = HashMap<Entrance, (Arc<Service>, PortName)>;

/// Two ports that answer the same would be a coin toss for every request.
fn rivals(declared: &DeclaredService, entrances: &mut Entrances) -> Vec<Problem> {
    let DeclaredService { service, header, ports } = declared;
    let mut problems = Vec::new();
    for (port, claimed_at) in service.ports.iter().zip(ports) {
        let Some(entrance) = Entrance::of(port) else { continue };
        let taken = entrance.rivals().into_iter().find_map(|it| entrances.get_key_value(&it));
        if let Some((rival, (other, its))) = taken {
            let (by, help) = match other.name == service.name {
                true => (
                    format!("the port `{its}` of this service"),
                    "only one of the two can have it".to_string(),
                ),
                false => (
                    format!("the service `{}`", other.name),
                    format!("it is defined at {}; only one of them can have it", other.defined),
                ),
            };
            let place = claimed_at.against(rival).unwrap_or(*header);
            let message = format!("{entrance} is taken by {by}");
            problems.push(Problem::new(place, message).help(help));
        }
        let owner = (service.clone(), port.name.clone());
        if let Entrance::Name(external, _) = entrance {
            entrances.entry(Entrance::AnyName(external)).or_insert_with(|| owner.clone());
        }
        entrances.insert(entrance, owner);
    }
    problems
}
