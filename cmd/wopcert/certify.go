package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wopcert/bundle"
	"wopcert/cmd/internal/certify"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/scenarios"
)

// Default environment variables of the credentials.
const (
	envAPIKey            = "WOPCERT_API_KEY"
	envOtherTenantKey    = "WOPCERT_OTHER_TENANT_KEY"
	envReadOnlyKey       = "WOPCERT_READ_ONLY_KEY"
	envProductionKey     = "WOPCERT_PRODUCTION_KEY"
	envApproverKey       = "WOPCERT_APPROVER_KEY"
	envSecondApproverKey = "WOPCERT_SECOND_APPROVER_KEY"
	envOverrideKey       = "WOPCERT_OVERRIDE_KEY"
	defaultOut           = "wopcert-evidence"
)

// minKey is the least length of a credential, in bytes. A shorter one would
// turn up by chance in what hosts answer, and could not be told from it.
const minKey = 8

// certifyFlags are the flags of certify as given; what is left out comes from
// the configuration file, then from the defaults.
type certifyFlags struct {
	host                                        string
	referenceHost                               bool
	apiKeyEnv, otherEnv, readEnv, productionEnv string
	approverEnv, secondApproverEnv, overrideEnv string
	approver                                    harness.ApproverRefs
	signingKey, keyID, hostBuild                string
	out, config                                 string
	failOn, expected                            string
	corpus                                      string
	watch                                       bool
	receiver                                    receiverFlags
	recovery                                    recoveryFlags
	shard                                       shardFlags
	scenarios, requirements                     []string
	profiles, optOuts                           []string
	parallel                                    int
	timeout                                     time.Duration
	hostHint                                    string          // how to name a host, "" for certify's own
	given                                       map[string]bool // flags on the command line
}

// defineTarget defines the flags that say which host is meant and what is given for it.
func (f *certifyFlags) defineTarget(flags *pflag.FlagSet) {
	flags.StringVar(&f.host, "host", "", "base URL of the host")
	flags.StringVar(&f.apiKeyEnv, "api-key-env", "", "environment variable that holds the key (default "+envAPIKey+")")
	flags.StringVar(&f.otherEnv, "other-tenant-key-env", "", "environment variable that holds a key of a second tenant (default "+envOtherTenantKey+")")
	flags.StringVar(&f.readEnv, "read-only-key-env", "", "environment variable that holds a key that may only read (default "+envReadOnlyKey+")")
	flags.StringVar(&f.productionEnv, "production-key-env", "", "environment variable that holds a key of the first tenant that is no test key (default "+envProductionKey+")")
	flags.StringVar(&f.approverEnv, "approver-key-env", "", "environment variable that holds a key of a second principal of the first tenant, who approves (default "+envApproverKey+")")
	flags.StringVar(&f.secondApproverEnv, "second-approver-key-env", "", "environment variable that holds a key of a third principal of the first tenant (default "+envSecondApproverKey+")")
	flags.StringVar(&f.overrideEnv, "override-key-env", "", "environment variable that holds a key of the principal whom the host lets override a quorum (default "+envOverrideKey+")")
	flags.StringVar(&f.approver.Principal, "approver-id", "", "the approver as approversList names it (default: the subjectId that a run of the approver shows)")
	flags.StringVar(&f.approver.Group, "approver-group", "", "a group the approver is a member of, and the first key's principal is not")
	flags.StringVar(&f.approver.Role, "approver-role", "", "a role the second approver holds, and the first key's principal does not")
	flags.StringVar(&f.approver.Override, "override-role", "", "the role that makes the override principal one")
	f.receiver.define(flags)
	f.recovery.define(flags)
	flags.StringVar(&f.signingKey, "signing-key", "", "Ed25519 private key to sign with, PEM PKCS#8 or OpenSSH (default: an ephemeral key, which proves integrity only)")
	flags.StringVar(&f.keyID, "key-id", "", "id under which the host's discovery document publishes the key")
	flags.StringArrayVar(&f.scenarios, "scenario", nil, "only scenarios that match this glob (repeatable)")
	flags.StringArrayVar(&f.requirements, "requirement", nil, "only the scenario of this requirement (repeatable)")
	flags.StringArrayVar(&f.profiles, "profile", nil, "only the floor of this profile, and ask for its certification (repeatable)")
	flags.StringArrayVar(&f.optOuts, "opt-out", nil, "leave out a capability family the host does not offer (repeatable)")
	flags.StringVar(&f.corpus, "corpus", "", "folder of an installed "+corpus.PackageName+", whose schemas and version take the place of this program's own")
	flags.StringVar(&f.config, "config", "", "configuration file (default "+certify.DefaultConfig+" when it exists)")
}

