#!/bin/sh
# Install the browser that tests/browser and `make pictures` drive: Debian's Chromium, by apt-get.
set -eu

for name in chromium chromium-browser google-chrome; do
  if path=$(command -v "$name"); then
    echo "browser: $path"
    exit 0
  fi
done

if ! command -v apt-get > /dev/null; then
  echo "browser: no apt-get here, so Chromium cannot be installed by this script." >&2
  echo "Install Chromium or Chrome another way and put it on PATH as chromium or google-chrome." >&2
  exit 1
fi

run=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "browser: installing packages needs root, and there is no sudo." >&2
    echo "Run as root: apt-get update && apt-get install --no-install-recommends chromium" >&2
    exit 1
  fi
  run=sudo
fi

export DEBIAN_FRONTEND=noninteractive
if ! { $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends chromium fonts-dejavu; }; then
  echo "browser: apt-get could not install chromium (see above)." >&2
  echo "Look at the package sources and the network, then run this again: make browser-setup" >&2
  exit 1
fi
echo "browser: $(command -v chromium)"
