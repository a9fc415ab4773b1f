locals {
  packages = ["chrony", "curl", "htop", "unattended-upgrades"]

  sysctl = {
    "kernel.dmesg_restrict"   = 1
    "net.ipv4.tcp_syncookies" = 1
    "vm.swappiness"           = 10
  }

  # One `key = value` line each, sorted, as sysctl.d wants it.
  sysctl_conf = join("", [for key, value in local.sysctl : "${key} = ${value}\n"])

  sshd_conf = <<-CONF
    PasswordAuthentication no
    PermitRootLogin prohibit-password
    X11Forwarding no
  CONF
}
