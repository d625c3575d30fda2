# Two commands do all the set-up on a machine with Rust: `make run` and `make test`.

.PHONY: run test wheel integrations bench bench-torch bench-peers bench-compiled bench-collectives simulate faults interrupts soak fuzz report launch-files

# The main job: a Llama that generates on the device; then the device from Python, how a tensor lies
# on it, and a tiled launch. All of it is compiled once, optimised.
run:
	tools/python-env
	mkdir -p target/tour
	.venv/bin/python examples/python/04-llama.py --trace target/tour/llama.pftrace
	.venv/bin/python examples/python/01-first-tensor.py
	.venv/bin/python examples/python/02-streams-and-events.py
	cargo run --quiet --release --example 01-layout -- --svg target/tour/layout.svg
	cargo build --release -p spyre-cli
	rm -rf target/tour/matmul
	target/release/spyre plan matmul --output target/tour/matmul --tile 64,64,64
	target/release/spyre run target/tour/matmul --shape m=256 --fill random --repeat 5
	target/release/spyre trace target/tour/matmul --shape m=256 --fill random \
		--output target/tour/trace.json

# Every check: format, lints, docs, tests, doc-tests, examples, a look at the benchmarks.
test:
	tools/check

# A .venv with PyTorch and the device "spyre".
wheel:
	tools/python-env

# Packages beside PyTorch: installs all of them, prints their versions and runs tiny models of each.
integrations:
	tools/python-env
	tools/integrations

# Every benchmark against its peer; fails if a ratio misses its bar.
bench:
	cargo run --quiet --release -p spyre-bench -- --check

# What the PyTorch device costs beside CPU tensors; fails if a ratio misses its bar.
bench-torch:
	tools/python-env
	.venv/bin/python crates/bench/torch/torch_overhead.py --check

# What kernels reach beside PyTorch's on the CPU; fails if a ratio misses its bar.
bench-peers:
	tools/python-env
	.venv/bin/python crates/bench/torch/peers.py --check

# What compiled graphs reach beside eager ones, and what compiling costs; fails if a ratio misses its bar.
bench-compiled:
	tools/python-env
	.venv/bin/python crates/bench/torch/compiled.py --check
	.venv/bin/python crates/bench/torch/compile_costs.py --check

# What collectives of several processes reach beside Gloo's of CPU tensors; fails if a ratio misses its bar.
bench-collectives:
	tools/python-env
	.venv/bin/python crates/bench/torch/collectives.py --check
	.venv/bin/python crates/bench/torch/sharded_steps.py --check
	.venv/bin/python crates/bench/torch/peer_copies.py --check

# 20 million operations on simulated cards with faults, over 2,000 seeds, against an oracle.
simulate:
	cargo run --quiet --release -p spyre-simulation -- --seeds 2000 --operations 10000

# 2,000 random programs with faults on several streams, against a model on the CPU.
faults:
	tools/python-env
	cd python/tests && ../../.venv/bin/python -m faults.run --programs 2000

# Ctrl-C in every kind of wait, 200 times; fails if one takes longer than 100 ms.
interrupts:
	tools/python-env
	cd python/tests && ../../.venv/bin/python -m interrupts.run --tries 200 --check

# 30 minutes of training, generating, random shapes and faults; fails if the process grows.
soak:
	tools/python-env
	.venv/bin/python tools/soak.py --minutes 30

# 10 million hostile plans, images, word tables and launches, with overflow checks and assertions.
fuzz:
	cargo run --quiet --profile test -p spyre-fuzz -- --inputs 10000000

# Sizes, circles, unsafe blocks and budgets, beside those of the last review.
report:
	tools/report

# Files that a warm launch passes, from the op to the card's loop and back; rewrites them in the documents.
launch-files:
	tools/python-env
	tools/launch-files --write
