task "sysctl" {
  description = "Kernel settings, on disk and in force"

  # Containers share their host's kernel: not for them.
  selector {
    match_expressions = [
      { key = "virt", operator = "not_in", values = ["lxc", "container"] },
    ]
  }

  shell "file" {
    check   = "echo '${sha256(local.sysctl_conf)}  /etc/sysctl.d/90-fluke.conf' | sha256sum --check --status"
    command = "echo '${base64encode(local.sysctl_conf)}' | base64 -d > /etc/sysctl.d/90-fluke.conf"
  }

  shell "in-force" {
    check = join(" && ", [
      for key, value in local.sysctl : "test \"$(sysctl -n ${key})\" = '${value}'"
    ])
    command = "sysctl --load /etc/sysctl.d/90-fluke.conf"
  }
}
