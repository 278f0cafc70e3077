#!/bin/sh
# Install Debian packages for another script: ops/apt.sh LABEL TARGET ADVICE PACKAGE...
# LABEL begins every message, TARGET is the make target to try again, ADVICE the way without apt-get.
set -eu
label=$1 target=$2 advice=$3
shift 3

if ! command -v apt-get > /dev/null; then
  echo "$label: no apt-get here, so this script cannot install: $*" >&2
  echo "$advice" >&2
  exit 1
fi
run=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "$label: installing packages needs root, and there is no sudo." >&2
    echo "Run as root: apt-get update && apt-get install --no-install-recommends $*" >&2
    exit 1
  fi
  run=sudo
fi
export DEBIAN_FRONTEND=noninteractive
if ! { $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends "$@"; }; then
  echo "$label: apt-get could not install $* (see above)." >&2
  echo "Look at the package sources and the network, then run this again: make $target" >&2
  exit 1
fi
