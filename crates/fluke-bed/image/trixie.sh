
# --- What is other in Debian 13 -----------------------------------------------------------------
# Goes on where recipe.sh ends, and counts for the hash of this release's image alone.

# Podman's package no longer enables its socket. Its proxy for DHCP, which it does, nobody needs here.
chroot "$root" systemctl -q enable podman.socket
chroot "$root" systemctl -q disable netavark-dhcp-proxy.socket
