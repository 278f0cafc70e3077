#!/bin/sh
# Install the browser that tests/browser and `make pictures` drive: Debian's Chromium, by apt-get.
set -eu

for name in chromium chromium-browser google-chrome; do
  if path=$(command -v "$name"); then
    echo "browser: $path"
    exit 0
  fi
done

"${0%/*}/apt.sh" browser browser-setup \
  "Install Chromium or Chrome another way and put it on PATH as chromium or google-chrome." \
  chromium fonts-dejavu
echo "browser: $(command -v chromium)"
