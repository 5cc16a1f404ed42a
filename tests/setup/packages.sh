# Installs Debian packages without starting what they bring along. Sourced by tests/run, and by packages_test.sh with another SYSTEM.

# What stands before every path of the system: nothing.
SYSTEM="${SYSTEM:-}"

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# Debian asks this program before a package starts or restarts a service, with systemd and without; 101 forbids it. A policy that was there
# comes back afterwards. One that an earlier run could not put back, because it was killed, is still where that run had kept it.
forbid_services() {
  local policy="$SYSTEM/usr/sbin/policy-rc.d"
  if [ -e "$policy" ] && ! grep -q 'by tests/run' "$policy"; then
    as_root mv "$policy" "$policy.kept-by-tests"
  fi
  printf '#!/bin/sh\n# For a moment, by tests/run: no package that it installs starts a service.\nexit 101\n' \
    | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
}

allow_services() {
  local policy="$SYSTEM/usr/sbin/policy-rc.d"
  if [ -e "$policy.kept-by-tests" ]; then
    as_root mv "$policy.kept-by-tests" "$policy"
  else
    as_root rm -f "$policy"
  fi
}

installed_packages() { dpkg-query --show --showformat '${Package} ${db:Status-Abbrev}\n' | awk '$2 == "ii" { print $1 }' | sort -u; }

# So that nothing starts at the next boot either. A mask is a unit that is a link to /dev/null, as `systemctl mask` makes it; that can be
# made where systemd does not run. `systemctl unmask` takes it back.
mask_services_of() {
  local file name mask
  while read -r file; do
    name="$(basename "$file")"
    case "$file" in
      */systemd/system/*.service | */systemd/system/*.socket | */systemd/system/*.timer | */systemd/system/*.path)
        mask="$SYSTEM/etc/systemd/system/$name"
        # What an administrator has written, or a link that is there already, stays.
        if [ ! -e "$mask" ] && [ ! -L "$mask" ]; then
          as_root mkdir -p "$(dirname "$mask")"
          as_root ln -s /dev/null "$mask"
          echo "masked $name"
        fi ;;
      /etc/init.d/*)
        as_root update-rc.d "$name" disable
        echo "disabled $name" ;;
    esac
  done < <(dpkg-query --listfiles "$@")
  if [ -d "$SYSTEM/run/systemd/system" ]; then as_root systemctl daemon-reload; fi
}

# Installs these packages, and what they need. Packages that were there before keep their services as they are.
install_without_services() (
  set -euo pipefail
  local before new
  before="$(installed_packages)"
  trap allow_services EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  forbid_services
  as_root apt-get update -o DPkg::Lock::Timeout=300
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
  # systemd's own services are no daemons that it would start beside others: a machine that runs it one day needs them.
  mapfile -t new < <(comm -13 <(echo "$before") <(installed_packages) | grep -vx systemd)
  if [ ${#new[@]} -gt 0 ]; then mask_services_of "${new[@]}"; fi
)
