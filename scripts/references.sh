#!/usr/bin/env bash
# Make tests/references again: small models in Hugging Face's format, and what transformers and torchvision make of
# theirs.
#
#   scripts/references.sh [CASE...]    all cases without a name; regnet alone: what torchvision makes of its RegNets;
#                                      fine_tuning alone: what three of the models learn of conversations; chats alone: what
#                                      is trained of them by chat templates; trl alone: templates for trl_templates_test.py;
#                                      sampling alone: logits that filters leave; adapters alone: those of peft
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$zero_root/scripts/references/python.sh"

python="$(transformers_python "$transformers_version")"
export OMP_NUM_THREADS=1 TRANSFORMERS_OFFLINE=1 HF_HUB_OFFLINE=1
cd "$zero_root/scripts/references"
if [ "$*" = trl ]; then
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$(dirname "$zero_venv")/trl-$trl_version" \
    "trl==$trl_version"
  exit
fi
case "$*" in
  regnet | fine_tuning | chats | sampling | adapters) ;;
  *) "$python" make_fixtures.py "$zero_root/tests/references" "$@" ;;
esac
models="$zero_root/tests/references"
[ $# -gt 0 ] && [ "$*" != sampling ] || "$python" sampling.py "$models/sampling.json"
[ $# -gt 0 ] && [ "$*" != chats ] || "$python" chat_templates.py "$models/chat_templates.json"
[ $# -gt 0 ] && [ "$*" != fine_tuning ] || "$python" fine_tuning.py "$models" "$models/fine_tuning"
[ $# -gt 0 ] && [ "$*" != regnet ] || "$(torchvision_python)" regnet.py "$zero_root/tests/references/regnet.json"
[ $# -gt 0 ] && [ "$*" != adapters ] || "$(peft_python)" adapters.py "$models" "$models/adapters"
