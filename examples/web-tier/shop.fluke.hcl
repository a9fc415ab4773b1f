task "shop" {
  description = "Release ${local.release} of the shop"

  selector {
    match_labels = { role = "web", env = "production" }
  }

  shell "release" {
    run_as      = "deploy"
    working_dir = local.app_dir
    check       = "test \"$(cat current/VERSION)\" = '${local.release}'"
    command     = <<-SH
      set -eu
      mkdir -p 'releases/${local.release}'
      curl --fail --silent --show-error --location \
        --header "Authorization: Bearer $ARTIFACT_TOKEN" \
        'https://artifacts.example.com/shop/${local.release}.tar.gz' |
        tar --extract --gzip --directory 'releases/${local.release}'
      ln -sfn 'releases/${local.release}' current
    SH

    # Read from the agent's environment on the host; masked in what is stored and shown.
    env = {
      ARTIFACT_TOKEN = "$SHOP_ARTIFACT_TOKEN"
    }
  }

  # A database that was migrated by hand is somebody's decision to look at, not to repeat.
  shell "migrate" {
    run_as      = "deploy"
    working_dir = "${local.app_dir}/current"
    check       = "./bin/migrate status --exit-code"
    command     = "./bin/migrate up"
    timeout     = "30m"
  }
}

task "certificate" {
  description = "The certificate has three weeks left. Renewing costs quota, so people decide"

  drift {
    policy = "alert_only"
  }

  selector {
    match_labels = { role = "web", env = "production" }
  }

  shell "fresh" {
    check   = "openssl x509 -checkend ${21 * 24 * 3600} -noout -in /etc/ssl/shop/fullchain.pem"
    command = "/usr/local/sbin/renew-certificate ${local.domain}"
    timeout = "10m"
  }
}
