//! A server with thousands of agents, and the bare streams that are its floor.

pub mod bare;
pub mod crowd;
pub mod readers;

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

/// The same, and one more task that concerns hardly anybody: see [`few`].
pub fn and_one_for_few(release: usize, few: usize) -> String {
    format!(
        "{}task \"few\" {{\n  selector {{\n    match_labels = {{ rack = \"r00\", role = \"web\", \
         region = \"eu\", env = \"staging\" }}\n  }}\n  shell \"it\" {{\n    check   = \"test -f /etc/few-{few}\"\n    \
         command = \"touch /etc/few-{few}\"\n  }}\n}}\n",
        twenty_steps(release)
    )
}

/// How many of the first so many members of a swarm the task `few` is for.
pub fn few(of: u32) -> u64 {
    // Every fifth is web, every third in eu, every tenth staging; forty are in a rack.
    let is_meant = |number: &u32| number.is_multiple_of(30) && (number / 40).is_multiple_of(100);
    (0..of).filter(is_meant).count() as u64
}
