# Sourced: $folder is a machine with a GPU, which is the stand-in, that holds the program ($program), its library
# ($library) with the part for MPI beside it, the stand-in's ($standin) and the driver ($driver).
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"  # away from the driver that lies beside the stand-in
mkdir "$folder/bin" "$folder/lib"
cp "$program" "$folder/bin/zero_launch"
ln -s "$library" "$(dirname "$library")/libzero_mpi.so" "$standin" "$folder/lib/"
ln -s "$driver" "$folder/lib/libcuda.so.1"
export LD_LIBRARY_PATH=$folder/lib

fail() {
  echo "$1"
  exit 1
}
