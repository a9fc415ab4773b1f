locals {
  app_dir = '/opt/app'
  node    = "22
  ports   = [80, 443
  names   = { a = 1 b = 2 }
}

task "web"
{
  drift { policy = "remediate", after = 3 }

  selector {
    match_labels: { role = "web" }
  }

  shell "x" {
    check = "test -f ${local.app_dir"
    apply = <<-EOT
      echo ${USER:-nobody}
    EOT
    check = "again"
  }

  systemd "app" {
    unit "app.service"
    enabled = true;
    restart = a.0.1
    größe   = 1 § 2
  }
