#!/usr/bin/env bash
# page-test.sh: the admin page in Chromium, beside a partner and some traffic, with the actions of an operator. Screenshots: bin/page.
set -euo pipefail
cd "$(dirname "$0")/.."
chromium=${CHROMIUM:-$(command -v chromium || true)}
for need in node npm; do command -v $need >/dev/null || { echo "page-test: skipped: $need is not installed"; exit 0; }; done
[[ -x $chromium ]] || { echo "page-test: skipped: no chromium; set CHROMIUM, or install Debian's package"; exit 0; }
make -s build
bin=$PWD/bin work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
cp -r test/page "$work/test" # node_modules stays out of the tree
(cd "$work/test" && npm ci --ignore-scripts --no-audit --no-fund >/dev/null)
port() { node -e 'const s=require("net").createServer();s.listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }
acme=$(port) beta=$(port) admin=$(port)
"$bin/swpd" init --dir "$work/acme" --name spiffe://acme.example/swpd --listen 127.0.0.1:"$acme" --admin 127.0.0.1:"$admin" >/dev/null
"$bin/swpd" init --dir "$work/beta" --name spiffe://beta.example/swpd --listen 127.0.0.1:"$beta" --admin off --partner "$work/acme" >/dev/null
token=$(node -p 'require("crypto").randomBytes(16).toString("hex")')
sum=$(printf %s "$token" | sha256sum | cut -c1-64)
sed -i "s/^admin: .*/admin: {address: '127.0.0.1:$admin', actions: {alice: {tokens: [$sum]}}}/" "$work/acme/swpd.yaml"
for one in acme beta; do "$bin/swpd" run --config "$work/$one/swpd.yaml" >"$work/$one.log" 2>&1 & done
client=("$bin/swp-client" --identity "$work/acme/pki")
for _ in {1..100}; do "${client[@]}" ping "swp+tls://127.0.0.1:$acme" >/dev/null 2>&1 && break; sleep 0.1; done
at=swp+tls://127.0.0.1:$acme
"${client[@]}" events subscribe "$at" --name page >/dev/null 2>&1 & # a session that stays, for an operator to end
"${client[@]}" artifact put "$at" "$work/acme/swpd.yaml" --id page >/dev/null
"${client[@]}" state put "$at" blob >/dev/null
"${client[@]}" relay publish "$at" orders payload >/dev/null
while true; do
  "${client[@]}" ping "swp+tls://127.0.0.1:$acme" || true
  "$bin/swp-client" --identity "$work/beta/pki" --ca "$work/acme/pki/ca.crt" ping "swp+tls://127.0.0.1:$acme" || true # no rule for it
  seq 200 | "${client[@]}" events publish "swp+tls://127.0.0.1:$acme" --type test.page --lines || true
  sleep 0.5
done >/dev/null 2>&1 &
CHROMIUM=$chromium TOKEN=$token node "$work/test/page.mjs" "http://127.0.0.1:$admin/" bin/page
