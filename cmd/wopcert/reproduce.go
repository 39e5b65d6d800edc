package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// again is what of a command line reaches the same host in the same way: the arguments of
// the command that reproduces a failure, but for the scenario. What narrows, divides, signs
// or judges the run is left out. The commands that kill and restart a host may hold what
// nobody should read in a report, so they are named by variables; keys are named by theirs
// already.
func (f certifyFlags) again(flags *pflag.FlagSet, hostURL string) string {
	var words []string
	if hostURL != "" && !f.given["host"] {
		words = append(words, "--host", shellWord(hostURL)) // it stood in the configuration
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if !f.given[flag.Name] {
			return
		}
		name := "--" + flag.Name
		switch flag.Name {
		case "scenario", "requirement", "profile", "out", "format", "watch", "shard", "shard-costs", "fail-on", "expected-failures", "signing-key", "key-id", "host-build":
		case "kill-cmd":
			words = append(words, name, `"$WOPCERT_KILL_CMD"`)
		case "restart-cmd":
			words = append(words, name, `"$WOPCERT_RESTART_CMD"`)
		default:
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				for _, value := range list.GetSlice() {
					words = append(words, name, shellWord(value))
				}
			} else if flag.Value.Type() == "bool" {
				words = append(words, name+strings.TrimSuffix("="+flag.Value.String(), "=true"))
			} else {
				words = append(words, name, shellWord(flag.Value.String()))
			}
		}
	})
	return strings.Join(words, " ")
}

// shellWord quotes a word where a shell would read it otherwise.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,+=@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return shellQuoted(s)
}
