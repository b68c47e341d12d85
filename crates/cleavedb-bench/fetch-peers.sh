#!/usr/bin/env bash
# Fetches the shared libraries of the peers that are not built from Rust, and checks them.
#
#   crates/cleavedb-bench/fetch-peers.sh [FOLDER]     default: target/peers
#   export CLEAVEDB_PEERS=FOLDER
#
# RocksDB: the library inside the Maven artifact org.rocksdb:rocksdbjni has the whole C interface.
# LevelDB: Debian's package, with the snappy it links to; elsewhere install it from the system's
# packages, where it is found without CLEAVEDB_PEERS as well. Linux x86-64 only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

ROCKSDB=11.8.1
ROCKSDB_SHA256=628ed387887f4a431df480857954df2a28b4389bfe24858ccdec611cabf65dbf
MAVEN=${MAVEN:-https://repo1.maven.org/maven2}

folder=${1:-target/peers}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "only for Linux x86-64" >&2; exit 1; }

jar="$work/rocksdbjni.jar"
curl -fsSL -o "$jar" "$MAVEN/org/rocksdb/rocksdbjni/$ROCKSDB/rocksdbjni-$ROCKSDB.jar"
echo "$ROCKSDB_SHA256  $jar" | sha256sum --check --quiet
if command -v unzip >/dev/null; then
    unzip -qo "$jar" librocksdbjni-linux64.so -d "$folder"
else
    (cd "$folder" && python3 -m zipfile -e "$jar" "$work/jar" && cp "$work/jar/librocksdbjni-linux64.so" .)
fi
echo "rocksdb $ROCKSDB: $folder/librocksdbjni-linux64.so"

# apt checks the packages against the signed index of the distribution.
if command -v apt-get >/dev/null && (cd "$work" && apt-get download -qq libleveldb1d libsnappy1v5 2>/dev/null); then
    for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
    find "$work/root" -name 'libleveldb.so.1d' -o -name 'libsnappy.so.1' | while read -r library; do
        cp -L "$library" "$folder/"
    done
    echo "leveldb: $folder/libleveldb.so.1d, snappy beside it"
else
    echo "leveldb: absent, no Debian package at hand; install it from the system's packages" >&2
fi
echo "export CLEAVEDB_PEERS=$folder"
