#!/usr/bin/env bash
# What a host of the bed is made of. Run by `cargo bed image`, as root:
#
#   recipe.sh ROOT CACHE SUITE MIRROR SOURCES
#
# ROOT is an empty folder (in memory: dpkg's fsyncs cost nothing), CACHE keeps downloaded packages,
# SOURCES are apt's own lines. The image is named by the hash of this file: change it, and the next
# bed has another image.
set -euo pipefail
root=$1 cache=$2 suite=$3 mirror=$4 sources=$5
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

mkdir -p "$cache/archives"
debootstrap --variant=minbase --cache-dir="$cache/archives" \
    --include=systemd,systemd-sysv,dbus,ca-certificates "$suite" "$root" "$mirror"

cat >"$root/etc/apt/apt.conf.d/99bed" <<'END'
APT::Install-Recommends "false";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
END
cat >"$root/etc/dpkg/dpkg.cfg.d/bed" <<'END'
path-exclude=/usr/share/man/*
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/locale/*
force-unsafe-io
END
printf '%s\n' "$sources" >"$root/etc/apt/sources.list"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing starts while it is installed
chmod +x "$root/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount --bind "$cache/archives" "$root/var/cache/apt/archives"
trap 'umount "$root/var/cache/apt/archives"' EXIT

packages=(
    # containers, names and routes
    podman runc crun netavark aardvark-dns conmon catatonit buildah skopeo uidmap docker-registry
    iptables nftables iproute2 iputils-ping wireguard-tools wireguard-go
    # what stories and the people who look into a host use
    curl jq procps psmisc git openssh-server openssh-client redis-server socat faketime
    busybox-static bind9-dnsutils sudo
)
chroot "$root" apt-get update -q
chroot "$root" apt-get install -y -q "${packages[@]}"
umount "$root/var/cache/apt/archives"
trap - EXIT

# --- A host, and not a copy of the machine ------------------------------------------------------

rm -rf "$root/usr/sbin/policy-rc.d" "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin \
    "$root"/usr/share/{doc,man,locale}/* "$root"/var/log/*.log "$root/var/log/apt"
: >"$root/etc/resolv.conf" # no names but those in /etc/hosts
: >"$root/etc/machine-id" # each host gets its own, at its first boot
rm -f "$root/var/lib/dbus/machine-id" "$root"/etc/ssh/ssh_host_*

# What no story waits for; those that need one of them start it. Kept: dbus, podman.socket.
chroot "$root" systemctl -q disable docker-registry redis-server ssh podman.service \
    podman-restart.service podman-auto-update.service podman-auto-update.timer e2scrub_reap e2scrub_all.timer \
    systemd-pstore remote-fs.target apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer fstrim.timer getty@tty1 2>/dev/null || true
# A privileged container shares the machine's devices, sysctls and audit: hands off.
chroot "$root" systemctl -q mask systemd-udevd.service systemd-udev-trigger.service \
    systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-modules-load.service \
    systemd-sysctl.service systemd-binfmt.service systemd-journald-audit.socket \
    systemd-remount-fs.service sys-kernel-debug.mount sys-kernel-tracing.mount \
    sys-kernel-config.mount dev-hugepages.mount dev-mqueue.mount console-getty.service \
    getty.target systemd-logind.service systemd-networkd.service systemd-timesyncd.service

mkdir -p "$root"/etc/systemd/{journald,system}.conf.d "$root/etc/containers/containers.conf.d" \
    "$root/opt/fluke" "$root/etc/wireguard"
printf '[Journal]\nReadKMsg=no\nAudit=no\nStorage=persistent\nRateLimitIntervalSec=0\n' \
    >"$root/etc/systemd/journald.conf.d/bed.conf"
# A unit that does not stop must not hold a story up for a minute and a half.
printf '[Manager]\nDefaultTimeoutStopSec=10s\n' >"$root/etc/systemd/system.conf.d/bed.conf"
printf '[engine]\nruntime = "runc"\n' >"$root/etc/containers/containers.conf.d/bed.conf"
printf 'PermitRootLogin prohibit-password\nUseDNS no\nPasswordAuthentication no\n' \
    >"$root/etc/ssh/sshd_config.d/bed.conf"