func certifyCommand(s streams) *cobra.Command {
	var f certifyFlags
	c := &cobra.Command{
		Use:   "certify --host URL | --reference-host",
		Short: "Drive the suite against a host and write signed evidence",
		Long: `Drives the scenarios against a host, captures what crossed the wire and writes
an evidence directory with a signed certification bundle.

Keys come from the environment, never from the command line. Exit code 0 means
certified, 1 that a requirement failed or a profile asked for is not certified,
2 a wrong command line, 3 that the host could not be measured or rows are blocked.`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	f.defineTarget(flags)
	flags.BoolVar(&f.referenceHost, "reference-host", false, "certify the bundled reference host instead")
	flags.StringVar(&f.hostBuild, "host-build", "", "build the evidence is about: image-digest:ID, commit:ID or artifact-sha256:ID")
	flags.StringVar(&f.out, "out", "", "directory for the evidence (default "+defaultOut+")")
	flags.IntVar(&f.parallel, "parallel", 0, fmt.Sprintf("tests at a time (default %d)", harness.DefaultParallel))
	flags.DurationVar(&f.timeout, "timeout", 0, fmt.Sprintf("deadline of one test (default %s)", harness.DefaultTimeout))
	flags.StringVar(&f.failOn, "fail-on", failOnUncertified, "what ends in an exit code other than 0, each with those before it: "+strings.Join(failOnLevels(), ", "))
	flags.StringVar(&f.expected, "expected-failures", "", "list of failures that do not end the build: entries of requirement, reason and until")
	f.shard.define(flags)
	flags.BoolVar(&f.watch, "watch", false, "when the host changes, run again what failed or was blocked, until Ctrl-C; the evidence goes to OUT-2, OUT-3, …")
	out := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		f.given = map[string]bool{}
		cmd.Flags().Visit(func(g *pflag.Flag) { f.given[g.Name] = true })
		if f.given["out"] && f.out == "" {
			return usageError("leave it out for "+defaultOut, "--out names no directory")
		}
		if err := f.refuseWatch(out.json()); err != nil {
			return err
		}
		return runCertify(cmd, s, f, out.json())
	}
	return c
}

func runCertify(cmd *cobra.Command, s streams, f certifyFlags, asJSON bool) error {
	judged, err := newJudgement(f.failOn, f.expected)
	if err != nil {
		return err
	}
	q, err := f.request()
	if err != nil {
		return certifyError(err)
	}
	q.Judge, q.Again = judged.judge, f.again(cmd.Flags(), q.HostURL)
	if f.watch {
		return watch(cmd.Context(), s, q, judged)
	}
	result, err := certifyOnce(cmd.Context(), s, q, asJSON)
	if err != nil {
		return err
	}
	return answered(judged.code(result))
}

// certifyError maps what can go wrong before there is a result to exit codes.
func certifyError(err error) error {
	var selection *certify.SelectionError
	var evidence *certify.EvidenceError
	var config *certify.ConfigError
	var discovery *harness.DiscoveryError
	var credential *harness.CredentialError
	var optOut *harness.OptOutError
	var target *certify.ReceiverError
	switch {
	case errors.As(err, &target):
		return usageError(target.Hint, "%s", target.Text)
	case errors.As(err, &optOut):
		return usageError("only a family that the host does not offer can be left out; a verifier rejects such a bundle", "%s", optOut)
	case errors.As(err, &credential):
		return unknownError(credential.Hint(), "%s", credential)
	case errors.As(err, &selection):
		return usageError(selection.Hint, "%s", selection.Text)
	case errors.As(err, &evidence):
		return usageError(evidence.Hint, "%s", evidence.Text)
	case errors.As(err, &config):
		return usageError(config.Hint, "%s", config.Text)
	case errors.As(err, &discovery):
		return unknownError(discovery.Hint, "discovery at %s: %s", discovery.URL, discovery.Why)
	}
	return err
}

// request merges flags, configuration file and defaults.
func (f certifyFlags) request() (certify.Request, error) {
	var q certify.Request
	config, err := certify.ReadConfig(f.config)
	if err != nil {
		return q, err
	}
	if f.given["corpus"] && f.corpus == "" {
		return q, usageError("leave it out for this program's own contract", "--corpus names no folder")
	}
	contract, err := loadContract(first(f.corpus, config.Corpus))
	if err != nil {
		return q, err
	}
	q.Corpus = contract
	q.HostURL = first(f.host, config.Host)
	q.ReferenceHost = f.referenceHost
	switch {
	case f.host != "" && f.referenceHost:
		return q, usageError("give one of them", "--host and --reference-host exclude each other")
	case f.referenceHost:
		q.HostURL = ""
	case q.HostURL == "":
		return q, usageError(first(f.hostHint, "give --host URL, or --reference-host to try the suite on the bundled host"), "no host to certify")
	default:
		if _, err := harness.ParseBaseURL(q.HostURL); err != nil {
			return q, usageError("", "%v", err)
		}
	}
	if err := f.credentials(&q, config); err != nil {
		return q, err
	}
	q.Out = first(f.out, config.Out, defaultOut)
	q.Selection = certify.Selection{
		Scenarios:    firstList(f.scenarios, config.Scenarios),
		Requirements: firstList(f.requirements, config.Requirements),
		Profiles:     firstList(f.profiles, config.Profiles),
	}
	if q.Scenarios, err = q.Selection.Apply(scenarios.All(), contract); err != nil {
		return q, err
	}
	if err := f.bounds(&q, config, contract); err != nil {
		return q, err
	}
	if err := f.shard.apply(&q, f.given["shard"]); err != nil {
		return q, err
	}
	if err := f.receiver.apply(&q, config); err != nil {
		return q, err
	}
	if err := f.recovery.apply(&q, config); err != nil {
		return q, err
	}
	return q, f.signing(&q, config)
}

