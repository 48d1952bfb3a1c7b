#!/usr/bin/env bash
# Disturb a small run before every call that it makes on its folder, and see that nothing is lost, silent, stuck or
# touched that is not its own. docs/reliability.md tells what is promised; --help lists the options.
set -euo pipefail
zero_own_help=yes
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in
  *" --help "* | *" -h "*) ;;
  *) ZERO_TARGET=crash_campaign "$zero_root/scripts/build.sh" >&2 ;;
esac
set_mpi_environment
exec python3 "$zero_root/tests/crash/campaign.py" --build "$zero_build" "$@"
