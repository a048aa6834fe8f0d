#!/usr/bin/env bash
# Checks what make dist left in dist/ for this machine's architecture and for
# Windows: the sums, what is inside, and that each binary runs, once unpacked
# or installed into a root of its own, and names the commit. Needs Debian's
# dpkg, rpm2cpio, cpio and unzip; the Windows binary is run where wine is.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
commit=$(git rev-parse HEAD)
arch=$(go env GOHOSTARCH)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

only() {
	if [ $# != 1 ] || [ ! -e "$1" ]; then
		echo "check.sh: not one file: $*" >&2
		exit 1
	fi
	printf '%s\n' "$here/$1"
}
sane() { tr -d '\r' <<<"$("$@" version)" | grep -x "commit $commit, clean"; }

(cd dist && sha256sum --quiet -c SHA256SUMS)

mkdir "$root/tar"
tar -xzf "$(only dist/*_linux_"$arch".tar.gz)" -C "$root/tar" --strip-components 1
ls "$root"/tar/{LICENSE,README.md} >/dev/null
sane "$root/tar/jobprobe"

# Installed and removed again; below the root are files and no links.
deb=$(only dist/*_linux_"$arch".deb)
dpkg-deb --info "$deb"
dpkg-deb --contents "$deb"
mkdir -p "$root"/deb/var/lib/dpkg/{info,updates}
touch "$root/deb/var/lib/dpkg/status"
dpkg --root="$root/deb" --force-not-root --log=/dev/null --install "$deb"
sane "$root/deb/usr/bin/jobprobe"
(cd "$root/deb" && find usr -type f) | sort >"$root/deb.files"
dpkg --root="$root/deb" --force-not-root --log=/dev/null --remove jobprobe
[ ! -e "$root/deb/usr/bin/jobprobe" ]

mkdir "$root/rpm"
rpm2cpio "$(only dist/*_linux_"$arch".rpm)" | (cd "$root/rpm" && cpio -id --quiet)
sane "$root/rpm/usr/bin/jobprobe"
(cd "$root/rpm" && find usr -type f) | sort | diff "$root/deb.files" -

unzip -q -d "$root/zip" "$(only dist/*_windows_amd64.zip)"
program=$(cd "$root/zip" && ls -d ./*/jobprobe.exe)
if command -v wine64 wine >/dev/null || [ -e /usr/lib/wine/wine64 ]; then
	sane testdata/wine/run.sh "$root/zip/$program"
else
	echo "check.sh: no wine: the Windows binary is not run"
fi

# A change that is not committed shows.
git clone -q . "$root/changed"
echo >>"$root/changed/README.md"
make -s -C "$root/changed" build
"$root/changed/bin/jobprobe" version | grep "^commit $commit, dirty"

# Installed by make and removed again, nothing is left.
make -s install uninstall DESTDIR="$root/make" PREFIX=/opt/jobprobe
[ -z "$(find "$root/make" -type f)" ]
