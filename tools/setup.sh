#!/usr/bin/env bash
# Installs what Tessera needs: Debian packages (only if some are missing), and the ONNX library, built once from its PyPI
# source package into ~/.cache/tessera. Says what it does. Root is needed for apt only.
#
#   TESSERA_ONNX_SDIST=/path/onnx-1.23.2.tar.gz   use this file instead of downloading
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
packages=(g++ cmake ninja-build ccache clang-format libprotobuf-dev protobuf-compiler libdnnl-dev nlohmann-json3-dev libcli11-dev
  libssl-dev libmimalloc-dev libgtest-dev llvm-14-tools openmpi-bin libopenmpi-dev python3 python3-venv python3-pip)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
done
if ((${#missing[@]} > 0)); then
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  if [[ $(id -u) -eq 0 ]]; then
    run=()
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    run=(sudo)
  else
    echo "these packages are missing, and only root can install them. Run:" >&2
    echo "  sudo $line" >&2
    exit 2
  fi
  echo "== installing Debian packages: ${missing[*]}"
  "${run[@]}" apt-get update -q
  DEBIAN_FRONTEND=noninteractive "${run[@]}" $line
fi

version=1.23.2
root=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/onnx-$version
if [[ -f $root/lib/libtessera_onnx.a ]]; then
  echo "== ONNX $version is there: $root"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sdist=${TESSERA_ONNX_SDIST:-}
if [[ -z $sdist ]]; then
  echo "== downloading the ONNX $version source package (pip, in a scratch virtual environment)"
  env -u PYTHONPATH -u VIRTUAL_ENV -u CONDA_PREFIX /usr/bin/python3 -m venv "$work/venv"
  "$work/venv/bin/pip" --quiet --disable-pip-version-check download --no-deps --no-binary onnx --require-hashes \
    -r "$here/third_party/onnx.txt" -d "$work"
  sdist=$(ls "$work"/onnx-*.tar.gz)
fi
echo "== building ONNX $version once, into $root (about two minutes)"
tar xf "$sdist" -C "$work"
cmake -S "$here/third_party/onnx-build" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DONNX_SRC="$work/onnx-$version" -DCMAKE_INSTALL_PREFIX="$root" >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
ninja -C "$work/build" install >"$work/log" 2>&1 || { tail -40 "$work/log" >&2; exit 1; }
