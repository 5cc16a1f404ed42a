#!/usr/bin/env bash
# Tests packages.sh on a system in a folder, with fakes of apt-get and dpkg-query. Like real Debian packages,
# the fake package asks the policy whether it may start its service, and starts it if it may.
set -euo pipefail
cd "$(dirname "$0")"

SYSTEM="$(mktemp -d)"
trap 'rm -rf "$SYSTEM"' EXIT
export SYSTEM PATH="$SYSTEM/bin:$PATH"
policy="$SYSTEM/usr/sbin/policy-rc.d"

pretend() {
  printf '#!/usr/bin/env bash\nset -euo pipefail\n%s\n' "$2" >"$SYSTEM/bin/$1"
  chmod 755 "$SYSTEM/bin/$1"
}

# Creates a system with one existing daemon.
fresh_system() {
  rm -rf "${SYSTEM:?}"/*
  mkdir -p "$SYSTEM/bin" "$SYSTEM/usr/sbin" "$SYSTEM/etc/systemd/system"
  printf 'sshd\n' >"$SYSTEM/packages"
  : >"$SYSTEM/calls"
  pretend id 'echo 0'
  pretend systemctl 'echo "systemctl $*" >>"$SYSTEM/calls"'
  pretend update-rc.d 'echo "update-rc.d $*" >>"$SYSTEM/calls"'
  pretend apt-get '
    [ "$1" = install ] || exit 0
    policy="$SYSTEM/usr/sbin/policy-rc.d"
    if [ ! -x "$policy" ] || "$policy" redisd start; then echo redisd >>"$SYSTEM/started"; fi
    [ ! -e "$SYSTEM/broken" ] || exit 100
    printf "redisd\nsshd\n" >"$SYSTEM/packages"'
  pretend dpkg-query '
    case "$1" in
      --show) sed "s/$/ ii/" "$SYSTEM/packages" ;;
      --listfiles) for package in "${@:2}"; do
        printf "/lib/systemd/system\n/lib/systemd/system/$package.service\n/lib/systemd/system/$package.socket\n"
        printf "/etc/init.d/$package\n/usr/bin/$package\n"
      done ;;
    esac'
}

install() { bash -c 'set -euo pipefail; . ./packages.sh; install_without_services redisd' >/dev/null; }
fail() { echo "FAILED: $case: $*" >&2; exit 1; }
has() { grep -qxF "$2" "$SYSTEM/$1" || fail "no \"$2\" among: $(cat "$SYSTEM/$1")"; }
is_masked() { [ "$(readlink "$SYSTEM/etc/systemd/system/$1")" = /dev/null ]; }
none_started() { [ ! -e "$SYSTEM/started" ] || fail "started: $(cat "$SYSTEM/started")"; }

case="the pretended package starts when nothing forbids it"
fresh_system
apt-get install redisd
[ -e "$SYSTEM/started" ] || fail "it did not, so this test shows nothing"

case="no service starts, and all new ones are masked"
fresh_system
install
none_started
is_masked redisd.service || fail "not masked"
is_masked redisd.socket || fail "its socket is not masked"
has calls "update-rc.d redisd disable"
[ ! -e "$policy" ] || fail "the policy stays"
! grep -q systemctl "$SYSTEM/calls" || fail "systemd does not run here"

case="with systemd running"
fresh_system
mkdir -p "$SYSTEM/run/systemd/system"
install
none_started
has calls "systemctl daemon-reload"

case="what was there keeps its services"
fresh_system
install
[ ! -L "$SYSTEM/etc/systemd/system/sshd.service" ] || fail "masked"
! grep -q sshd "$SYSTEM/calls" || fail "$(cat "$SYSTEM/calls")"

case="systemd keeps its own"
fresh_system
pretend apt-get '[ "$1" = install ] || exit 0; printf "redisd\nsshd\nsystemd\n" >"$SYSTEM/packages"'
install
is_masked redisd.service || fail "not masked"
[ ! -L "$SYSTEM/etc/systemd/system/systemd.service" ] || fail "masked"

case="an administrator's unit stays"
fresh_system
echo "[Service]" >"$SYSTEM/etc/systemd/system/redisd.service"
install
has etc/systemd/system/redisd.service "[Service]"

case="a policy that allows everything is set aside and comes back"
fresh_system
printf '#!/bin/sh\nexit 0\n' >"$policy"
chmod 755 "$policy"
install
none_started
has usr/sbin/policy-rc.d "exit 0"
[ ! -e "$policy.kept-by-tests" ] || fail "kept twice"

case="it comes back when the installation fails"
fresh_system
printf '#!/bin/sh\nexit 0\n' >"$policy"
chmod 755 "$policy"
touch "$SYSTEM/broken"
if install; then fail "the failure is not told"; fi
none_started
has usr/sbin/policy-rc.d "exit 0"

case="it comes back after a run that was killed in between"
fresh_system
printf '#!/bin/sh\nexit 0\n' >"$policy"
chmod 755 "$policy"
bash -c '. ./packages.sh; forbid_services'
install
none_started
has usr/sbin/policy-rc.d "exit 0"

echo "packages: all passed"
