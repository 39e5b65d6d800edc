package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"wopcert/cmd/internal/certify"
	"wopcert/report"
)

// shardFlags choose one part of a divided run.
type shardFlags struct {
	part, costs string
}

func (f *shardFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.part, "shard", "", "run only the I-th of N parts, as I/N; the scenarios are divided by how long they take, and wopcert merge puts the parts together; parts never drive one host at the same time")
	flags.StringVar(&f.costs, "shard-costs", "", "results.json of an earlier run, by whose times to divide; all parts have to be given the same one (default: times measured on the reference host)")
}

// apply narrows a request, whose scenarios have been selected, to its part.
func (f shardFlags) apply(q *certify.Request, given bool) error {
	if !given {
		if f.costs != "" {
			return usageError("give --shard I/N with it", "--shard-costs divides a run, but there is no --shard")
		}
		return nil
	}
	index, count, err := certify.ParseShard(f.part)
	if err != nil {
		return err
	}
	costs, err := f.table()
	if err != nil {
		return err
	}
	return q.Divide(index, count, costs)
}

func (f shardFlags) table() (certify.Costs, error) {
	if f.costs == "" {
		return certify.MeasuredCosts()
	}
	const hint = "give the results.json of an earlier run, the same to every shard"
	data, err := report.ReadFile(os.DirFS(filepath.Dir(f.costs)), filepath.Base(f.costs))
	if err != nil {
		return nil, usageError(hint, "--shard-costs cannot be read: %v", err)
	}
	costs, err := certify.ReadCosts(data)
	if err != nil {
		return nil, usageError(hint, "--shard-costs %s: %v", f.costs, err)
	}
	return costs, nil
}
