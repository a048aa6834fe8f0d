#!/usr/bin/env bash
# Builds all that a release consists of from the commit that is checked out,
# twice, in different directories and with a cache of its own the second time,
# compares the results byte for byte and leaves them in dist/:
#
#	packaging/dist.sh OS/ARCH...
#
# Changes that are not committed are no part of it. bin/ has the tools.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin
export CGO_ENABLED=0 TZ=UTC LC_ALL=C GOFLAGS=-mod=readonly GOWORK=off
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
[ -z "$(git status --porcelain)" ] || echo "dist.sh: what is not committed is left out" >&2

umask 022
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

# platform OUT NAME TARGET packs what is for one platform; the working
# directory is a checkout.
platform() {
	local out=$1 name=$2 os=${3%/*} arch=${3#*/} exe='' format=tar.gz
	if [ "$os" = windows ]; then exe=.exe format=zip; fi
	GOOS=$os GOARCH=$arch make -s build BIN="bin/$name/jobprobe$exe"
	cp -R LICENSE README.md bin/share "bin/$name"
	"$bin/archive" -epoch "$SOURCE_DATE_EPOCH" "$out/$name.$format" "bin/$name"
	"$bin/cyclonedx-gomod" bin -json -std -noserial -notimestamp -output "$out/$name.cdx.json" "bin/$name/jobprobe$exe"
	[ "$os" = linux ] || return 0
	make -s install BIN="bin/$name/jobprobe" DESTDIR="$PWD/bin/root-$arch" PREFIX=/usr
	mkdir -p "bin/root-$arch/usr/share/doc/jobprobe"
	cp LICENSE "bin/root-$arch/usr/share/doc/jobprobe/copyright"
	find "bin/root-$arch" -exec touch -t "$(git log -1 --format=%cd --date=format-local:%Y%m%d%H%M.%S)" {} +
	for packager in deb rpm; do
		GOARCH=$arch TREE=bin/root-$arch VERSION=$version \
			"$bin/nfpm" package -f packaging/nfpm.yaml -p "$packager" -t "$out/$name.$packager" >/dev/null
	done
}

# release SOURCE OUT TARGET... builds everything from a fresh clone.
release() {
	local source=$1 out=$2 target
	shift 2
	git clone -q --no-hardlinks . "$source"
	mkdir "$out"
	pushd "$source" >/dev/null
	make -s build share
	version=$(go version -m bin/jobprobe | awk '$1 == "mod" {print substr($3, 2)}')
	for target; do
		echo "$target"
		platform "$out" "jobprobe_${version}_${target/\//_}" "$target"
	done
	if grep -rlaF -e "$work" -e "$(go env GOMODCACHE)" -e "$(go env GOROOT)" bin; then
		echo "dist.sh: these name a path of this machine" >&2
		exit 1
	fi
	popd >/dev/null
	(cd "$out" && sums -- * >SHA256SUMS)
}

release "$work/once" "$work/first" "$@"
GOCACHE=$work/cache release "$work/and/once/more" "$work/second" "$@"
diff -r "$work/first" "$work/second"
rm -rf dist
cp -R "$work/first" dist
echo "dist/: built twice, the same both times"
