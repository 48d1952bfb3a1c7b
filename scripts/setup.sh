#!/usr/bin/env bash
# Install what this project needs and the machine lacks. Safe to repeat: a second call takes under 2 s.
#
#   Debian packages   need root (or sudo); without it the missing ones are named and the rest goes on
#   LibTorch          the pinned torch wheel in a virtual environment, 5 GB, shared by all clones:
#                     $ZERO_VENV, by default ~/.cache/zero/torch-<version>
#   CUDA's compiler   wheels beside that torch, 100 MB, where there is no CUDA toolkit 13; without it all is built but
#                     the part for GPUs
#
# ZERO_TORCH=DIR (a LibTorch folder with share/cmake/Torch) skips the environment, and the compiler in it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# = 0 ] || { say "takes no arguments; --help tells more"; exit 2; }

packages=(
  g++ cmake ninja-build ccache pkg-config git            # build
  openmpi-bin libopenmpi-dev                             # ranks
  libtbb-dev libhwloc-dev                                # threads, topology
  libhdf5-dev hdf5-tools libxxhash-dev zlib1g-dev        # checkpoints
  nlohmann-json3-dev libfmt-dev libtomlplusplus-dev      # launcher
  libjpeg-dev libpng-dev                                 # images
  libedit2                                               # lines that are typed
  libgtest-dev libgmock-dev                              # tests
  python3 python3-venv python3-h5py                      # torch wheel; reading checkpoints
)

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
      say "these Debian packages are missing and installing them needs root; going on without:"
      say "  sudo apt-get install ${missing[*]}"
      return 0
    fi
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_torch() {
  [ -z "${ZERO_TORCH:-}" ] || return 0
  [ ! -e "$zero_venv/.complete" ] || return 0
  say "installing torch $torch_version into $zero_venv (about 5 GB, one to three minutes)"
  mkdir -p "$(dirname "$zero_venv")"
  exec 9>"$zero_venv.lock"
  flock 9                                                # two clones may call this at once
  if [ ! -e "$zero_venv/.complete" ]; then
    if [ -n "${ZERO_VENV:-}" ] && [ ! -e "$zero_venv/.begun_by_zero" ] && [ -n "$(ls -A "$zero_venv" 2>/dev/null)" ]; then
      say "ZERO_VENV=$zero_venv holds what this script did not make; name a new folder"
      exit 2
    fi
    rm -rf "$zero_venv"
    mkdir -p "$zero_venv"
    touch "$zero_venv/.begun_by_zero"
    python3 -m venv "$zero_venv"
    "$zero_venv/bin/pip" install --quiet --disable-pip-version-check "torch==$torch_version" "numpy<3"
    touch "$zero_venv/.complete"
  fi
  exec 9>&-
}

# Where the network is, without a long wait for it; others may do the same at once.
pip_install() {
  (
    exec 9>"$zero_venv.lock"
    flock 9
    "$zero_venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 15 "$@"
  ) 2>/dev/null
}

# For text that goes to a model of Hugging Face, and comes from it.
install_tokenizers() {
  [ -z "${ZERO_TORCH:-}" ] || return 0
  [ ! -d "$(echo "$zero_venv"/lib/python3*/site-packages)/tokenizers" ] || return 0
  pip_install "tokenizers==$tokenizers_version" ||
    say "PyPI's tokenizers cannot be had: going on without (models of Hugging Face speak in numbers)"
}

# Whether a CUDA toolkit has what cmake/cuda.cmake looks for.
has_toolkit() {
  local nvcc
  for nvcc in "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" /usr/local/cuda-13.0/bin/nvcc \
              /usr/local/cuda/bin/nvcc "$(command -v nvcc || true)"; do
    [ ! -x "$nvcc" ] || [[ $("$nvcc" --version) != *"release 13.0,"* ]] || return 0
  done
  return 1
}

install_cuda_compiler() {
  [ -z "${ZERO_TORCH:-}" ] || return 0
  local nvcc
  nvcc=$(echo "$zero_venv"/lib/python3*/site-packages/nvidia/cu13/bin)/nvcc
  [ ! -x "$nvcc" ] || return 0
  has_toolkit && return 0
  say "installing CUDA's compiler $cuda_version into $zero_venv (100 MB)"
  pip_install --no-deps "nvidia-cuda-nvcc==$cuda_version" "nvidia-nvvm==$cuda_version" "nvidia-cuda-crt==$cuda_version" ||
    say "CUDA's compiler cannot be had: going on without the part for GPUs (libzero_cuda.so)"
}

install_packages
install_torch
install_tokenizers
install_cuda_compiler
say "ready"
