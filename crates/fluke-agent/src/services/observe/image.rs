//! Whether a container was made from the image that is wanted. Pure.
//!
//! Podman does not note the name that it was given, but the one that it found under it: complete,
//! with a tag where none was given, and without one where there is a digest.

/// What comes of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub enum Same {
    /// It was.
    Yes,
    /// It was made from this one.
    No(String),
    /// That cannot be told.
    Unknown,
}

/// An image's name in its parts.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    /// Where it comes from, if that was said.
    registry: Option<&'a str>,
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

/// Compares what is wanted with the name that Podman noted and the digest of what it has.
pub fn compare(wanted: &str, noted: &str, digest: Option<&str>) -> Same {
    let (wanted, found) = (Name::parse(wanted), Name::parse(noted));
    if let Some(pinned) = wanted.digest {
        // An image of several architectures has a digest for all of them and one for each, of which
        // Podman tells one. The name that it was asked for by is as good.
        return match [found.digest, digest].into_iter().flatten().next_back() {
            None => Same::Unknown,
            Some(_) if [found.digest, digest].contains(&Some(pinned)) => Same::Yes,
            Some(other) => Same::No(other.to_owned()),
        };
    }
    let is_alike = wanted.tag() == found.tag() && wanted.digest == found.digest;
    match wanted.registry {
        Some(_) if is_alike && wanted.place() == found.place() => Same::Yes,
        Some(_) => Same::No(noted.to_owned()),
        // Where a short name leads is for the host to say, and it may lead to any name.
        None => Same::Unknown,
    }
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Self {
        let (named, digest) = match text.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (text, None),
        };
        // Only a host has a dot or a port, or is this one.
        let is_host = |first: &str| first == "localhost" || first.contains(['.', ':']);
        let (registry, rest) = match named.split_once('/') {
            Some((first, rest)) if is_host(first) => (Some(first), rest),
            _ => (None, named),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        Self { registry, path, tag, digest }
    }

    /// The tag that it has, or would be given.
    fn tag(&self) -> Option<&'a str> {
        self.tag.or(self.digest.is_none().then_some("latest"))
    }

    /// Where it is: Docker's registry has a folder for what has none, and two names.
    fn place(&self) -> (Option<&'a str>, Option<&'a str>, &'a str) {
        let is_docker = matches!(self.registry, Some("docker.io" | "index.docker.io"));
        match (is_docker, self.path.split_once('/')) {
            (true, None) => (Some("docker.io"), Some("library"), self.path),
            (true, Some((folder, rest))) => (Some("docker.io"), Some(folder), rest),
            (false, _) => (self.registry, None, self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "sha256:fb3ff73bcebdb6c3c24de76db61b457f9051dba6d25ce71b41ce560a84058a3a";
    const ONE: &str = "sha256:3807d6a9c5fd44abbbec9c1630a701ea0d5d9c3d9b7b8a9dee96a9b6cb725308";

    #[test]
    fn a_name_is_the_one_that_podman_makes_of_it() {
        for (wanted, noted) in [
            ("localhost/box:1", "localhost/box:1"),
            ("localhost/box", "localhost/box:latest"),
            ("r.example:5000/shop/web", "r.example:5000/shop/web:latest"),
            ("docker.io/nginx:1", "docker.io/library/nginx:1"),
            ("docker.io/library/nginx:1", "docker.io/library/nginx:1"),
            ("index.docker.io/grafana/loki:3", "docker.io/grafana/loki:3"),
        ] {
            assert_eq!(compare(wanted, noted, Some(ALL)), Same::Yes, "{wanted} {noted}");
        }
        for (wanted, noted) in [
            ("localhost/box:1", "localhost/box:2"),
            ("localhost/box", "localhost/box:2"),
            ("localhost/box:1", "localhost/evil:1"),
            ("r.example/web:1", "q.example/web:1"),
            ("r.example/nginx:1", "r.example/library/nginx:1"),
            ("docker.io/nginx:1", "docker.io/evil/nginx:1"),
        ] {
            let other = Same::No(noted.to_owned());
            assert_eq!(compare(wanted, noted, Some(ALL)), other, "{wanted} {noted}");
        }
    }

    #[test]
    fn where_a_short_name_leads_nobody_can_tell() {
        for noted in ["docker.io/library/web:1", "localhost/web:1", "quay.io/podman/stable:latest"]
        {
            assert_eq!(compare("web:1", noted, Some(ALL)), Same::Unknown, "{noted}");
        }
    }

    #[test]
    fn a_digest_is_that_of_all_architectures_or_of_one() {
        let web = |what: &str| format!("r.example/web{what}");
        let (all, one) = (web(&format!("@{ALL}")), web(&format!("@{ONE}")));
        // As Podman tells it, whichever of the two it was asked for.
        assert_eq!(compare(&all, &all, Some(ALL)), Same::Yes);
        assert_eq!(compare(&one, &one, Some(ALL)), Same::Yes);
        assert_eq!(compare(&web(&format!(":1.4@{ONE}")), &one, Some(ALL)), Same::Yes);
        assert_eq!(compare(&all, &web(":1"), Some(ALL)), Same::Yes);
        assert_eq!(compare(&one, &web(":1"), Some(ALL)), Same::No(ALL.to_owned()));
        assert_eq!(compare(&one, &web(":1"), None), Same::Unknown);
        assert_eq!(compare(&web(":1"), &all, Some(ALL)), Same::No(all.clone()));
    }
}
