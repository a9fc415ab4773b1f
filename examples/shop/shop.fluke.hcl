service "shop" {
  description = "The storefront"

  selector {
    match_labels = { role = "app" }
  }
  replicas = 3

  image = "${local.registry}/web:${local.version}"
  env = {
    DATABASE_URL = "postgres://shop:$DB_PASSWORD@db.internal:5432/shop"
    CACHE_URL    = "redis://cache.internal:6379"
  }

  port "http" {
    container = 3000
    domain    = "shop.example.com"
  }
  health {
    command      = "wget -qO- localhost:3000/health"
    interval     = "10s"
    timeout      = "5s"
    start_period = "30s"
  }
  resources {
    cpu    = 0.5
    memory = "256MiB"
  }
}

service "cache" {
  description = "May be lost at any time"

  selector {
    match_labels = { role = "app" }
  }
  replicas = 1

  image = "docker.io/library/redis:7.4"

  # For other containers alone: nothing leads to it from outside.
  port "redis" {
    container = 6379
    protocol  = "tcp"
  }
}
