locals {
  tools_dir = "/opt/build-tools"
  channels  = { stable = "main", next = "next" }
}

task "build-tools" {
  description = "Compilers and linters, as the build-tools repository lists them"

  selector {
    match_labels = { role = "build" }

    match_expressions = [
      { key = "frozen", operator = "not_exists" },
    ]
  }

  mise "tools" {
    working_dir = local.tools_dir
    check_task  = "check"
    apply_task  = "install"
    timeout     = "30m"

    git {
      url    = "https://git.example.com/build-tools.git"
      branch = local.channels["stable"]
    }
  }

  shell "in-path" {
    check   = "test -L /etc/profile.d/build-tools.sh"
    command = "ln -s ${local.tools_dir}/profile.sh /etc/profile.d/build-tools.sh"
  }
}
