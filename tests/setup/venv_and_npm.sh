# Installs Python and node packages from their registries. Sourced by tests/run, tests/faults/run and
# tests/bench/dashboard.

# Creates a virtual environment with the packages listed in `wanted`, and creates it again when the list
# changes. `module` is imported to check that the environment is complete.
install_venv() {
  local venv="$1" wanted="$2" module="$3"
  if cmp --silent "$wanted" "$venv/installed.txt" && "$venv/bin/python" -c "import $module" 2>/dev/null; then
    return
  fi
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --disable-pip-version-check --only-binary :all: -r "$wanted"
  cp "$wanted" "$venv/installed.txt"
}

# Installs the packages that the scripts in tests/browser import, at the versions in the lock file.
install_scripts() {
  [ tests/browser/node_modules/.package-lock.json -nt tests/browser/package-lock.json ] || npm ci --prefix tests/browser
}
