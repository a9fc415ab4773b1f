# Manifests say what should be true of hosts. fluke checks, and puts right what is not.
# Change this file while `fluke dev` runs: the effect, or the mistake, shows within a second.

locals {
  root     = "@ROOT@"
  greeting = "hello from fluke"
}

# A task is for every host that its selector matches. Steps run in order; each has a check,
# and its command runs only when the check fails.
task "greeting" {
  description = "A file with the right words in it"

  selector {
    match_labels = { role = "dev" }
  }

  shell "folder" {
    check   = "test -d ${local.root}"
    command = "mkdir -p ${local.root}"
  }

  shell "words" {
    check   = "grep -qxF '${local.greeting}' ${local.root}/greeting"
    command = "echo '${local.greeting}' > ${local.root}/greeting"
  }
}

# This one is only watched: drift is shown, and waits for `fluke reconcile task permissions`.
task "permissions" {
  description = "Nobody else may write there"

  drift {
    policy = "alert_only"
  }

  selector {
    match_labels = { role = "dev" }
  }

  shell "mode" {
    check   = "test \"$(stat -c %a ${local.root})\" = 700"
    command = "chmod 700 ${local.root}"
  }
}
