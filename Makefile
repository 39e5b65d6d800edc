# Every target needs Go and nothing else.
GO ?= go

.PHONY: test lint generate bench build clean

# The test command of the README: formatting, vet, the requirement lint, every
# generated file fresh, all tests under the race detector, and without it the proof
# of a fault for each requirement and of every variant. The lint and the freshness
# checks are tests of their own.
test: lint
	$(GO) test -race -timeout 15m $$($(GO) list ./... | grep -v cmd/internal/proof)
	$(GO) test -timeout 30m ./cmd/internal/proof

lint:
	@unformatted="$$(gofmt -l .)"; if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	$(GO) vet ./...

generate:
	$(GO) generate ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

build:
	$(GO) build -o bin/wopcert ./cmd/wopcert

clean:
	rm -rf bin wopcert-evidence
