#!/usr/bin/env bash
# Tests packages.sh on a system in a directory, with fakes of apt-get and dpkg-query. Like real Debian
# packages, the fake package asks the policy whether it may start its service, and starts it if allowed.
set -euo pipefail
cd "$(dirname "$0")"

SYSTEM="$(mktemp -d)"
trap 'rm -rf "$SYSTEM"' EXIT
export SYSTEM PATH="$SYSTEM/bin:$PATH"
policy="$SYSTEM/usr/sbin/policy-rc.d"

fake() {
  printf '#!/usr/bin/env bash\nset -euo pipefail\n%s\n' "$2" >"$SYSTEM/bin/$1"
  chmod 755 "$SYSTEM/bin/$1"
}

# Creates a system with one existing daemon.
fresh_system() {
  rm -rf "${SYSTEM:?}"/*
  mkdir -p "$SYSTEM/bin" "$SYSTEM/usr/sbin" "$SYSTEM/etc/systemd/system"
  printf 'sshd\n' >"$SYSTEM/packages"
  : >"$SYSTEM/calls"
  fake id 'echo 0'
  fake systemctl 'echo "systemctl $*" >>"$SYSTEM/calls"'
  fake update-rc.d 'echo "update-rc.d $*" >>"$SYSTEM/calls"'
  fake apt-get '
    [ "$1" = install ] || exit 0
    policy="$SYSTEM/usr/sbin/policy-rc.d"
    if [ ! -x "$policy" ] || "$policy" redisd start; then echo redisd >>"$SYSTEM/started"; fi
    [ ! -e "$SYSTEM/broken" ] || exit 100
    printf "redisd\nsshd\n" >"$SYSTEM/packages"'
  fake dpkg-query '
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
assert_none_started() { [ ! -e "$SYSTEM/started" ] || fail "started: $(cat "$SYSTEM/started")"; }

case="the fake package starts its service without a policy"
fresh_system
apt-get install redisd
[ -e "$SYSTEM/started" ] || fail "the service was not started, so the other cases prove nothing"

case="no service starts, and all new ones are disabled"
fresh_system
install
assert_none_started
has calls "systemctl disable redisd.service redisd.socket"
has calls "update-rc.d redisd disable"
[ ! -e "$policy" ] || fail "the policy was not removed"

case="no service is masked"
! grep -q mask "$SYSTEM/calls" || fail "$(cat "$SYSTEM/calls")"
[ -z "$(ls "$SYSTEM/etc/systemd/system")" ] || fail "$(ls "$SYSTEM/etc/systemd/system")"

case="existing packages keep their services"
! grep -q sshd "$SYSTEM/calls" || fail "$(cat "$SYSTEM/calls")"

case="systemd keeps its own services"
fresh_system
fake apt-get '[ "$1" = install ] || exit 0; printf "redisd\nsshd\nsystemd\n" >"$SYSTEM/packages"'
install
has calls "systemctl disable redisd.service redisd.socket"
! grep -q systemd. "$SYSTEM/calls" || fail "$(cat "$SYSTEM/calls")"

case="an existing policy is set aside and restored"
fresh_system
printf '#!/bin/sh\nexit 0\n' >"$policy"
chmod 755 "$policy"
install
assert_none_started
has usr/sbin/policy-rc.d "exit 0"
[ ! -e "$policy.kept-by-tests" ] || fail "the backup was not removed"

case="the policy is restored when the installation fails"
fresh_system
printf '#!/bin/sh\nexit 0\n' >"$policy"
chmod 755 "$policy"
touch "$SYSTEM/broken"
if install; then fail "the failure was not reported"; fi
assert_none_started
has usr/sbin/policy-rc.d "exit 0"

case="the policy is restored by the run after one that was killed"
fresh_system
printf '#!/bin/sh\nexit 0\n' >"$policy"
chmod 755 "$policy"
bash -c '. ./packages.sh; forbid_services'
install
assert_none_started
has usr/sbin/policy-rc.d "exit 0"

echo "packages: all passed"
