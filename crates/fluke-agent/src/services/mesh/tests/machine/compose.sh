#!/bin/sh
# compose.sh PROGRAM KERNEL INTO: an archive that a kernel takes for its first file system, with a
# test program, what its stories run, and the modules that they need.
set -eu
program=$1 kernel=$2 into=$3
here=$(dirname "$0")
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# As Debian has it: all of it is in /usr.
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/dev" "$root/proc" "$root/sys" \
    "$root/tmp" "$root/run" "$root/var" "$root/etc"
ln -s bin "$root/usr/sbin"
ln -s usr/bin "$root/bin"
ln -s usr/bin "$root/sbin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
ln -s ../run "$root/var/run"

# put FILE AS: with the libraries that it needs, each where it is here.
put() {
    mkdir -p "$root$(dirname "$2")"
    cp -L "$1" "$root$2"
    { ldd "$1" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
}

put "$program" /stories
put "$(command -v busybox)" /usr/bin/busybox
# busybox has some of these, too, but other ones; its shell would run no others.
for name in sh ip ip6tables iptables iptables-save nft pgrep ping unshare wg wireguard-go; do
    found=$(command -v "$name") || { echo "there is no $name" >&2 && exit 1; }
    put "$found" "/usr/bin/$name"
done
for found in /usr/lib/podman/netavark /usr/libexec/podman/netavark; do
    [ ! -e "$found" ] || put "$found" "$found"
done
# Extensions of iptables, which nothing is linked with.
for folder in /usr/lib/*/xtables; do
    mkdir -p "$root$folder"
    cp "$folder"/lib*.so "$root$folder"
done

mkdir "$root/usr/lib/modules"
cp -R "$kernel"/lib/modules/* "$root/usr/lib/modules"
cp "$here/init.sh" "$root/init"
chmod 755 "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$into"
