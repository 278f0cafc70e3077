#!/bin/sh
# Install the sandbox that command, tests and lint checks run in: bubblewrap, by apt-get.
set -eu

works() {
  env -i "$1" --unshare-all --unshare-user --die-with-parent --ro-bind / / /bin/true
}

if ! path=$(command -v bwrap); then
  if ! command -v apt-get > /dev/null; then
    echo "sandbox: no apt-get here, so bubblewrap cannot be installed by this script." >&2
    echo "Install the package bubblewrap another way, so that bwrap is on PATH." >&2
    exit 1
  fi
  run=
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo > /dev/null; then
      echo "sandbox: installing packages needs root, and there is no sudo." >&2
      echo "Run as root: apt-get update && apt-get install --no-install-recommends bubblewrap" >&2
      exit 1
    fi
    run=sudo
  fi
  export DEBIAN_FRONTEND=noninteractive
  if ! { $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends bubblewrap; }; then
    echo "sandbox: apt-get could not install bubblewrap (see above)." >&2
    echo "Look at the package sources and the network, then run this again: make sandbox-setup" >&2
    exit 1
  fi
  path=$(command -v bwrap)
fi

if ! works "$path"; then
  echo "sandbox: $path is installed, but this machine does not let it make namespaces (see above)." >&2
  echo "In a container, allow user namespaces; elsewhere look at kernel.unprivileged_userns_clone" >&2
  echo "and kernel.apparmor_restrict_unprivileged_userns." >&2
  exit 1
fi
echo "sandbox: $path"
