# The two commands a newcomer needs are `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.PHONY: help build page release demo test install bench clean

help:
	@printf '%s\n' \
	  'make demo       install what is missing, build, and measure and compare shipped workloads (KEEP=1 leaves the page up)' \
	  'make test       set up the lab and pass every test' \
	  'make build      page and program, for development' \
	  'make release    page and program, optimised: target/release/metier' \
	  'make install    the program to PREFIX/bin (default /usr/local)' \
	  'make bench      the benchmarks, with peers in the same run' \
	  'make clean      remove what was built'

build: page
	cargo build --locked --workspace

page:
	@lab/lab up build
	@scripts/build-page

release: page
	cargo build --locked --release -p metier -p metier-burn

demo: release
	@scripts/demo

test:
	@scripts/test

PREFIX ?= /usr/local
install: release
	install -D -m 755 target/release/metier $(DESTDIR)$(PREFIX)/bin/metier

bench: release
	@missed=; for run in bench/*/run; do echo "== $$run"; $$run || missed="$$missed $$run"; done; \
	[ -z "$$missed" ] || { echo "missed:$$missed"; exit 1; }

clean:
	cargo clean
	rm -rf web/dist web/node_modules
