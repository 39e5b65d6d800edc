package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"wopcert/corpus"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
	"wopcert/report"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// completionCommand replaces cobra's, which ends well for a shell that is none.
func completionCommand(s streams, root *cobra.Command) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print what makes a shell complete commands, flags and ids",
		Long: `Prints a script for the shell named. To use it in the present shell:
  bash        source <(wopcert completion bash)
  zsh         source <(wopcert completion zsh)
  fish        wopcert completion fish | source
  powershell  wopcert completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(s.out, true); err != nil {
					return err
				}
				_, err := io.WriteString(s.out, bashAlone)
				return err
			case "zsh":
				return root.GenZshCompletion(s.out)
			case "fish":
				return root.GenFishCompletion(s.out, true)
			}
			return root.GenPowerShellCompletionWithDesc(s.out)
		},
	}
}

// bashAlone makes the script work in a bash that has no bash-completion package: what it takes of that is little.
const bashAlone = `
if ! declare -F _init_completion >/dev/null && ! declare -F _get_comp_words_by_ref >/dev/null; then
    __wopcert_init_completion()
    {
        COMPREPLY=()
        words=("${COMP_WORDS[@]}")
        cword=$COMP_CWORD
        cur=${words[cword]}
        prev=${words[cword-1]}
    }
fi
`

// completeIDs tells the shell what can stand as an argument or a flag of the commands that take ids.
func completeIDs(root *cobra.Command) {
	flags := map[string]func() []cobra.Completion{
		"scenario": scenarioIDs, "requirement": requirementIDs, "profile": profileIDs, "require": profileIDs,
		"opt-out": familyIDs, "fault": faultIDs, "variant": variantIDs,
		"only":    func() []cobra.Completion { return report.Kinds() },
		"format":  func() []cobra.Completion { return []cobra.Completion{"text", "json"} },
		"fail-on": func() []cobra.Completion { return failOnLevels() },
	}
	arguments := map[string]func() []cobra.Completion{
		"explain":  func() []cobra.Completion { return append(requirementIDs(), scenarioIDs()...) },
		"faults":   faultIDs,
		"variants": variantIDs,
	}
	for _, c := range root.Commands() {
		if ids, ok := arguments[c.Name()]; ok {
			c.ValidArgsFunction = completing(ids)
		}
		for name, ids := range flags {
			if c.Flags().Lookup(name) != nil {
				// The flag is there, and nothing else has registered it: there is no error to have.
				_ = c.RegisterFlagCompletionFunc(name, completing(ids))
			}
		}
	}
}

func completing(ids func() []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var fitting []cobra.Completion
		for _, id := range ids() {
			if strings.HasPrefix(id, typed) {
				fitting = append(fitting, id)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	}
}

// requirementIDs are the short forms; the commands take both.
func requirementIDs() (ids []cobra.Completion) {
	for _, r := range requirements.All() {
		ids = append(ids, cobra.CompletionWithDesc(strings.TrimPrefix(string(r.ID), requirements.Prefix), r.Level+" "+r.Document+" "+r.Section))
	}
	return ids
}

func scenarioIDs() (ids []cobra.Completion) {
	for _, s := range scenarios.All() {
		ids = append(ids, cobra.CompletionWithDesc(s.ID, s.Title))
	}
	return ids
}

func profileIDs() (ids []cobra.Completion) {
	contract, err := corpus.Load()
	if err != nil {
		return nil
	}
	for _, p := range contract.Profiles() {
		ids = append(ids, p.ID)
	}
	return ids
}

func familyIDs() (ids []cobra.Completion) {
	contract, err := corpus.Load()
	if err != nil {
		return nil
	}
	for _, f := range contract.Families() {
		ids = append(ids, f.Key)
	}
	return ids
}

func faultIDs() (ids []cobra.Completion) {
	for _, f := range faults.All() {
		ids = append(ids, cobra.CompletionWithDesc(f.ID, f.Summary))
	}
	return ids
}

func variantIDs() (ids []cobra.Completion) {
	for _, v := range variants.All() {
		ids = append(ids, cobra.CompletionWithDesc(v.ID, v.Summary))
	}
	return ids
}
