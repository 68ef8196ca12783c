# The two commands a newcomer needs: `make demo` and `make test`.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: build test demo

build:
	cargo build --locked --release

test:
	cargo test --locked --workspace

demo: build
