package certify

import (
	"context"

	"wopcert/harness"
	"wopcert/report"
)

// Survey looks at the host as Run would, without running a test and without writing
// anything. The notes say what is wrong with the signing key, if one was given. The
// error is a *harness.DiscoveryError, beside findings, where the host cannot be measured.
func Survey(ctx context.Context, q Request) (findings *harness.Findings, notes []string, err error) {
	target, err := q.startReceiver()
	if err != nil {
		return nil, nil, err
	}
	if target.Server != nil {
		defer target.Server.Close()
	}
	findings, err = harness.Survey(ctx, q.options(target))
	if err != nil || q.SigningKey == nil {
		return findings, nil, err
	}
	var c report.Certification
	if _, err := q.key(findings.Host.Discovery, &c); err != nil {
		return findings, nil, err
	}
	return findings, c.Notes, nil
}
