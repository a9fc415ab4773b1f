service "db" {
  description = "Orders and customers"

  selector {
    match_labels = { role = "db" }
  }

  image = "docker.io/library/postgres:17.2"
  env = {
    POSTGRES_DB       = "shop"
    POSTGRES_USER     = "shop"
    POSTGRES_PASSWORD = "$DB_PASSWORD"
  }

  port "sql" {
    container = 5432
    protocol  = "tcp"
  }
  volume "data" {
    path = "/var/lib/postgresql/data"
  }
  health {
    command      = "pg_isready --username shop"
    start_period = "1m"
  }
}
