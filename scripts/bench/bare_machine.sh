#!/usr/bin/env bash
# How long README's first command takes where nothing is installed: the last commit's demo in a new Debian 12, with a
# stopwatch. Needs root, debootstrap and 12 GB; mirrors and certificates are those that this machine's apt and pip know.
#
#   scripts/bench/bare_machine.sh [FOLDER]    FOLDER: where the new system is made (default: a temporary one), removed at the end
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { say "needs root and debootstrap (apt-get install debootstrap)"; exit 2; }
system="$(mktemp -d "${1:-${TMPDIR:-/tmp}}/zero_bare_XXXXXX")"
trap 'rm -rf --one-file-system "$system"' EXIT

say "making a Debian 12 in $system"
debootstrap --variant=minbase --include=ca-certificates,git bookworm "$system" >/dev/null
for known in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do cp -L "$known" "$system$known"; done
cp -r /etc/apt/apt.conf.d "$system/etc/apt/"
git clone -q "$zero_root" "$system/root/zero"

cat >"$system/root/stopwatch.sh" <<'END'
cd ~/zero
begin=$SECONDS
scripts/setup.sh >~/log 2>&1 && installed=$SECONDS
ZERO_TARGET=zero_launch scripts/build.sh >>~/log 2>&1 && compiled=$SECONDS
scripts/demo.sh >>~/log 2>&1 || { tail -30 ~/log; exit 1; }
tail -1 ~/log
echo "installing $((installed - begin)) s, compiling $((compiled - installed)) s, training $((SECONDS - compiled)) s"
END
say "running its demo"
# In namespaces of its own what is mounted goes with the last process.
exec 3< <(env | grep -E '^(https?_proxy|PIP_INDEX_URL)=' || true)
mapfile -t -u 3 kept
unshare -m -p -f --kill-child bash -c '
  mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys"
  exec chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@" \
    bash /root/stopwatch.sh' "$system" "${kept[@]}"
