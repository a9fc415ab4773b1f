#!/usr/bin/busybox sh
# The first process of the virtual machine: runs the stories of the mesh, says how they ended, and
# switches it off.
/usr/bin/busybox --install -s /usr/bin 2>/dev/null
export PATH=/usr/bin CI=true HOME=/ RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
ip link set lo up
# As udev does on hosts: wireguard-go opens it before anybody has asked for its module.
modprobe tun
echo "kernel $(uname -r), up after $(cut -d ' ' -f 1 /proc/uptime) s"

# tell KIND FILTER…: stories in which every host must have an interface of this kind.
tell() {
    FLUKE_TEST_WIREGUARD=$1
    export FLUKE_TEST_WIREGUARD
    shift
    /stories --test-threads 1 "$@" || failed=1
}

failed=0
module=$(find /lib/modules/ -name wireguard.ko)
mv "$module" /
tell tun --exact services::mesh::tests::tunnels::two_hosts_reach_each_other
# The next interface has the kernel load it.
mv /wireguard.ko "$module"
tell wireguard services::mesh::tests
grep -q '^wireguard ' /proc/modules || { echo 'WireGuard was not loaded' && failed=1; }
echo "up for $(cut -d ' ' -f 1 /proc/uptime) s"
[ "$failed" = 1 ] || echo 'every story holds'
reboot -f
