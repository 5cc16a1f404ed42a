# Installs Debian packages without starting their services. Sourced by tests/run, and by packages_test.sh with
# another SYSTEM.

# Prefix of all system paths. Empty except in tests.
SYSTEM="${SYSTEM:-}"

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# invoke-rc.d and deb-systemd-invoke call this program before a package starts or restarts a service; exit
# code 101 forbids it. An existing policy is restored afterwards. If an earlier run was killed before it
# restored a policy, that policy is still in its backup.
forbid_services() {
  local policy="$SYSTEM/usr/sbin/policy-rc.d"
  if [ -e "$policy" ] && ! grep -q 'by tests/run' "$policy"; then
    as_root mv "$policy" "$policy.kept-by-tests"
  fi
  printf '#!/bin/sh\n# Temporary, by tests/run: packages that it installs must not start services.\nexit 101\n' \
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

# Disables the services of packages, so that they do not start at the next boot either. Unlike a masked service, a
# disabled one can be started as usual.
disable_services_of() {
  local file name units=()
  while read -r file; do
    name="$(basename "$file")"
    case "$file" in
      */systemd/system/*.service | */systemd/system/*.socket | */systemd/system/*.timer | */systemd/system/*.path)
        units+=("$name") ;;
      /etc/init.d/*)
        as_root update-rc.d "$name" disable
        echo "disabled $name" ;;
    esac
  done < <(dpkg-query --listfiles "$@")
  # Works without a running systemd, too: it removes links.
  if [ ${#units[@]} -gt 0 ] && command -v systemctl >/dev/null; then
    as_root systemctl disable "${units[@]}"
    echo "disabled ${units[*]}"
  fi
}

# Installs packages and their dependencies. Packages that are already installed keep their services as they
# are.
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
  # Exclude systemd: its services are not extra daemons, and a machine that runs systemd later needs them.
  mapfile -t new < <(comm -13 <(echo "$before") <(installed_packages) | grep -vx systemd)
  if [ ${#new[@]} -gt 0 ]; then disable_services_of "${new[@]}"; fi
)
