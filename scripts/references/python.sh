# Sourced after common.sh: Python with Hugging Face's libraries, against which models are compared.
transformers_version=5.23.0
transformers_4_version=4.57.6  # what many still use; exports must load there, too

# Print the Python that has transformers VERSION; make its environment first where it is not there. torch is the one that
# is there already.
transformers_python() {
  local version="$1" home torch_packages
  home="$(dirname "$zero_venv")/transformers-$version"
  if [ ! -e "$home/complete" ]; then
    say "getting transformers $version into $home"
    torch_packages="$(echo "$zero_venv"/lib/python3*/site-packages)"
    rm -rf "$home"
    "$zero_venv/bin/python" -m venv "$home"
    echo "$torch_packages" >"$(echo "$home"/lib/python3*/site-packages)/torch.pth"
    "$home/bin/pip" install --quiet --disable-pip-version-check "transformers==$version" >&2
    touch "$home/complete"
  fi
  echo "$home/bin/python"
}
