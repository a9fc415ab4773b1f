# A server as it would stand in production. Secrets come from the environment.
server {
  listen_grpc = ":7070"
  listen_http = ":7071"
  socket      = "/run/fluke/fluke.sock"
  api_tokens  = ["$FLUKE_API_TOKEN"]
  heartbeat   = "15s"

  # Holders of this token can be any agent: keep it for the first steps, then bind.
  agent_tokens = ["$FLUKE_TOKEN"]

  # Holders of this one can be web servers, and nothing else.
  agent_token "web" {
    token  = "$FLUKE_WEB_TOKEN"
    names  = ["web-*"]
    labels = { role = "web" }
  }

  git {
    url              = "ssh://git@git.example.com/infra.git"
    branch           = "main"
    poll_interval    = "60s"
    ssh_key_file     = "/etc/fluke/id_ed25519"
    known_hosts_file = "/etc/fluke/known_hosts"
    webhook_secret   = "$FLUKE_WEBHOOK_SECRET"
  }

  tls {
    enabled   = true
    cert_file = "/etc/fluke/tls/server.pem"
    key_file  = "/etc/fluke/tls/server.key"
  }

  drift {
    policy        = "remediate_and_alert"
    alert_webhook = "$FLUKE_ALERT_WEBHOOK"
  }

  log {
    level  = "info"
    format = "json"
  }
}
