# Sourced after common.sh: Python with the libraries against which models are compared.
transformers_version=5.23.0
torchvision_version=0.26.0  # for the torch that is there
peft_version=0.21.0
trl_version=1.16.0  # for its chat templates
transformers_4_version=4.57.6  # what many still use; exports must load there, too

# Print the Python that has PACKAGE==VERSION and OTHERS; make its environment first where it is not there. torch is the
# one that is there already.
python_with() {
  local package="$1" version="$2" home torch_packages
  home="$(dirname "$zero_venv")/$package-$version"
  if [ ! -e "$home/complete" ]; then
    say "getting $package $version into $home"
    torch_packages="$(echo "$zero_venv"/lib/python3*/site-packages)"
    rm -rf "$home"
    "$zero_venv/bin/python" -m venv "$home"
    echo "$torch_packages" >"$(echo "$home"/lib/python3*/site-packages)/torch.pth"
    "$home/bin/pip" install --quiet --disable-pip-version-check "$package==$version" "${@:3}" >&2
    touch "$home/complete"
  fi
  echo "$home/bin/python"
}
peft_python() { python_with peft "$peft_version" "transformers==$transformers_version"; }
transformers_python() { python_with transformers "$1"; }
torchvision_python() { python_with torchvision "$torchvision_version" --no-deps pillow; }
