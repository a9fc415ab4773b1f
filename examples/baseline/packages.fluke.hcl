task "packages" {
  description = "The packages that are on every host"

  selector {
    match_labels = {}
  }

  shell "apt" {
    # dpkg-query fails for a package it does not know; grep finds one that is not installed.
    check   = "! dpkg-query --show --showformat '$${db:Status-Status}\\n' ${join(" ", local.packages)} 2>&1 | grep -qv '^installed$'"
    command = "apt-get update -q && apt-get install -q -y --no-install-recommends ${join(" ", local.packages)}"
    timeout = "15m"

    env = {
      DEBIAN_FRONTEND = "noninteractive"
    }
  }
}
