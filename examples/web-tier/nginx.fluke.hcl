task "nginx" {
  description = "nginx, its site, and the site in force"

  drift {
    policy = "remediate_and_alert"
  }

  selector {
    match_labels = { role = "web" }
  }

  shell "package" {
    check   = "dpkg-query --show --showformat '$${db:Status-Status}' nginx | grep -qx installed"
    command = "apt-get update -q && apt-get install -q -y --no-install-recommends nginx"
    timeout = "10m"

    env = {
      DEBIAN_FRONTEND = "noninteractive"
    }
  }

  shell "site" {
    check   = "echo '${sha256(local.nginx_conf)}  /etc/nginx/conf.d/shop.conf' | sha256sum --check --status"
    command = <<-SH
      set -eu
      cp -a /etc/nginx/conf.d/shop.conf /etc/nginx/shop.conf.before 2>/dev/null || true
      echo '${base64encode(local.nginx_conf)}' | base64 -d > /etc/nginx/conf.d/shop.conf
      if ! nginx -t; then
        mv /etc/nginx/shop.conf.before /etc/nginx/conf.d/shop.conf
        exit 1
      fi
      systemctl reload nginx
    SH
  }

  shell "answers" {
    check   = "curl --fail --silent --output /dev/null --max-time 5 --header 'Host: ${local.domain}' http://127.0.0.1/healthz"
    command = "systemctl restart nginx && sleep 1"
  }
}

task "motd" {
  description = "Tells people who log in where to change things"

  selector {
    match_labels = { role = "web" }
  }

  shell "motd" {
    check      = "echo '${sha256(file("templates/motd"))}  /etc/motd' | sha256sum --check --status"
    command    = "echo '${base64encode(file("templates/motd"))}' | base64 -d > /etc/motd"
    on_failure = "continue"
  }
}
