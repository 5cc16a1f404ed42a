# What Python and node import, from their own registries. Sourced by tests/run, tests/faults/run and tests/bench/dashboard.

# An environment of its own for what `wanted` lists, made anew when something else is to be in it. `module` is imported to see that it is whole.
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

# What the scripts in tests/browser import, as their lock file has it.
install_scripts() {
  [ tests/browser/node_modules/.package-lock.json -nt tests/browser/package-lock.json ] || npm ci --prefix tests/browser
}