func (f certifyFlags) bounds(q *certify.Request, config certify.Config, contract *corpus.Corpus) error {
	q.OptOuts = firstList(f.optOuts, config.OptOuts)
	for _, family := range q.OptOuts {
		if _, ok := contract.Family(family); !ok {
			return usageError("run wopcert list families for the names", "no capability family %q to opt out of", family)
		}
	}
	q.Parallel, q.Timeout = f.parallel, f.timeout
	if q.Parallel == 0 {
		q.Parallel = config.Parallel
	}
	if q.Timeout == 0 && config.Timeout != "" {
		q.Timeout, _ = time.ParseDuration(config.Timeout) // checked when the file was read
	}
	if q.Parallel < 0 || q.Timeout < 0 || f.given["parallel"] && f.parallel == 0 || f.given["timeout"] && f.timeout == 0 {
		return usageError("leave them out for the defaults", "--parallel and --timeout must be positive")
	}
	return nil
}

// credentials reads the keys from the environment. A variable that is named
// but empty is a mistake worth stopping for; an unnamed default may be absent.
func (f certifyFlags) credentials(q *certify.Request, config certify.Config) error {
	for _, k := range []struct {
		flag, value, fallback string
		into                  *string
	}{
		{"--api-key-env", first(f.apiKeyEnv, config.APIKeyEnv), envAPIKey, &q.Credentials.Primary},
		{"--other-tenant-key-env", first(f.otherEnv, config.OtherTenantKeyEnv), envOtherTenantKey, &q.Credentials.OtherTenant},
		{"--read-only-key-env", first(f.readEnv, config.ReadOnlyKeyEnv), envReadOnlyKey, &q.Credentials.ReadOnly},
		{"--production-key-env", first(f.productionEnv, config.ProductionKeyEnv), envProductionKey, &q.Credentials.Production},
		{"--approver-key-env", first(f.approverEnv, config.ApproverKeyEnv), envApproverKey, &q.Credentials.Approver},
		{"--second-approver-key-env", first(f.secondApproverEnv, config.SecondApproverKeyEnv), envSecondApproverKey, &q.Credentials.SecondApprover},
		{"--override-key-env", first(f.overrideEnv, config.OverrideKeyEnv), envOverrideKey, &q.Credentials.Override},
	} {
		name := first(k.value, k.fallback)
		key := os.Getenv(name)
		if key == "" && k.value != "" {
			// The name is not repeated: a key given in its place would end in a log.
			return usageError("give the name of the variable, not the key, and export it; or leave "+k.flag+" out",
				"%s names an environment variable that is not set", k.flag)
		}
		if strings.ContainsAny(key, "\r\n\x00") || key != strings.TrimSpace(key) {
			return usageError("export the key alone, without a line end", "the key that %s names holds white space or a line end", k.flag)
		}
		if key != "" && len(key) < minKey {
			return usageError("a key this short cannot be kept out of what is written", "the key that %s names has fewer than %d characters", k.flag, minKey)
		}
		*k.into = key
	}
	q.Approver = harness.ApproverRefs{
		Principal: first(f.approver.Principal, config.ApproverID),
		Group:     first(f.approver.Group, config.ApproverGroup),
		Role:      first(f.approver.Role, config.ApproverRole),
		Override:  first(f.approver.Override, config.OverrideRole),
	}
	return nil
}

func (f certifyFlags) signing(q *certify.Request, config certify.Config) error {
	path, id := first(f.signingKey, config.SigningKey), first(f.keyID, config.KeyID)
	switch {
	case path == "" && id != "":
		return usageError("give --signing-key FILE with it", "--key-id names a key, but there is no signing key")
	case path != "":
		key, err := bundle.LoadPrivateKey(path, id)
		if err != nil {
			return usageError("", "%v", err)
		}
		q.SigningKey, q.KeyIDGiven = &key, id != ""
	}
	text := first(f.hostBuild, config.HostBuild)
	if text == "" {
		return nil
	}
	kind, build, ok := strings.Cut(text, ":")
	if !ok || build == "" || (kind != "image-digest" && kind != "commit" && kind != "artifact-sha256") {
		return usageError("as in --host-build commit:5aa8686e or --host-build image-digest:sha256:…", "host build %q is not KIND:ID with a kind of image-digest, commit or artifact-sha256", text)
	}
	q.HostBuild = &bundle.HostBuild{Kind: kind, ID: build}
	return nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func firstList(lists ...[]string) []string {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}
