task "sshd" {
  description = "Keys only. Somebody who changed this by hand had a reason: ask before undoing it"

  drift {
    policy = "alert_only"
  }

  selector {
    match_labels = {}
  }

  shell "config" {
    check   = "echo '${sha256(local.sshd_conf)}  /etc/ssh/sshd_config.d/90-fluke.conf' | sha256sum --check --status"
    command = <<-SH
      set -eu
      new=$(mktemp)
      echo '${base64encode(local.sshd_conf)}' | base64 -d > "$new"
      sshd -t -f "$new"
      install -m 0644 "$new" /etc/ssh/sshd_config.d/90-fluke.conf
      rm "$new"
      systemctl reload ssh
    SH
  }
}
