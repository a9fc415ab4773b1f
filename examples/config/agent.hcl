# An agent as it would stand on a web server.
agent {
  server_url = "grpcs://fluke.example.com:7070"
  token      = "$FLUKE_TOKEN"
  name       = "web-01"
  labels     = { role = "web", env = "production" }
  state_dir  = "/var/lib/fluke"

  tls {
    ca_file = "/etc/fluke/ca.pem"
  }

  # What no server can talk this host into.
  allow {
    executors = ["shell", "mise"]
    run_as    = ["root", "deploy"]
  }

  execution {
    default_shell   = "/bin/bash"
    command_timeout = "5m"
  }

  log {
    level  = "info"
    format = "text"
  }
}
