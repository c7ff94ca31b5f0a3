#!/usr/bin/env bash
# Builds what a release has into a directory: packages.sh DIR ARCH...
# Nothing in it depends on the time or the place of the build: times are those of the commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go=${GO:-go} dist=$1
shift

seconds=$(git log -1 --format=%ct)
built=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ)

export SOURCE_DATE_EPOCH=$seconds CGO_ENABLED=0 GOOS=linux GOFLAGS=-trimpath

rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "packages: manual pages and completions"
host=$work/host
GOOS='' "$go" build -o "$host/" ./cmd/...
version=${VERSION:-$("$host/swpd" version | awk 'NR == 1 {print $2}')}
[[ $version =~ ^[0-9A-Za-z.+-]+$ ]] || {
  echo "packages: the version is \"$version\", want one word of letters, digits, dots, pluses and hyphens" >&2
  exit 1
}
# The package of a later commit has a later version.
package=${version/-dev+/-dev.$seconds+}
share=$work/share
mkdir -p "$share"/man/man1 "$share"/bash-completion/completions "$share"/zsh/site-functions "$share"/fish/vendor_completions.d
for p in swpd swp-client spec-vector-runner; do
  "$host/$p" man "$work/man"
  "$host/$p" completion bash >"$share/bash-completion/completions/$p"
  "$host/$p" completion zsh >"$share/zsh/site-functions/_$p"
  "$host/$p" completion fish >"$share/fish/vendor_completions.d/$p.fish"
  echo "packages: $p.cdx.json"
  $CYCLONEDX app -json -licenses -noserial -output "$dist/$p.cdx.json" -main "cmd/$p" . 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
  sed -i "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$built\"/" "$dist/$p.cdx.json"
done
for page in "$work"/man/*.1; do
  gzip -9n <"$page" >"$share/man/man1/$(basename "$page").gz"
done

for arch in "$@"; do
  echo "packages: $arch"
  tree=$work/$arch
  mkdir -p "$tree"
  GOARCH=$arch "$go" build -ldflags "-s -w -X main.version=$version" -o "$tree/bin/" ./cmd/...
  cp -r "$share" "$tree/share"
  for kind in deb rpm; do
    ARCH=$arch VERSION=$package DIST=$tree $NFPM package --config deploy/package/nfpm.yaml --packager $kind --target "$dist/" >"$work/log" || {
      cat "$work/log" >&2
      exit 1
    }
  done
  name=swp_${version}_linux_$arch
  mkdir "$work/$name"
  cp -r "$tree/bin" "$tree/share" LICENSE CHANGELOG.md README.md deploy "$work/$name/"
  tar -C "$work" --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
done
(cd "$dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
cat "$dist/SHA256SUMS"
