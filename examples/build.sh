#!/usr/bin/env bash
# Builds the modules of examples/module-* from source:
#   examples/build.sh [go] [c] [rust] [assemblyscript] [wat]      (default: all of them)
# into $OUT (default: .build/examples): module-LANGUAGE.wasm is the example, and
# conformance-LANGUAGE.wasm the module that abi/abitest checks; wat is conformance modules
# only. A compiler that is missing is named, with the package that has it on Debian, and
# fails the build; `examples/build.sh install` installs them all there, as root.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-.build/examples}

need() { # need COMMAND WHAT-TO-DO
	command -v "$1" >/dev/null && return
	echo "examples: there is no $1; $2" >&2
	exit 1
}

# Another Rust than Debian's may come first and have no library for Wasm.
rust() {
	local rustc
	for rustc in "${RUSTC:-rustc}" /usr/bin/rustc; do
		if command -v "$rustc" >/dev/null && [ -d "$("$rustc" --print sysroot)/lib/rustlib/wasm32-unknown-unknown" ]; then
			echo "$rustc"
			return
		fi
	done
	echo "examples: there is no rustc with the target wasm32-unknown-unknown; on Debian: apt-get install rustc libstd-rust-dev-wasm32 lld; with rustup: rustup target add wasm32-unknown-unknown" >&2
	exit 1
}

build_go() {
	need go "install Go 1.26 from https://go.dev/dl"
	local program
	for program in module conformance; do
		local package=./examples/module-go
		[ $program = module ] || package=./examples/module-go/conformance
		GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags='-s -w' -o "$OUT/$program-go.wasm" $package
	done
}

build_c() {
	need clang "on Debian: apt-get install clang"
	need wasm-ld "on Debian: apt-get install lld"
	local program
	for program in module conformance; do
		clang --target=wasm32 -std=c11 -Os -Wall -Wextra -Werror -nostdlib -ffreestanding -fno-builtin \
			-Wl,--no-entry -Wl,--strip-all -o "$OUT/$program-c.wasm" examples/module-c/$program.c
	done
}

build_rust() {
	local program rustc
	rustc=$(rust)
	for program in module conformance; do
		"$rustc" --edition 2021 --target wasm32-unknown-unknown --crate-type cdylib -D warnings \
			-C opt-level=s -C lto -C panic=abort -C strip=symbols -o "$OUT/$program-rust.wasm" examples/module-rust/$program.rs
	done
}

build_assemblyscript() {
	need npm "on Debian: apt-get install npm"
	# npm ci takes exactly what the lock file names, and needs to run only after it changed.
	local here=examples/module-assemblyscript program
	if [ ! -e $here/node_modules/.package-lock.json ] || [ $here/package-lock.json -nt $here/node_modules/.package-lock.json ]; then
		npm --prefix $here ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
	fi
	for program in module conformance; do
		npm --prefix $here run --silent build:$program
		mv $here/$program.wasm "$OUT/$program-assemblyscript.wasm"
	done
}

build_wat() {
	need wat2wasm "on Debian: apt-get install wabt"
	local shape
	for shape in javascript python dotnet haskell; do
		cat examples/module-wat/$shape.wat examples/module-wat/engine.wat >"$OUT/$shape.wat"
		wat2wasm --enable-tail-call "$OUT/$shape.wat" -o "$OUT/conformance-$shape.wasm"
	done
}

# What is there already is left alone: another version of it may have been chosen.
install() {
	local packages=()
	command -v clang >/dev/null || packages+=(clang)
	command -v wasm-ld >/dev/null || packages+=(lld)
	command -v wat2wasm >/dev/null || packages+=(wabt)
	command -v npm >/dev/null || packages+=(npm)
	(rust) >/dev/null 2>&1 || packages+=(rustc libstd-rust-dev-wasm32)
	[ ${#packages[@]} -eq 0 ] && return
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

mkdir -p "$OUT"
[ $# -gt 0 ] || set -- go c rust assemblyscript wat
for language; do
	case $language in
	install) install ;;
	go | c | rust | assemblyscript | wat) "build_$language" ;;
	*)
		echo "examples: there is no $language; choose from go, c, rust, assemblyscript, wat, install" >&2
		exit 2
		;;
	esac
done
