#!/usr/bin/env bash
# Put the program, the tests for GPUs and the libraries that a machine with a GPU may lack (MPI, TBB, HDF5 ...) into one
# folder, so that they run there without being built, against the PyTorch that is installed there:
#
#   scripts/gpu_bundle.sh FOLDER       here: builds, then fills FOLDER, which must not exist; about 50 MiB
#   FOLDER/run zero_launch train ...   there: finds the PyTorch of python3, or the one in ZERO_TORCH
#   FOLDER/run mpirun -n 2 zero_launch train ...
#
# scripts/gpu_check.sh --bundle FOLDER measures a GPU with it. LibTorch and NVIDIA's libraries stay behind: PyTorch's wheel
# of the same release brings them, that of CUDA 13.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || { echo "usage: scripts/gpu_bundle.sh FOLDER" >&2; exit 2; }
folder="$1"
[ ! -e "$folder" ] || { say "$folder exists: name a new folder, or remove it"; exit 2; }

ZERO_TARGET="zero_launch zero_cuda gpu_tests gpu_kernel_tests" "$zero_root/scripts/build.sh" -DZERO_CUDA=ON >&2
mkdir -p "$folder/bin" "$folder/lib"
cp "$zero_build/bin/zero_launch" "$folder/bin/"
cp "$zero_build"/lib/libzero_*.so "$folder/lib/"
cp "$zero_build"/tests/gpu_tests "$zero_build"/tests/gpu_kernel_tests "$folder/bin/"

# mpirun with its plugins, in folders like those of its own installation, which OPAL_PREFIX moves.
plugins="$(ompi_info --path pkglibdir --parsable | cut -d: -f3)"
mpi="$folder/mpi"
mkdir -p "$mpi/bin" "$mpi/share" "$mpi/$(dirname "${plugins#/usr/}")"
for tool in mpirun orted; do cp "$(realpath "$(command -v $tool)")" "$mpi/bin/$tool"; done
cp -r /usr/share/openmpi "$mpi/share/openmpi"
mkdir -p "$mpi/${plugins#/usr/}"
cp "$plugins"/*.so "$mpi/${plugins#/usr/}/"

# Whatever these need, but for what comes with the C library, the compiler and PyTorch.
torch="$(zero_torch)"
find "$folder" -type f \( -name '*.so*' -o -perm -u+x \) -print0 | xargs -0 ldd 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  { grep -v -e "^$(realpath "$torch/..")" -e /torch/lib/ -e /nvidia/ -e "$(realpath "$zero_build")" || true; } |
  { grep -v -E '/(libc|libm|libpthread|libdl|librt|libutil|libresolv|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' || true; } |
  while read -r library; do cp -L "$library" "$folder/lib/"; done
find "$folder" -type f \( -name '*.so*' -o -perm -u+x \) -exec strip --strip-unneeded {} + 2>/dev/null || true

cat > "$folder/run" <<'RUN'
#!/usr/bin/env bash
# run PROGRAM ...: a program of this bundle, with its libraries and the PyTorch of this machine.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: run PROGRAM [WORD]..." >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
find_torch='import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])'
torch="${ZERO_TORCH:-$(python3 -c "$find_torch" 2>/dev/null || true)}"  # found, not imported: that takes seconds
if [ ! -e "$torch/lib/libtorch_cuda.so" ]; then
  echo "run: no PyTorch for CUDA in '$torch' (ZERO_TORCH, else python3's); install it, or set ZERO_TORCH" >&2
  exit 3
fi
libraries="$here/lib:$torch/lib"
for folder in "$torch"/../nvidia/*/lib; do libraries="$libraries:$folder"; done
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PATH="$here/bin:$here/mpi/bin:$PATH"
export OPAL_PREFIX="$here/mpi" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm_rsh_agent=
# Parts of another release of PMIx that this machine may have are none of the bundle.
export PMIX_MCA_mca_base_component_show_load_errors=0 PMIX_MCA_pcompress_base_silence_warning=1
exec "$@"
RUN
chmod +x "$folder/run"
say "$folder: $(du -sh "$folder" | cut -f1)"
