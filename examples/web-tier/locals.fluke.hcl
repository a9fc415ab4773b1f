locals {
  domain  = "shop.example.com"
  app_dir = "/srv/shop"
  release = "2.14.0"

  ports     = range(8001, 8004)
  upstreams = [for port in local.ports : "127.0.0.1:${port}"]

  nginx_conf = templatefile("templates/nginx.conf.tmpl", {
    domain    = local.domain
    upstreams = local.upstreams
    root      = "${local.app_dir}/public"
  })
}
