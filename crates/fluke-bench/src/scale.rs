//! A server with thousands of agents, and the bare streams that are its floor.

pub mod bare;
pub mod crowd;
pub mod readers;
mod serving;
pub mod spread;

/// A manifest that gives every host twenty steps, in four tasks; another `release`, other steps.
fn twenty_steps(release: usize) -> String {
    let step = |task: usize, step: usize| {
        format!(
            "  shell \"step-{step}\" {{\n    check   = \"test -f /etc/app-{task}/{step}-{release}.toml\"\n    \
             command = \"install -m 0644 /srv/app-{task}/{step}.toml /etc/app-{task}/{step}-{release}.toml\"\n  }}\n"
        )
    };
    let task = |task: usize| {
        let steps: String = (0..5).map(|number| step(task, number)).collect();
        format!("task \"app-{task}\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{steps}}}\n")
    };
    (0..4).map(task).collect()
}

/// How often what concerns everybody, hardly anybody and [`ONE`] has changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Releases {
    /// Of the twenty steps that every host has.
    pub all: usize,
    /// Of a step that hardly anybody has: see [`few`].
    pub few: usize,
    /// Of a step that one host has.
    pub one: usize,
}

/// The host that has a step of its own.
pub const ONE: &str = "the-one";

impl Releases {
    /// The manifest that says so.
    pub fn manifest(&self) -> String {
        let Self { all, few, one } = *self;
        let task = |name: &str, labels: &str, release: usize| {
            format!(
                "task \"{name}\" {{\n  selector {{\n    match_labels = {{ {labels} }}\n  }}\n  shell \"it\" {{\n    \
                 check   = \"test -f /etc/{name}-{release}\"\n    command = \"touch /etc/{name}-{release}\"\n  }}\n}}\n"
            )
        };
        let labels = "rack = \"r00\", role = \"web\", region = \"eu\", env = \"staging\"";
        let few = task("few", labels, few);
        format!("{}{few}{}", twenty_steps(all), task("one", &format!("only = \"{ONE}\""), one))
    }
}

/// What members of a swarm are by turns.
const ROLES: [&str; 5] = ["web", "db", "cache", "queue", "edge"];
/// How many racks there are, of forty hosts each, or of more where there are more hosts than that.
const RACKS: usize = 100;

/// Services of which every member runs two: that of its role, which many run and which is asked how
/// it is, and that of its rack, which few do.
fn two_services() -> String {
    let of_role = |role: &str| {
        format!(
            "service \"role-{role}\" {{\n  selector {{\n    match_labels = {{ role = \"{role}\" }}\n  }}\n  \
             image = \"images.example/{role}:1.0.0\"\n  port \"http\" {{\n    container = 8080\n    \
             domain    = \"{role}.example.com\"\n  }}\n  health {{\n    command = \"test -f /run/well\"\n  }}\n}}\n"
        )
    };
    let of_rack = |rack: usize| {
        format!(
            "service \"rack-r{rack:02}\" {{\n  selector {{\n    match_labels = {{ rack = \"r{rack:02}\" }}\n  }}\n  \
             image = \"images.example/rack:1.0.0\"\n}}\n"
        )
    };
    let roles: String = ROLES.iter().map(|role| of_role(role)).collect();
    roles + &(0..RACKS).map(of_rack).collect::<String>()
}

/// How many of the first so many members of a swarm the task `few` is for.
pub fn few(of: u32) -> u64 {
    // Every fifth is web, every third in eu, every tenth staging; forty are in a rack.
    let is_meant = |number: &u32| number.is_multiple_of(30) && (number / 40).is_multiple_of(100);
    (0..of).filter(is_meant).count() as u64
}
