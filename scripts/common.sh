# Sourced by the scripts beside it: where things are, and how they speak.
zero_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
torch_version=2.11.0
cuda_version=13.0.88  # of the compiler, for the runtime that this torch brings
tokenizers_version=0.23.3
zero_venv="${ZERO_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/zero/torch-$torch_version}"
zero_build="${ZERO_BUILD:-$zero_root/build}"

# Asked for help, a script prints what stands at its head, and does nothing.
case " $* " in
  *" --help "* | *" -h "*)
    if [ -z "${zero_own_help:-}" ]; then
      sed -n '2,/^set/s/^# \?//p' "$0"
      exit 0
    fi ;;
esac

say() { echo "$(basename "$0"): $*" >&2; }

# mpirun refuses root, and more ranks than cores, unless told otherwise; containers forbid its shared-memory
# shortcut. Each is set only where it applies.
set_mpi_environment() {
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_rmaps_base_oversubscribe=1
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
}

# The LibTorch folder: the caller's, else the one in the environment that setup.sh makes (so call it after setup.sh).
zero_torch() { echo "${ZERO_TORCH:-$(echo "$zero_venv"/lib/python3*/site-packages/torch)}"; }
